"""Makes the tiny checkpoints and their golden scores with the original, in the environment of `make test-comet`.

    python -m tests.comet.make FOLDER

writes ``checkpoints/`` and ``golden.json`` into a folder; those of ``tests/comet`` were made so. The checkpoints are as
the published ones are, class for class, with random seeded weights: large enough that scores differ visibly between
texts, and that xCOMET tags tokens with every label.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import comet.models
import pytorch_lightning
import sentencepiece
import torch
import transformers
import yaml

from tests.comet.examples import EXAMPLES

HERE = Path(__file__).parent
VOCABULARY = 400
BATCH_SIZES = (1, 4, 16)
TAGGER_SEED = 56
"""One of those with which all labels are frequent, and some spans are still open at the end of a text."""
ENCODERS = {"encoder": transformers.XLMRobertaConfig, "encoder-xl": transformers.XLMRobertaXLConfig}
SHARED = {"layer": "mix", "dropout": 0.1, "nr_frozen_epochs": 0.3, "batch_size": 4, "local_files_only": True}
XLMR = {"encoder_model": "XLM-RoBERTa", "pretrained_model": "encoder"}
XLMR_XL = {"encoder_model": "XLM-RoBERTa-XL", "pretrained_model": "encoder-xl"}
MODELS: dict[str, tuple[str, list[float], dict[str, Any]]] = {
    # name: (class, the raw weights of the layers, settings)
    "regression": (
        "regression_metric",
        [0.3, -2.0, 0.9, -1.0],  # 0.2, 0, 0.8 and 0
        {**XLMR, "pool": "avg", "layer_transformation": "sparsemax", "layer_norm": False, "hidden_sizes": [96, 32]},
    ),
    "regression-norm": (
        "regression_metric",
        [0.3, -0.7, 0.9, -0.2],
        {
            **XLMR,
            "pool": "avg",
            "layer_transformation": "softmax",
            "layer_norm": True,
            "hidden_sizes": [48],
            "activations": "Sigmoid",
            "final_activation": "softplus",
        },
    ),
    "unified": (
        "unified_metric",
        [-0.5, 0.4, -3.0, 0.8],
        {
            **XLMR,
            "sent_layer": "mix",
            "layer_transformation": "sparsemax_patch",
            "layer_norm": False,
            "hidden_sizes": [48, 24],
            "input_segments": ["mt", "src"],
            "word_level_training": False,
        },
    ),
    "xcomet": (
        "xcomet_metric",
        [0.1, 0.6, -2.0],  # the last has no weight, but the tags are its
        {
            **XLMR_XL,
            "sent_layer": "mix",
            "layer_transformation": "sparsemax",
            "layer_norm": False,
            "word_layer": 2,
            "hidden_sizes": [48, 24],
        },
    ),
}


def make_encoders(folder: Path) -> None:
    """Configuration and tokenizer of the two encoders; that of one as tokenizer.json, of the other as SentencePiece."""
    for name in ENCODERS:
        (folder / name).mkdir(parents=True)
    model = io.BytesIO()  # a file would be named in itself
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter((HERE / "sentences.txt").read_text("utf-8").splitlines()), model_writer=model,
        vocab_size=VOCABULARY, model_type="unigram", character_coverage=1.0, normalization_rule_name="nmt_nfkc",
        hard_vocab_limit=False, minloglevel=2, num_threads=1,
    )  # fmt: skip
    path = folder / "encoder-xl" / "sentencepiece.bpe.model"
    path.write_bytes(model.getvalue())
    tokenizer = transformers.XLMRobertaTokenizerFast(str(path))
    tokenizer.backend_tokenizer.save(str(folder / "encoder" / "tokenizer.json"))
    for name, kind in ENCODERS.items():
        config = kind(
            vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2 if name == "encoder-xl" else 3,
            num_attention_heads=4, intermediate_size=48, max_position_embeddings=514, type_vocab_size=1,
            layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        )  # fmt: skip
        config.save_pretrained(folder / name)


def make_model(folder: Path, name: str) -> None:
    identifier, layers, settings = MODELS[name]
    shared = {key: value for key, value in SHARED.items() if key != "layer" or identifier == "regression_metric"}
    settings = {**shared, **settings}
    torch.manual_seed(7)
    with inside(folder):
        model = comet.models.str2model[identifier](**settings, load_pretrained_weights=False)
    scale(model, layers)
    trainer = pytorch_lightning.Trainer(logger=False, accelerator="cpu", enable_progress_bar=False)
    trainer.strategy.connect(model)
    trainer.save_checkpoint(folder / name / "checkpoints" / "model.ckpt", weights_only=True)
    saved = {key: value for key, value in settings.items() if key != "local_files_only"}
    (folder / name / "hparams.yaml").write_text(yaml.safe_dump({**saved, "class_identifier": identifier}))


@torch.no_grad()
def scale(model: Any, layers: list[float]) -> None:
    for name, weight in model.named_parameters():
        if "norm" in name.lower():
            torch.nn.init.normal_(weight, mean=1.0 if name.endswith("weight") else 0.2, std=0.2)
        elif "embeddings" in name:
            torch.nn.init.normal_(weight, std=0.5 if "position" in name else 1.0)
        elif weight.dim() > 1:
            gain = 1.0 if "estimator" in name else 1.5  # more in the head would only enlarge the rounding
            torch.nn.init.normal_(weight, std=gain * weight.shape[-1] ** -0.5)
        else:
            torch.nn.init.normal_(weight, std=0.1)
    for parameter, value in zip(model.layerwise_attention.scalar_parameters, layers, strict=True):
        parameter.fill_(value)
    model.layerwise_attention.gamma.fill_(1.3)
    if hasattr(model, "hidden2tag"):
        model.hidden2tag.weight.normal_(std=0.3, generator=torch.Generator().manual_seed(TAGGER_SEED))
        model.hidden2tag.bias.copy_(torch.tensor([0.5, 0.0, 0.0, 0.0]))


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """The encoders are named as on the hub, without a path: the original finds folders of these names where it runs."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def predict(model: Any, samples: list[dict[str, str]], batch_size: int) -> dict[str, list[float]]:
    found = model.predict(samples, batch_size=batch_size, gpus=0, progress_bar=False, length_batching=False)
    metadata = found.get("metadata") or {}
    parts = {key.removesuffix("_scores"): value for key, value in metadata.items() if key.endswith("_scores")}
    return {"score": found["scores"], **parts}


def score(folder: Path, name: str, *, with_reference: bool = True) -> list[dict[str, float] | None]:
    """The original's scores of all examples, one by one; None where it fails."""
    with inside(folder):
        model = comet.models.load_from_checkpoint(folder / name / "checkpoints" / "model.ckpt", local_files_only=True)
    samples = [{"src": source, "mt": translation, "ref": reference} for source, translation, reference in EXAMPLES]
    if not with_reference:
        samples = [{"src": sample["src"], "mt": sample["mt"]} for sample in samples]
    rows: list[dict[str, float] | None] = []
    for sample in samples:
        try:
            rows.append({part: values[0] for part, values in predict(model, [sample], 1).items()})
        except (AssertionError, RuntimeError):
            rows.append(None)
    scored = [sample for sample, row in zip(samples, rows, strict=True) if row]
    for size in BATCH_SIZES:
        batched = predict(model, scored, size)["score"]
        difference = max(abs(one - row["score"]) for one, row in zip(batched, filter(None, rows), strict=True))
        assert difference < 1e-6, f"{name} differs by {difference} in batches of {size}"
    return rows


def make(folder: Path) -> None:
    make_encoders(folder / "checkpoints")
    for name in MODELS:
        make_model(folder / "checkpoints", name)
    (folder / "golden.json").write_text(golden(folder / "checkpoints"))


def golden(folder: Path) -> str:
    """A line an example."""
    columns = {name: score(folder, name) for name in MODELS}
    columns["xcomet-qe"] = score(folder, "xcomet", with_reference=False)
    rows = [{name: rounded(column[index]) for name, column in columns.items()} for index in range(len(EXAMPLES))]
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def rounded(row: dict[str, float] | None) -> dict[str, float] | None:
    return row and {part: round(value, 8) for part, value in row.items()}


def quiet() -> None:
    """Lightning says at length what it runs on."""
    warnings.simplefilter("ignore")
    for name in ("pytorch_lightning", "lightning", "transformers", "comet"):
        logging.getLogger(name).setLevel(logging.ERROR)


if __name__ == "__main__":
    quiet()
    make(Path(sys.argv[1]).resolve())
