"""``quitmt models``: what is ready, and what to do about the rest. Nothing here reaches for the network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants
import pytest
from tests.conftest import Ran

from quitmt.generate import BACKENDS, Backend
from quitmt.metrics.scorer import KINDS, Kind

Quitmt = Callable[..., Ran]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", None)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", None)
    return tmp_path


def add(cache: Path, model: str, name: str) -> None:
    repository = cache / f"models--{model.replace('/', '--')}"
    path = repository / "snapshots" / "0123" / name
    path.parent.mkdir(parents=True)
    path.write_text("")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123")


def lines(ran: Ran) -> dict[str, list[str]]:
    """The words of each line of metrics after its name, with the mark before it first."""
    assert (ran.code, ran.err) == (0, "")
    listed = ran.out.partition("\nmetrics ")[2].splitlines()[1:]
    return {line.split()[1]: [line.split()[0], *line.split()[2:]] for line in listed}


@pytest.mark.usefixtures("cache")
def test_every_backend_and_every_metric(quitmt: Quitmt) -> None:
    ran = quitmt("models")
    for backend in BACKENDS.values():
        assert backend.usage in ran.out
    assert {*lines(ran)} == {"chrf,", "gemba:ENGINE:MODEL", *KINDS}
    assert lines(ran)["chrf,"][0] == "ready"


def test_what_is_cached(quitmt: Quitmt, cache: Path) -> None:
    add(cache, "Unbabel/wmt22-comet-da", "checkpoints/model.ckpt")
    add(cache, "Unbabel/wmt22-cometkiwi-da", "hparams.yaml")  # a download that was broken off
    add(cache, "google/metricx-24-hybrid-xxl-v2p6", "pytorch_model.bin.index.json")
    found = lines(quitmt("models"))
    assert found["comet"] == ["ready", "Unbabel/wmt22-comet-da", "cached"]
    assert found["metricx"] == found["metricx-qe"] == ["ready", "google/metricx-24-hybrid-xxl-v2p6", "cached"]
    get = "not downloaded yet: hf download Unbabel/wmt22-cometkiwi-da"
    assert found["kiwi"] == ["ready", "Unbabel/wmt22-cometkiwi-da", *get.split()]


@pytest.mark.usefixtures("cache")
def test_what_is_not_installed(quitmt: Quitmt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kind, "installed", False)
    monkeypatch.setattr(Backend, "installed", False)
    ran = quitmt("models")
    for name, kind in KINDS.items():
        assert lines(ran)[name] == ["missing", kind.model, "pip", "install", "'quitmt[comet]'"]
    assert lines(ran)["chrf,"][0] == "ready" and lines(ran)["gemba:ENGINE:MODEL"][0] == "missing"
    assert "pip install 'quitmt[vllm]'" in ran.out


@pytest.mark.usefixtures("cache")
def test_columns_are_aligned(quitmt: Quitmt) -> None:
    listed = quitmt("models").out.partition("\nmetrics ")[2].splitlines()[1:]
    assert {line.index(KINDS[line.split()[1]].model) for line in listed if line.split()[1] in KINDS} == {29}
    assert len({line.index("not downloaded") for line in listed if "not downloaded" in line}) == 1
