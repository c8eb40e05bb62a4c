"""Records texts that a scoring model truncated because they have too many tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

REMEMBERED = 20_000
"""Maximum number of texts to remember. A server may meet many, and looks each one up soon after scoring."""


@dataclass(slots=True)
class Cuts:
    """Truncated tokens per text: a translation, or a source or reference that is encoded alone."""

    limit: int | None
    """Maximum tokens of the model; None means no limit."""
    _tokens: dict[str, int] = field(default_factory=dict)

    def note(self, text: str, tokens: int) -> None:
        """Record that tokens of a text, or of the texts joined with it, were cut off."""
        if tokens <= 0:
            return
        self._tokens[text] = max(tokens, self._tokens.pop(text, 0))
        while len(self._tokens) > REMEMBERED:
            del self._tokens[next(iter(self._tokens))]

    def among(self, texts: Iterable[str]) -> list[int]:
        """The number of tokens cut off, for each truncated text among ``texts``."""
        return [self._tokens[text] for text in texts if text in self._tokens]
