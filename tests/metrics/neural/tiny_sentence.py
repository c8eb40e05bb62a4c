"""A tiny sentence-embedding model as sentence-transformers publishes them: a BERT with random seeded weights, its
tokenizer, and the small files beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

LONGEST = 24
MEAN = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
WORDS = "o a um gato cão casa rua velha nova viu comeu dormiu perto longe de da do muito pouco hoje the cat".split()


def make_sentence_model(
    folder: Path, pooling: dict[str, Any] | None = None, *, parts: tuple[str, ...] = (), uncased: bool = True
) -> Path:
    """``parts`` are those after pooling; a Dense one goes from 32 to 12."""
    folder.mkdir(parents=True)
    vocabulary = _vocabulary()
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(3)
    network = transformers.BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.normal_(std=1.5 * weight.shape[-1] ** -0.5)
    network.save_pretrained(folder)
    _tokenizer(vocabulary, uncased=uncased).save(str(folder / "tokenizer.json"))
    write(folder / "tokenizer_config.json", {"model_max_length": 512, "do_lower_case": uncased})
    write(folder / "sentence_bert_config.json", {"max_seq_length": LONGEST, "do_lower_case": False})
    write(folder / "1_Pooling" / "config.json", MEAN if pooling is None else pooling)
    kinds = ("Transformer", "Pooling", *parts)
    folders = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds[1:], start=1))]
    write(folder / "modules.json", [_module(kind, path) for kind, path in zip(kinds, folders, strict=True)])
    for kind, path in zip(kinds, folders, strict=True):
        if kind == "Dense":
            _dense(folder / path)
    return folder


def write(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def rewrite(path: Path, **settings: Any) -> None:
    write(path, {**json.loads(path.read_text()), **settings})


def _module(kind: str, path: str) -> dict[str, str]:
    return {"name": path[:1] or "0", "path": path, "type": f"sentence_transformers.models.{kind}"}


def _dense(folder: Path) -> None:
    activation = "torch.nn.modules.activation.Tanh"
    settings = {"in_features": 32, "out_features": 12, "bias": True, "activation_function": activation}
    write(folder / "config.json", settings)
    torch.save({"linear.weight": torch.randn(12, 32), "linear.bias": torch.randn(12)}, folder / "pytorch_model.bin")


def _vocabulary() -> dict[str, int]:
    letters = "abcdefghijklmnopqrstuvwxyzãáâàçéêíóôõúABCDEFGHIJKLMNOPQRSTUVWXYZ.,!?'0123456789"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *WORDS, *letters, *(f"##{letter}" for letter in letters)]
    return {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}


def _tokenizer(vocabulary: dict[str, int], *, uncased: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=uncased, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer
