"""Texts that a scoring model read only in part, because they have more tokens than it takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

REMEMBERED = 20_000
"""The last ones: a server may meet many, and each is asked for soon after it was scored."""


@dataclass(slots=True)
class Cuts:
    """What was cut off, by text: a translation, or a source or reference that is encoded alone."""

    limit: int | None
    """Tokens that the model takes; None: any number."""
    _tokens: dict[str, int] = field(default_factory=dict)

    def note(self, text: str, tokens: int) -> None:
        """Some tokens of a text, or of what it was read together with, were cut off."""
        if tokens <= 0:
            return
        self._tokens[text] = max(tokens, self._tokens.pop(text, 0))
        while len(self._tokens) > REMEMBERED:
            del self._tokens[next(iter(self._tokens))]

    def among(self, texts: Iterable[str]) -> list[int]:
        """How many tokens were cut off, of each of the texts of which some were."""
        return [self._tokens[text] for text in texts if text in self._tokens]
