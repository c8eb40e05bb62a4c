"""Tokenizers of published models, from ``tokenizer.json`` or from the original SentencePiece model."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from quitmt.errors import ModelError
from quitmt.metrics.neural import hub

log = logging.getLogger(__name__)

FILE = "tokenizer.json"


def file(model: str, sentencepiece: str, *, purpose: str) -> Path:
    """The file that ``load`` reads."""
    return hub.either(model, FILE, sentencepiece, purpose=purpose)


def overflow(encoding: Any) -> int:
    """Tokens that truncation left out, without the marks of start and end."""
    return sum(len(part.ids) - sum(part.special_tokens_mask) for part in encoding.overflowing)


def load(model: str, kind: str, sentencepiece: str, *, purpose: str, **settings: Any) -> Any:
    """A ``tokenizers.Tokenizer`` without padding and truncation.

    ``kind`` is the name in transformers, ``sentencepiece`` the alternative file, and ``settings`` belong to that file.
    """
    import tokenizers
    import transformers

    path = file(model, sentencepiece, purpose=purpose)
    try:
        if path.name == FILE:  # transformers 5 would build another tokenizer from the vocabulary
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
