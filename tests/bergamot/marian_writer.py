"""Writes tiny Marian models and vocabularies, whole or with any of their options changed."""

from __future__ import annotations

import io
import struct
from functools import cache
from pathlib import Path

import numpy as np
import sentencepiece
import yaml

FLOAT32, QUANTIZED, TEXT = 0x404, 0x4101, 0x101

CONFIG = {
    "type": "transformer",
    "dim-emb": 16,
    "dim-vocabs": [300, 300],
    "enc-depth": 2,
    "dec-depth": 1,
    "dec-cell": "ssru",
    "output-omit-bias": False,
    "tied-embeddings": False,
    "tied-embeddings-all": True,
    "tied-embeddings-src": False,
    "transformer-decoder-autoreg": "rnn",
    "transformer-dim-ffn": 24,
    "transformer-ffn-activation": "relu",
    "transformer-ffn-depth": 2,
    "transformer-heads": 2,
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-preprocess": "",
}


def weights(config: dict, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights for a tied model of this configuration, large enough that its distributions are not flat."""
    randoms = np.random.default_rng(seed)
    width, inner, vocabulary = config["dim-emb"], config["transformer-dim-ffn"], config["dim-vocabs"][1]
    made: dict[str, np.ndarray] = {}

    def fill(name: str, *shape: int) -> None:
        made[name] = (randoms.standard_normal(shape) * 0.6).astype(np.float32)

    def norms(name: str) -> None:
        for suffix, when in (("", "transformer-postprocess"), ("_pre", "transformer-preprocess")):
            if "n" in config[when]:
                fill(f"{name}_ln_scale{suffix}", 1, width)
                fill(f"{name}_ln_bias{suffix}", 1, width)

    def attention(name: str) -> None:
        for part in "qkvo":
            fill(f"{name}_W{part}", width, width)
            fill(f"{name}_b{part}", 1, width)
        norms(f"{name}_Wo")

    def feed_forward(name: str) -> None:
        for part, shape in (("1", (width, inner)), ("2", (inner, width))):
            fill(f"{name}_W{part}", *shape)
            fill(f"{name}_b{part}", 1, shape[1])
        norms(f"{name}_ffn")

    fill("Wemb", vocabulary, width)
    fill("decoder_ff_logit_out_b", 1, vocabulary)
    for layer in range(1, config["enc-depth"] + 1):
        attention(f"encoder_l{layer}_self")
        feed_forward(f"encoder_l{layer}_ffn")
    for layer in range(1, config["dec-depth"] + 1):
        fill(f"decoder_l{layer}_rnn_W", width, width)
        fill(f"decoder_l{layer}_rnn_Wf", width, width)
        fill(f"decoder_l{layer}_rnn_bf", 1, width)
        norms(f"decoder_l{layer}_rnn_ffn")
        attention(f"decoder_l{layer}_context")
        feed_forward(f"decoder_l{layer}_ffn")
    if "n" in config["transformer-postprocess-top"]:
        for side in ("encoder", "decoder"):
            fill(f"{side}_top_ln_scale", 1, width)
            fill(f"{side}_top_ln_bias", 1, width)
    return made


def quantize(values: np.ndarray) -> tuple[np.ndarray, float]:
    multiplier = np.float32(127 / np.abs(values).max())
    return np.round(values * multiplier).astype(np.int8), multiplier


def item(name: str, values: np.ndarray, quantized: bool) -> tuple[str, int, tuple[int, ...], bytes]:
    matrix = name.split("_")[-1].startswith("W")
    if not (quantized and matrix):
        return name, FLOAT32, values.shape, np.ascontiguousarray(values).tobytes()
    integers, multiplier = quantize(values)
    stored = integers if "Wemb" in name else integers.T
    return name, QUANTIZED, values.shape, np.ascontiguousarray(stored).tobytes() + struct.pack("<f", multiplier)


def encode(items: list[tuple[str, int, tuple[int, ...], bytes]], *, version: int = 1) -> bytes:
    """The bytes of a model file."""
    out = struct.pack("<QQ", version, len(items))
    for name, kind, shape, data in items:
        out += struct.pack("<4Q", len(name) + 1, kind, len(shape), len(data))
    for name, *_ in items:
        out += name.encode() + b"\0"
    for _, _, shape, _ in items:
        out += struct.pack(f"<{len(shape)}i", *shape)
    out += struct.pack("<Q", 5) + bytes(5)
    return out + b"".join(data for *_, data in items)


def model_bytes(config: dict, tensors: dict[str, np.ndarray] | None = None, *, quantized: bool = False) -> bytes:
    tensors = weights(config) if tensors is None else tensors
    items = [item(name, values, quantized) for name, values in tensors.items()]
    text = yaml.safe_dump(config).encode() + b"\0"
    return encode([*items, ("special:model.yml", TEXT, (len(text),), text)])


@cache
def vocabulary_bytes() -> bytes:
    """A SentencePiece vocabulary of 300 pieces: characters, bytes' worth of them, and little else."""
    letters = [chr(code) for code in range(0x21, 0x7F)]
    sentences = [" ".join(letters), "the cat sat on the mat", "o gato dorme no tapete", "a house is not a home"]
    sentences += [f"{a}{b} {b}{a}" for a in "abcdefghijklmnopqrst" for b in "aeiouvwxyz"]
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=out,
        vocab_size=300,
        model_type="bpe",
        eos_id=0,
        unk_id=1,
        bos_id=-1,
        minloglevel=2,
    )
    return out.getvalue()


def write_folder(folder: Path, config: dict | None = None, **options) -> Path:
    """A folder as Firefox's models come: the model and its vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.tiny.bin").write_bytes(model_bytes(CONFIG if config is None else config, **options))
    (folder / "vocab.tiny.spm").write_bytes(vocabulary_bytes())
    return folder
