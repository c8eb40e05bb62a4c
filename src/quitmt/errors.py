"""Everything quitmt raises on purpose.

QuitmtError                 one clear sentence for the user; the command line prints it and exits non-zero
├── UsageError              a setting is out of range, unknown, or does not go with another one
├── InputError              a file or a text that cannot be used as it is; says where
├── OutputError             a result that cannot be written
├── ModelError              a model that is missing, damaged, or of an unsupported kind
├── MissingExtra            an optional dependency is not installed; says the command that adds it
├── GenerationError         sampling failed for one segment
├── RerankError             scoring failed for one segment
├── NotInTime               time was up, or the session was closed, before one segment had a translation
└── AllFailed               not one segment of a call from Python succeeded; has their outcomes

A message names a setting by its field of a recipe, as ``setting("rerank.keep")``. Whoever reads it sees the name that
they know it by: a keyword in Python (the default), a flag on the command line, a place in a file (``speaking``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Any

Speaker = Callable[[str, str | None], str]
"""From a field, and its value where an example is given, to how it is said: ``rerank.keep, "64"`` → ``--keep 64``."""

KEYWORDS = {
    "model.name": "model",
    "model.source_language": "languages[0]",
    "model.target_language": "languages[1]",
    "rerank.name": "reranker",
    "rerank.variant": "mbr",
    "rerank.device": "hardware.device",
    "rerank.dtype": "hardware.dtype",
    "rerank.batch_tokens": "hardware.batch_tokens",
    "stop.rule": "rule",
}
"""Settings whose keyword in Python is not the last part of their field."""
_MARK = re.compile("\x1f([^\x1e\x1f]*)(?:\x1e([^\x1f]*))?\x1f")


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?(e-?[0-9]+)?")


def setting(field: str, example: object = None) -> str:
    """A setting within a message, perhaps with a value for it."""
    return f"\x1f{field}\x1f" if example is None else f"\x1f{field}\x1e{example}\x1f"


def place(field: str) -> str:
    """Where a setting stands in a file, before a message that says by itself which one it is: ``my.toml, line 3: ``.
    Nothing where it does not stand in a file."""
    return f"\x1f{field}\x1e\x1f"


@contextmanager
def placed(field: str) -> Iterator[None]:
    """Errors that leave it and name no setting are about this one."""
    try:
        yield
    except QuitmtError as error:
        if "\x1f" not in error.args[0]:
            error.args = (place(field) + error.args[0], *error.args[1:])
        raise


def as_keyword(field: str, example: str | None) -> str:
    """As it is written in Python."""
    if example == "":
        return ""
    name = KEYWORDS.get(field) or field.rpartition(".")[2]
    value = None if example is None else example if _NUMBER.fullmatch(example) else repr(example)
    if field.startswith("model.options."):
        return f"options[{name!r}]" if value is None else f"options={{{name!r}: {value}}}"
    return name if value is None else f"{name}={value}"


_speaker: ContextVar[Speaker] = ContextVar("speaker", default=as_keyword)


@contextmanager
def speaking(speaker: Speaker) -> Iterator[None]:
    """Within it, messages name settings that way, and so do errors that leave it."""
    before = _speaker.set(speaker)
    try:
        yield
    except QuitmtError as error:
        error.args, error.hint = tuple(map(said, error.args)), error.hint and said(error.hint)
        raise
    finally:
        _speaker.reset(before)


def speak(speaker: Speaker) -> None:
    """From now on, until the end of the ``speaking`` that this is in."""
    _speaker.set(speaker)


def said(text: str) -> str:
    """A text with its settings named for whoever reads it."""
    speaker = _speaker.get()
    return _MARK.sub(lambda found: speaker(found[1], found[2]), text) if "\x1f" in text else text


class QuitmtError(Exception):
    """The root of the tree; ``hint`` says what to do about it."""

    fault: str | None = None
    """Of code of others that raised: what and where, the same for the same mistake."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return said(f"{message} ({self.hint})" if self.hint else message)


class UsageError(QuitmtError, ValueError):
    pass


class InputError(QuitmtError, ValueError):
    pass


class OutputError(QuitmtError, OSError):
    pass


class ModelError(QuitmtError):
    pass


class MissingExtra(QuitmtError, ImportError):
    pass


class GenerationError(QuitmtError):
    pass


class RerankError(QuitmtError):
    pass


class NotInTime(QuitmtError):
    pass


class AllFailed(QuitmtError):
    def __init__(self, message: str, outcomes: Sequence[Any]) -> None:
        super().__init__(message)
        self.outcomes = tuple(outcomes)
        """All of the call, in order: each ``quitmt.Outcome`` has its ``error``."""


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str | None:
    """The name that was probably meant.

    >>> nearest("fxied", ["fixed", "full", "quit"]), nearest("mine", ["fixed", "full", "quit"])
    ('fixed', None)
    """
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=cutoff)), None)


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist: the nearest one if there is one, else all of them."""
    names = sorted(known)
    near = nearest(name, names)
    hint = f"did you mean {near!r}?" if near else f"there is {', '.join(names)}"
    return UsageError(f"unknown {kind} {name!r}", hint=hint)


def counted(count: int, noun: str) -> str:
    """``1 worker``, ``2 workers``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
