"""Every exception that quitmt raises on purpose.

QuitmtError                 one clear sentence for the user; the command line prints it and exits non-zero
├── UsageError              a setting is out of range, unknown, or does not go with another one
│   └── Mistakes            several things are wrong with a recipe; has each of them as an error
├── InputError              a file or a text that cannot be used as it is; says where
├── OutputError             a result that cannot be written
├── ModelError              a model that is missing, damaged, or of an unsupported kind
├── MissingExtra            an optional dependency is not installed; says which command adds it
├── GenerationError         sampling failed for one segment
├── RerankError             scoring failed for one segment
├── NotInTime               time was up, or the session was closed, before one segment had a translation
└── AllFailed               every segment of a call from Python failed; has their outcomes

Code names a setting by its field of a recipe, as ``setting("rerank.keep")``. The text says what the reader calls it: a
keyword in Python (the default), a flag on the command line, a line of a file. The caller at the edge chooses the
``Speaker`` (``speaking``); messages are made in its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Any

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
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?(e-?[0-9]+)?")


class Speaker:
    """Names settings as in Python."""

    def setting(self, field: str, example: str | None) -> str:
        """``rerank.keep`` as ``keep``, or with an example as ``keep=64``."""
        name = KEYWORDS.get(field) or field.rpartition(".")[2]
        value = None if example is None else example if _NUMBER.fullmatch(example) else repr(example)
        if field.startswith("model.options."):
            return f"options[{name!r}]" if value is None else f"options={{{name!r}: {value}}}"
        return name if value is None else f"{name}={value}"

    def place(self, field: str) -> str:
        """The file and line of a setting, as ``my.toml, line 3: ``; empty for one that is in no file."""
        return ""


_speaker: ContextVar[Speaker] = ContextVar("speaker", default=Speaker())  # noqa: B039  # it keeps nothing


def setting(field: str, example: object = None) -> str:
    """A setting in the reader's words, perhaps with a value for it."""
    return _speaker.get().setting(field, None if example is None else str(example))


@contextmanager
def placed(field: str) -> Iterator[None]:
    """Say of errors that leave the block that they are about this setting, unless they are about another one."""
    try:
        yield
    except QuitmtError as error:
        error.about(field)
        raise


@contextmanager
def speaking(speaker: Speaker) -> Iterator[None]:
    """Make messages within the block in these words."""
    before = _speaker.set(speaker)
    try:
        yield
    finally:
        _speaker.reset(before)


def speak(speaker: Speaker) -> None:
    """Make messages in these words from now on, until the end of the enclosing ``speaking``."""
    _speaker.set(speaker)


class QuitmtError(Exception):
    """The root of the tree; ``hint`` says what to do about it."""

    fault: str | None = None
    """Identifies the mistake in user code (type and location), so that repeats are reported once."""

    field: str | None = None
    """The setting that the error is about, by its field of a recipe."""

    def __init__(self, message: str, *, hint: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if field is not None:
            self.about(field)

    def about(self, field: str) -> None:
        """Set the field, unless it is known, and begin the message with its place in a file, unless it has one."""
        if self.field is None:
            self.field = field
            where = _speaker.get().place(field)
            if where and f"{where.rpartition(', line ')[0]}, line " not in self.args[0]:
                self.args = (where + self.args[0], *self.args[1:])

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} ({self.hint})" if self.hint else message


class UsageError(QuitmtError, ValueError):
    pass


class Mistakes(UsageError):
    def __init__(self, errors: Sequence[QuitmtError]) -> None:
        super().__init__("; and ".join(map(str, errors)))
        self.errors = tuple(errors)

    def __reduce__(self) -> Any:
        return Mistakes, (self.errors,)


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
        """The outcomes of the call, in order; each ``quitmt.Outcome`` has its ``error``."""


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str | None:
    """Return the name that was probably meant.

    >>> nearest("fxied", ["fixed", "full", "quit"]), nearest("mine", ["fixed", "full", "quit"])
    ('fixed', None)
    """
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=cutoff)), None)


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a name that does not exist; it suggests the nearest name, or lists all."""
    names = sorted(known)
    near = nearest(name, names)
    hint = f"did you mean {near!r}?" if near else f"there is {', '.join(names)}"
    return UsageError(f"unknown {kind} {name!r}", hint=hint)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 worker``, ``2 workers``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
