"""``quitmt models``: what is ready, and what to do about the rest. Nothing here reaches for the network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants
import pytest
from tests.conftest import Ran

from quitmt.cli import models
from quitmt.generate import BACKENDS, Backend
from quitmt.metrics import metricx
from quitmt.metrics.registry import SCORING_MODELS, MetricEntry

Quitmt = Callable[..., Ran]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", None)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", None)
    return tmp_path


def add(cache: Path, model: str, name: str, content: str = "") -> None:
    repository = cache / f"models--{model.replace('/', '--')}"
    path = repository / "snapshots" / "0123" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text("0123")


def lines(ran: Ran) -> dict[str, list[str]]:
    """The words of each line of metrics after its name, with the mark before it first."""
    assert (ran.code, ran.err) == (0, "")
    listed = ran.out.partition("\nmetrics ")[2].splitlines()[1:]
    return {line.split()[1]: [line.split()[0], *line.split()[2:]] for line in listed}


@pytest.mark.usefixtures("cache")
def test_every_backend_and_every_metric(quitmt: Quitmt) -> None:
    ran = quitmt("models")
    for name in BACKENDS:
        assert BACKENDS[name].usage(name) in ran.out
    assert {*lines(ran)} == {"chrf,", "vote", "gemba:ENGINE:MODEL", *SCORING_MODELS}
    assert lines(ran)["chrf,"][0] == "ready"


def test_what_is_cached(quitmt: Quitmt, cache: Path) -> None:
    comet, kiwi, metricx = "Unbabel/wmt22-comet-da", "Unbabel/wmt22-cometkiwi-da", "google/metricx-24-hybrid-xxl-v2p6"
    add(cache, comet, "hparams.yaml", "pretrained_model: xlm-roberta-large")
    add(cache, comet, "checkpoints/model.ckpt")
    add(cache, "xlm-roberta-large", "config.json")
    add(cache, "xlm-roberta-large", "sentencepiece.bpe.model")
    add(cache, kiwi, "hparams.yaml", "{broken")  # a download that was broken off
    add(cache, metricx, "config.json")
    add(cache, metricx, "pytorch_model.bin")
    add(cache, "google/mt5-xl", "tokenizer.json")
    found = lines(quitmt("models"))
    assert found["comet"] == ["ready", comet, "cached"]
    assert found["metricx"] == found["metricx-qe"] == ["ready", metricx, "cached"]
    assert found["kiwi"] == ["ready", kiwi, *f"not downloaded yet: hf download {kiwi}".split()]


OF_A_PART = "--include '*.json' --include '*.model'"


def test_an_encoder_that_is_not_cached(quitmt: Quitmt, cache: Path) -> None:
    def state() -> str:
        return " ".join(lines(quitmt("models"))["kiwi"][2:])

    kiwi, encoder = "Unbabel/wmt22-cometkiwi-da", "microsoft/infoxlm-large"
    first, second = f"hf download {kiwi}", f"hf download {encoder} {OF_A_PART}"
    add(cache, kiwi, "checkpoints/model.ckpt")
    assert state() == f"not downloaded yet: {first}"
    add(cache, kiwi, "hparams.yaml", f"pretrained_model: {encoder}")
    assert state() == f"not downloaded yet: {second}"
    add(cache, encoder, "tokenizer.json")
    assert state() == f"not downloaded yet: {second}"
    add(cache, encoder, "config.json")
    assert state() == "cached"
    (cache / "models--Unbabel--wmt22-cometkiwi-da" / "snapshots" / "0123" / "checkpoints" / "model.ckpt").unlink()
    assert state() == f"not downloaded yet: {first}"
    (cache / "models--microsoft--infoxlm-large" / "snapshots" / "0123" / "config.json").unlink()
    assert state() == f"not downloaded yet: {first} && {second}"


def test_a_shard_or_a_tokenizer_that_is_not_cached(quitmt: Quitmt, cache: Path) -> None:
    def state() -> str:
        return " ".join(lines(quitmt("models"))["metricx"][2:])

    assert metricx.TOKENIZER == models.METRICX_TOKENIZER and metricx.SENTENCEPIECE in models.TOKENIZERS
    model = SCORING_MODELS["metricx"].model
    first, second = f"hf download {model}", f"hf download {metricx.TOKENIZER} {OF_A_PART}"
    add(cache, model, "config.json")
    add(cache, model, "model.safetensors.index.json", "{cut off")
    assert state() == f"not downloaded yet: {first} && {second}"
    add(cache, metricx.TOKENIZER, metricx.SENTENCEPIECE)
    add(cache, model, "model.safetensors.index.json", '{"weight_map": {"x": "1.safetensors", "y": "2.safetensors"}}')
    add(cache, model, "1.safetensors")
    assert state() == f"not downloaded yet: {first}"
    add(cache, model, "2.safetensors")
    assert state() == "cached"


def test_an_embedding_has_everything_in_one_place(quitmt: Quitmt, cache: Path) -> None:
    model = SCORING_MODELS["embedding"].model
    for name in ("modules.json", "config.json", "tokenizer.json", "model.safetensors"):
        state = " ".join(lines(quitmt("models"))["embedding"][2:])
        assert state == f"not downloaded yet: hf download {model}"
        add(cache, model, name)
    assert lines(quitmt("models"))["embedding"] == ["ready", model, "cached"]


@pytest.mark.usefixtures("cache")
def test_what_is_not_installed(quitmt: Quitmt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MetricEntry, "installed", False)
    monkeypatch.setattr(Backend, "installed", False)
    ran = quitmt("models")
    for name, kind in SCORING_MODELS.items():
        assert lines(ran)[name] == ["missing", kind.model, "pip", "install", f"'quitmt[{kind.extra}]'"]
    assert lines(ran)["chrf,"][0] == "ready" and lines(ran)["gemba:ENGINE:MODEL"][0] == "missing"
    assert "pip install 'quitmt[vllm]'" in ran.out


@pytest.mark.usefixtures("cache")
def test_columns_are_aligned(quitmt: Quitmt) -> None:
    listed = quitmt("models").out.partition("\nmetrics ")[2].splitlines()[1:]
    assert {
        line.index(SCORING_MODELS[line.split()[1]].model) for line in listed if line.split()[1] in SCORING_MODELS
    } == {29}
    assert len({line.index("not downloaded") for line in listed if "not downloaded" in line}) == 1
