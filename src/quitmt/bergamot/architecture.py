"""Reads the architecture from a model file, and refuses unsupported options by name.

Supported are Marian transformers with an SSRU decoder, such as Firefox's and Bergamot's student models, with any depth,
width and number of heads, tied or separate embeddings, and normalisation before or after each sublayer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeGuard

from quitmt.bergamot.binary import ModelFile
from quitmt.errors import ModelError

_MUST_BE: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("rnn",),
    "dec-cell": ("ssru",),
    "transformer-ffn-activation": ("relu",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (None, 0, 2),
}
_MUST_BE_OFF = (
    "transformer-train-position-embeddings",
    "transformer-tied-layers",
    "transformer-no-projection",
    "transformer-rnn-projection",
    "transformer-pool",
    "transformer-depth-scaling",
    "transformer-no-bias",
    "transformer-no-affine",
    "right-left",
    "ulr",
    "lemma-dim-emb",
    "input-types",
)
"""Options that would change the network; no published Firefox model uses them."""
_OPERATIONS = {
    "transformer-preprocess": "dn",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "dn",
    "transformer-postprocess-top": "dn",
}
"""d: dropout (no effect at inference), a: add the residual, n: normalise."""
MULTIPLE = 8
"""Widths must be a multiple of this, the number of floats in a vector register."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The shape of a network."""

    width: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    source_vocabulary: int
    target_vocabulary: int
    source_embedding: str
    target_embedding: str
    tied_output: bool
    output_bias: bool
    preprocess: str
    postprocess: str
    postprocess_embedding: str
    postprocess_top: str


def describe(file: ModelFile) -> Architecture:
    """The architecture in a model file; raises a ``ModelError`` that names an unsupported option."""
    config = file.config
    for option, allowed in _MUST_BE.items():
        if config.get(option) not in allowed:
            raise _unsupported(file, option, config.get(option))
    for option in _MUST_BE_OFF:
        if config.get(option):
            raise _unsupported(file, option, config[option])
    operations = {option: _operations(file, option, known) for option, known in _OPERATIONS.items()}
    vocabularies = config.get("dim-vocabs")
    if not isinstance(vocabularies, list) or len(vocabularies) != 2 or not all(map(_is_size, vocabularies)):
        raise _unsupported(file, "dim-vocabs", vocabularies)
    width, heads = _size(file, "dim-emb"), _size(file, "transformer-heads")
    if width % heads or width % MULTIPLE:
        raise _unsupported(file, "dim-emb", width)
    shared = bool(config.get("tied-embeddings-all") or config.get("tied-embeddings-src"))
    return Architecture(
        width=width,
        heads=heads,
        encoder_layers=_depth(file, "enc-depth"),
        decoder_layers=_depth(file, "dec-depth"),
        source_vocabulary=vocabularies[0],
        target_vocabulary=vocabularies[1],
        source_embedding="Wemb" if shared else "encoder_Wemb",
        target_embedding="Wemb" if shared else "decoder_Wemb",
        tied_output=bool(config.get("tied-embeddings-all") or config.get("tied-embeddings")),
        output_bias=not config.get("output-omit-bias"),
        preprocess=operations["transformer-preprocess"],
        postprocess=operations["transformer-postprocess"],
        postprocess_embedding=operations["transformer-postprocess-emb"],
        postprocess_top=operations["transformer-postprocess-top"],
    )


def _unsupported(file: ModelFile, option: str, value: Any) -> ModelError:
    return ModelError(f"{file.path}: {option} {value!r:.80} is not supported")


def _operations(file: ModelFile, option: str, known: str) -> str:
    value = file.config.get(option) or ""
    if not isinstance(value, str) or set(value) - set(known):
        raise _unsupported(file, option, value)
    return value


def _size(file: ModelFile, option: str) -> int:
    value = file.config.get(option)
    if not _is_size(value):
        raise _unsupported(file, option, value)
    return int(value)


def _is_size(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _depth(file: ModelFile, option: str) -> int:
    """The number of layers. Each layer has tensors, so a file with fewer tensors than layers is damaged."""
    depth, tensors = _size(file, option), len(file.tensors)
    if depth > tensors:
        raise ModelError(f"{file.path} is damaged: it has {tensors} tensors, too few for {option} {depth}")
    return depth
