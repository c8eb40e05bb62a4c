"""Tokenizers of published models, as their own file says or from the SentencePiece model that it was made from."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from quitmt.errors import ModelError
from quitmt.metrics.neural import hub

log = logging.getLogger(__name__)

FILE = "tokenizer.json"


def file(model: str, sentencepiece: str, *, purpose: str) -> Path:
    """The file that ``load`` takes."""
    return hub.either(model, FILE, sentencepiece, purpose=purpose)


def overflow(encoding: Any) -> int:
    """Tokens of a text that truncation left out, not counting its marks of start and end."""
    return sum(len(part.ids) - sum(part.special_tokens_mask) for part in encoding.overflowing)


def load(model: str, kind: str, sentencepiece: str, *, purpose: str, **settings: Any) -> Any:
    """A ``tokenizers.Tokenizer`` that neither pads nor cuts.

    ``kind`` is what transformers calls it, and ``sentencepiece`` the name of its other file, with ``settings`` for it.
    """
    import tokenizers
    import transformers

    path = file(model, sentencepiece, purpose=purpose)
    try:
        if path.name == FILE:  # by the library that wrote it: transformers 5 would build its own from the vocabulary
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
        else:
            made = getattr(transformers, f"{kind}Tokenizer").from_pretrained(path.parent, **settings)
            tokenizer = made.backend_tokenizer
    except Exception as error:  # tokenizers has no class of its own for it
        log.debug("loading the tokenizer failed", exc_info=error)
        raise ModelError(f"{path.name} of {model} cannot be read") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
