"""Models of the hub without a network: one attempt and one sentence, or none at all where the model is cached."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.comet.folders import add_to_hub
from tests.conftest import Ran

pytest.importorskip("torch")
import huggingface_hub.constants

from quitmt.errors import ModelError
from quitmt.generate.huggingface import HuggingFaceGenerator
from quitmt.sampling import Sampling

Quitmt = Callable[..., Ran]
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No network: each attempt to reach the hub fails and is written down, and nobody waits for another one."""
    found: list[str] = []

    def connect(address: tuple[str, int], *_: object, **__: object) -> None:
        if address[0] == "hub.invalid":  # what else the library may ask for is its own affair
            found.append(address[0])
        raise socket.gaierror(-2, "Name or service not known")

    def sleep(seconds: float) -> None:
        raise AssertionError(f"waits for {seconds} s to try again")

    template = "http://hub.invalid/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", sleep)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    return found


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("cache")
def test_a_model_that_is_not_cached(attempts: list[str], caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ModelError, match=r"some/model is not in the cache, and the hub cannot be reached"):
        HuggingFaceGenerator("hf:some/model", Sampling(), languages=("en", "pt"))
    assert len(attempts) == 1 and caplog.records == []


@pytest.mark.usefixtures("cache", "attempts")
def test_one_line_on_the_command_line(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a\n")
    ran = quitmt("translate", tmp_path / "in", "--model", "hf:some/model", "--src", "en", "--tgt", "pt")
    assert ran.code == 2 and ran.err.count("\n") == 1 and "the hub cannot be reached" in ran.err


def test_a_model_that_is_cached_in_part(attempts: list[str], cache: Path, tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "config.json").write_text('{"model_type": "marian"}')
    add_to_hub(cache, "some/model", tmp_path / "part")
    with pytest.raises(ModelError, match="the hub cannot be reached"):
        HuggingFaceGenerator("hf:some/model", Sampling(), languages=("en", "pt"))
    assert len(attempts) == 1


def test_a_model_that_is_cached_needs_no_network(attempts: list[str], cache: Path, tmp_path: Path) -> None:
    from tests.models.zoo import Zoo

    add_to_hub(cache, "some/model", Path(Zoo(tmp_path / "zoo").folder("marian")))
    HuggingFaceGenerator("hf:some/model", Sampling(), languages=("en", "pt"))
    assert attempts == []
