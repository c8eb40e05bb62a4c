"""Reads the YAML in which a model describes itself, from anybody: mappings and lists of numbers, texts and truths.

Anchors, tags and dates have no place there and invite mischief, so they are refused or read as text.

Invariants: time and memory are in proportion to the text, which has ``LONGEST`` characters at most; whatever cannot be
read raises ``ValueError`` with one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

LONGEST = 1 << 16
"""Published models need some 2,000 characters."""
DEEPEST = 8
_WORDS = {"": None, "~": None, "null": None, "true": True, "yes": True, "on": True}
_WORDS |= {"false": False, "no": False, "off": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?[0-9]{1,40}\.[0-9]{0,40}([eE][-+][0-9]{1,4})?")

Events = Iterator[yaml.Event]


def read(text: str) -> Any:
    """What a text of one document says."""
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text):,} characters, and {LONGEST:,} are the most")
    try:
        events = iter(yaml.parse(text, Loader=yaml.SafeLoader))
        next(events)  # the stream begins
        if isinstance(next(events), yaml.StreamEndEvent):
            return None
        found = _value(next(events), events, DEEPEST)
        next(events)  # the document ends
        if not isinstance(next(events), yaml.StreamEndEvent):
            raise ValueError("it holds more than one document")
    except yaml.YAMLError:
        raise ValueError("it is not YAML") from None
    except OverflowError:  # a character beyond Unicode
        raise ValueError("it holds a character that does not exist") from None
    return found


def _value(event: yaml.Event, events: Events, deeper: int) -> Any:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
        raise ValueError("it has anchors or aliases")
    if getattr(event, "tag", None) is not None:
        raise ValueError("it has tags")
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event.value) if event.implicit[0] else event.value
    if not deeper:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    if isinstance(event, yaml.SequenceStartEvent):
        return list(_items(events, yaml.SequenceEndEvent, deeper - 1))
    items = _items(events, yaml.MappingEndEvent, deeper - 1)
    found: dict[Any, Any] = {}
    for key in items:
        if isinstance(key, list | dict):
            raise ValueError("a list or a mapping is the name of a setting")
        found[key] = next(items)
    return found


def _items(events: Events, end: type[yaml.Event], deeper: int) -> Iterator[Any]:
    while not isinstance(event := next(events), end):
        yield _value(event, events, deeper)


def _scalar(text: str) -> Any:
    """A plain scalar; numbers too large to be sizes stay text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
