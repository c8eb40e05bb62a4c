"""Everything quitmt raises on purpose.

QuitmtError                 one clear sentence for the user; the command line prints it and exits non-zero
├── UsageError              a setting is out of range, unknown, or does not go with another one
├── InputError              a file or a text that cannot be used as it is; says where
├── OutputError             a result that cannot be written
├── ModelError              a model that is missing, damaged, or of an unsupported kind
├── MissingExtra            an optional dependency is not installed; says the command that adds it
├── GenerationError         sampling failed for one segment
└── RerankError             scoring failed for one segment
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class QuitmtError(Exception):
    """The root of the tree; ``hint`` says what to do about it."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} ({self.hint})" if self.hint else message


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


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist: the nearest one if there is one, else all of them."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(names)}"
    return UsageError(f"unknown {kind} {name!r}", hint=hint)
