"""Splits documents into text and tags with real parsers: turbohtml's tokenizer for HTML (the WHATWG standard in linear
time), expat for XML.

Invariant: the sources of the tokens, joined, give the document. Input that a parser drops or cannot read becomes a
token of the kind ``other``, so it is preserved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal
from xml.parsers import expat

Kind = Literal["text", "open", "close", "empty", "other"]
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
"""HTML elements without an end tag."""

RAW = frozenset(
    "script style textarea code pre noscript template svg math iframe noembed noframes xmp plaintext".split()
)
"""HTML elements whose content isn't prose or isn't shown on the page."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    source: str
    text: str = ""
    """The decoded content of a text, without references such as ``&amp;``."""
    name: str = ""
    """The name of a tag, in lower case."""
    kept: bool = False
    """Whether the element stays untranslated, by its kind or its attributes."""


def html_tokens(text: str) -> Iterator[Token]:
    from turbohtml import TokenType, tokenize

    # The tokenizer merges carriage returns into line breaks and replaces NUL. Positions must not move.
    same = text.replace("\r", "\f").replace("\0", "\ufffd")
    lines = [0, *(newline.end() for newline in re.finditer("\n", same))]
    place = 0
    for token in tokenize(same, capture_source=True, resolve_references=False):
        start = lines[token.line - 1] + token.col
        end = start + len(token.source if token.source is not None else token.data or "")
        if start > place:
            yield Token("other", text[place:start])
        source, place = text[start:end], end
        if token.type is TokenType.TEXT:
            yield Token("text", source, source)
        elif token.type is TokenType.CHARACTER_REFERENCE:
            yield Token("text", source, token.data or "")
        elif token.type is TokenType.START_TAG:
            name = token.tag or ""
            empty = token.self_closing or name in VOID
            kept = name in RAW or _is_kept(token.attrs or ())
            yield Token("empty" if empty else "open", source, name=name, kept=kept)
        else:
            name = token.tag or ""
            yield Token("close" if token.type is TokenType.END_TAG else "other", source, name=name)
    if place < len(text):
        yield Token("other", text[place:])


def _is_kept(attributes: Iterable[tuple[str, str | None]]) -> bool:
    for name, value in attributes:
        if name == "translate" and (value or "").lower() == "no":
            return True
        if name == "class" and "notranslate" in (value or "").split():
            return True
    return False


def xml_tokens(text: str) -> Iterator[Token]:
    """Tokenizes an XML document or fragment. Input that isn't well-formed is read as HTML."""
    whole = re.match(r"\s*(?:<\?xml|<!DOCTYPE)\b", text)
    before, after = ("", "") if whole else ("<x>", "</x>")
    raw = f"{before}{text}{after}".encode()
    try:
        events = _events(raw)
    except (expat.ExpatError, ValueError):
        yield from html_tokens(text)
        return
    if not whole:
        events = events[1:-1]
    ends = [*(place for place, *_ in events), len(raw) - len(after)][1:]
    for (start, kind, name, said), end in zip(events, ends, strict=True):
        source = raw[start:end].decode()
        if kind == "text" and not source.startswith("&"):
            said = source  # expat normalizes line breaks
        if kind == "open" and source.endswith("/>"):
            kind = "empty"
        if source:
            yield Token(kind, source, said, name)


def _events(raw: bytes) -> list[tuple[int, Kind, str, str]]:
    """The start, kind, name and text of each event. Documents that declare entities are refused."""
    events = list[tuple[int, Kind, str, str]]()
    parser, within = expat.ParserCreate("utf-8"), list[str]()

    def note(kind: Kind, name: str = "", text: str = "") -> None:
        events.append((parser.CurrentByteIndex, "other" if within else kind, name.lower(), text))

    def refuse(*_: Any) -> None:
        raise ValueError("the document declares an entity")

    def begin_cdata() -> None:
        within.append("cdata")
        note("other")

    def end_cdata() -> None:
        note("other")
        within.clear()

    parser.StartElementHandler = lambda name, _: note("open", name)
    parser.EndElementHandler = lambda name: note("close", name)
    parser.CharacterDataHandler = lambda data: note("text", text=data)
    parser.DefaultHandler = lambda _: note("other")
    parser.StartCdataSectionHandler, parser.EndCdataSectionHandler = begin_cdata, end_cdata
    parser.EntityDeclHandler = refuse
    parser.Parse(raw, True)
    return events


def string_tokens(text: str) -> Iterator[Token]:
    """Tokenizes program strings: HTML tags, Weblate's placeholders, and text without escapes."""
    for token in html_tokens(text):
        if token.kind != "text":
            yield token
            continue
        cuts = [
            0,
            *(place for match in PLACEHOLDER.finditer(token.source) for place in match.span()),
            len(token.source),
        ]
        for number, (start, end) in enumerate(pairwise(cuts)):
            if start < end:
                part = token.source[start:end]
                yield Token("other", part) if number % 2 else Token("text", part, part)


PLACEHOLDER = re.compile("@@PH[0-9]+ ?@ ?@")
