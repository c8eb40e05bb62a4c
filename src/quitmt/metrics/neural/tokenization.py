"""Tokenizers of published models, from ``tokenizer.json`` or from the original SentencePiece model, and a record of the
texts that they truncate."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quitmt.errors import ModelError
from quitmt.metrics.neural import hub

log = logging.getLogger(__name__)

FILE = "tokenizer.json"
REMEMBERED = 20_000
"""Maximum number of truncated texts to remember. Each is looked
up soon after scoring, so a long-running server can forget the oldest."""


@dataclass(slots=True)
class Cuts:
    """Counts the tokens truncated from each text: a translation, or a source or reference if encoded on its own."""

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


def file(model: str, sentencepiece: str, *, purpose: str) -> Path:
    """The file that ``load`` reads."""
    return hub.either(model, FILE, sentencepiece, purpose=purpose)


def overflow(encoding: Any) -> int:
    """The number of tokens that truncation cut off; start and end tokens don't count."""
    return sum(len(part.ids) - sum(part.special_tokens_mask) for part in encoding.overflowing)


def load(model: str, kind: str, sentencepiece: str, *, purpose: str, **settings: Any) -> Any:
    """A ``tokenizers.Tokenizer`` without padding and truncation.

    ``kind`` is the tokenizer's name in transformers. ``sentencepiece`` is the file to use if ``tokenizer.json`` is
    missing, and ``settings`` apply only to that file.
    """
    import tokenizers
    import transformers

    path = file(model, sentencepiece, purpose=purpose)
    try:
        if path.name == FILE:  # transformers 5 would build a different tokenizer from the vocabulary
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
        else:
            made = getattr(transformers, f"{kind}Tokenizer").from_pretrained(path.parent, **settings)
            tokenizer = made.backend_tokenizer
    except Exception as error:  # tokenizers raises plain exceptions
        log.debug("loading the tokenizer failed", exc_info=error)
        raise ModelError(f"{path.name} of {model} cannot be read") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
