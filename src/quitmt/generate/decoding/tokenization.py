"""Converts between text and CTranslate2's tokens, with the tokenizer in the model's folder.

quitmt looks for tokenizers in this order: source.spm and target.spm (Marian); a Hugging Face tokenizer (NLLB, M2M100,
MADLAD, …); one SentencePiece file for both sides. The first token of a translation may be forced (see ``families``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quitmt.errors import MissingExtra, ModelError
from quitmt.generate.decoding.families import Pair, has_codes, is_madlad, mark_of, tell
from quitmt.loops.faults import first_line

SPACE = "▁"
"""Represents a space in SentencePiece's pieces."""
_PAIR = ("source.spm", "target.spm")
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
_SHARED = ("sentencepiece.model", "spm.model", "spiece.model", "sentencepiece.bpe.model", "vocab.spm", "spm.128k.model")


@dataclass(frozen=True, slots=True)
class Tokenization:
    encode: Callable[[str], list[str]]
    decode: Callable[[list[str]], str]
    end: str
    """The token that ends a translation."""
    prefix: list[str]
    """The first tokens of every translation."""


def load_tokenization(folder: Path, model: str, pair: Pair) -> Tokenization:
    """The tokenizer in a model's folder, set up for a pair of languages."""
    if all((folder / name).is_file() for name in _PAIR):
        return _from_sentencepiece(folder, _PAIR[0], _PAIR[1], model, pair)
    if any((folder / name).is_file() for name in _TOKENIZER):
        return _from_tokenizer(folder, model, pair)
    for name in _SHARED:
        if (folder / name).is_file():
            return _from_sentencepiece(folder, name, name, model, pair)
    sought = f"{' and '.join(_PAIR)}, {' or '.join(_TOKENIZER)}, or one of {', '.join(_SHARED)}"
    raise ModelError(f"there is no tokenizer in {model!r}", hint=f"looked for {sought}")


def _from_sentencepiece(folder: Path, source: str, target: str, model: str, pair: Pair) -> Tokenization:
    import sentencepiece

    sides = []
    for name in (source, target):
        try:
            sides.append(sentencepiece.SentencePieceProcessor(model_file=str(folder / name)))
        except (OSError, RuntimeError):
            raise ModelError(f"{name} in {model!r} is not a SentencePiece model") from None
    config, vocabulary = _config(folder), _vocabulary(folder)
    if has_codes(vocabulary):
        hint = f"copy {' and '.join(_TOKENIZER)} of the original model there"
        raise ModelError(f"{model!r} knows languages by tokens that need its Hugging Face tokenizer", hint=hint)
    mark = mark_of(vocabulary, pair[1], model)
    end = str(config.get("eos_token", "</s>"))
    after = [] if config.get("add_source_eos") else [end]
    special = {end, str(config.get("unk_token", "<unk>")), "<pad>"}
    return Tokenization(
        encode=lambda text: [*([mark] if mark else []), *sides[0].encode(text, out_type=str), *after],
        decode=lambda tokens: _joined(sides[1], [token for token in tokens if token not in special]),
        end=end,
        prefix=[],
    )


def _joined(side: Any, pieces: list[str]) -> str:
    """Joins pieces into text. A vocabulary may contain pieces of both languages, and SentencePiece leaves the space
    mark in pieces that it doesn't know."""
    return str(side.decode(pieces)).replace(SPACE, " ").strip()


def _from_tokenizer(folder: Path, model: str, pair: Pair) -> Tokenization:
    try:
        import transformers
    except ImportError:
        raise MissingExtra(f"the tokenizer in {model!r} needs transformers", hint="pip install 'quitmt[hf]'") from None
    try:
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(folder))
    except Exception as error:  # transformers raises many types of errors
        raise ModelError(f"the tokenizer in {model!r} cannot be read: {first_line(error)}") from None
    telling = tell(tokenizer, pair, model)
    return Tokenization(
        encode=lambda text: list(tokenizer.convert_ids_to_tokens(tokenizer(telling.before + text)["input_ids"])),
        decode=lambda tokens: str(
            tokenizer.decode(tokenizer.convert_tokens_to_ids(tokens), skip_special_tokens=True)
        ).strip(),
        end=str(_config(folder).get("eos_token", tokenizer.eos_token)),
        prefix=[] if telling.first is None else [telling.first],
    )


def lacking(folder: Path, tokenization: Tokenization) -> Callable[[str], bool]:
    """A test for characters that the vocabulary in a model's folder lacks; always False if there is no vocabulary."""
    known, unknown = frozenset(_vocabulary(folder)), str(_config(folder).get("unk_token", "<unk>"))
    return lambda text: (
        bool(known) and any(piece == unknown or piece not in known for piece in tokenization.encode(text))
    )


def is_sentence_level(folder: Path) -> bool:
    """Whether a converted model was trained on single sentences, judging by its vocabulary."""
    return not is_madlad(_vocabulary(folder))


def _config(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / "config.json").read_text("utf-8")))
    except (OSError, ValueError):
        return {}


def _vocabulary(folder: Path) -> list[str]:
    for name in ("shared_vocabulary", "source_vocabulary"):
        if (path := folder / f"{name}.json").is_file():
            return [str(token) for token in json.loads(path.read_text("utf-8"))]
        if (path := folder / f"{name}.txt").is_file():
            return path.read_text("utf-8").split("\n")
    return []
