"""Language tokens of the families of translation models, detected from their tokenizers.

    Marian (OPUS-MT)    nothing, or a first token >>por<< where there are several target languages
    NLLB                eng_Latn added to the source, por_Latn as the translation's first token
    M2M100              __en__ and __pt__ likewise
    mBART-50            en_XX and pt_XX likewise
    MADLAD              a first token <2pt>

Languages are BCP-47 codes; a code that a model doesn't know is an error, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quitmt.errors import UsageError
from quitmt.generate import languages

_NLLB = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_MBART = re.compile(r"([a-z]{2,3})_[A-Z]{2}")
_M2M100 = re.compile(r"__[a-z]{2,3}__")
_MADLAD = re.compile(r"<2(\w+)>")
_MARIAN = re.compile(r">>(\w+)<<")

Pair = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class Telling:
    """How a model is told the languages: text before the source, and the first token of each translation."""

    before: str = ""
    first: str | None = None


def tell(tokenizer: Any, pair: Pair, model: str) -> Telling:
    """Set a tokenizer to a language pair; return how the model is told the languages."""
    if mark := mark_of(tokenizer.get_vocab(), pair[1], model):
        return Telling(before=f"{mark} ")
    tokens = _language_tokens(tokenizer) if hasattr(tokenizer, "src_lang") else {}
    if not tokens:
        return Telling()
    source, target = _code(pair[0], tokens, model, "source"), _code(pair[1], tokens, model, "target")
    # M2M100 is set by the code, the others by the token
    tokenizer.src_lang = source if hasattr(tokenizer, "lang_code_to_token") else tokens[source]
    return Telling(first=tokens[target])


def mark_of(vocabulary: Iterable[str], target: str | None, model: str) -> str | None:
    """The token before the source that names the target language, if the vocabulary has such tokens."""
    tokens = list(vocabulary)
    marks = _matching(_MARIAN, tokens) or _matching(_MADLAD, tokens)
    return marks[_code(target, marks, model, "target")] if marks else None


def has_codes(vocabulary: Iterable[str]) -> bool:
    """Whether a vocabulary has tokens for both languages, as in NLLB, M2M100 and mBART-50."""
    return any(pattern.fullmatch(token) for token in vocabulary for pattern in (_NLLB, _M2M100, _MBART))


def is_madlad(vocabulary: Iterable[str]) -> bool:
    """Whether a vocabulary belongs to MADLAD, which was trained on more than single sentences."""
    return any(_MADLAD.fullmatch(token) for token in vocabulary)


def _language_tokens(tokenizer: Any) -> Mapping[str, str]:
    """Language tokens by code, if both languages have tokens."""
    if known := getattr(tokenizer, "lang_code_to_token", None):
        return dict(known)
    vocabulary = tokenizer.get_vocab()
    return {token: token for token in vocabulary if _NLLB.fullmatch(token)} or _matching(_MBART, vocabulary)


def _matching(pattern: re.Pattern[str], tokens: Iterable[str]) -> dict[str, str]:
    return {match[1]: token for token in tokens if (match := pattern.fullmatch(token))}


def _code(code: str | None, known: Mapping[str, str], model: str, side: str) -> str:
    if code is None:
        raise UsageError(f"{model} knows several {side} languages", hint=f"name the {side} language")
    return languages.among(code, known.keys(), model)
