"""How often the hub is asked and what is heard of it, with a server of ours in its place."""

from __future__ import annotations

import json
import logging
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from aiohttp import web
from tests.comet.folders import CHECKPOINTS, add_to_hub
from tests.conftest import Ran
from tests.servers.fake_openai import Server, scripted_server

from quitmt.errors import ModelError
from quitmt.metrics.neural import hub

Quitmt = Callable[..., Ran]
TEXT = b"class_identifier: nothing\n" * 1000


class Hub:
    """Has every file, once it has been too busy for ``failures`` requests."""

    def __init__(self) -> None:
        self.failures = 0
        self.server = Server()

    async def answer(self, _: int, request: web.Request) -> web.StreamResponse:
        if "/resolve/" not in request.path:
            return web.Response(status=404)
        if len(self.requested) <= self.failures:
            return web.Response(status=503)
        return web.Response(body=TEXT, headers={"ETag": '"0a"', "X-Repo-Commit": "0123", "Accept-Ranges": "bytes"})

    @property
    def requested(self) -> list[str]:
        """The files; what else the library may ask for is its own affair."""
        return [request["path"] for request in self.server.requests if "/resolve/" in request["path"]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def point_to(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://elsewhere.invalid")  # for all but files
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    one = Hub()
    with scripted_server(one.answer) as one.server:
        point_to(one.server.base_url.removesuffix("/v1"), monkeypatch)
        yield one


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No network: each attempt to reach the hub fails and is written down."""
    attempts: list[str] = []

    def connect(address: tuple[str, int], *_: object, **__: object) -> None:
        if address[0] == "hub.invalid":
            attempts.append(address[0])
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", connect)
    point_to("http://hub.invalid", monkeypatch)
    return attempts


def levels() -> list[int]:
    return [logging.getLogger(name).level for name in hub.NOISY]


def test_a_hub_that_is_away_is_asked_once(away: list[str], caplog: pytest.LogCaptureFixture) -> None:
    before = levels()
    with pytest.raises(ModelError, match=r"a/b is not in the cache, and the hub cannot be reached \(download it on"):
        hub.file("a/b", "hparams.yaml", purpose="COMET")
    assert len(away) == 1
    assert caplog.records == [] and levels() == before


def test_a_hub_that_is_busy_is_asked_again_without_a_word(remote: Hub, caplog: pytest.LogCaptureFixture) -> None:
    remote.failures = 4
    assert hub.file("a/b", "hparams.yaml", purpose="COMET").read_bytes() == TEXT
    assert len(remote.requested) > 4
    assert caplog.records == []


def test_debugging_hears_everything(remote: Hub, caplog: pytest.LogCaptureFixture) -> None:
    remote.failures = 4
    with caplog.at_level(logging.DEBUG, logger="quitmt.metrics.neural.hub"):
        hub.file("a/b", "hparams.yaml", purpose="COMET")
    assert "HTTP Error 503 thrown while requesting" in caplog.text


def test_a_download_shows_its_progress(
    remote: Hub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TQDM_POSITION", "-1")  # how the hub's library is told that this is a terminal
    hub.file("a/b", "hparams.yaml", purpose="COMET")
    assert "hparams.yaml: 100%" in capfd.readouterr().err
    sent = len(remote.requested)
    hub.file("a/b", "hparams.yaml", purpose="COMET")
    assert len(remote.requested) == sent


def test_one_line_on_the_command_line(quitmt: Quitmt, away: list[str]) -> None:
    for name in ("src", "out"):
        Path(name).write_text("a\nb\n")
    for metric, model in (("kiwi", "Unbabel/wmt22-cometkiwi-da"), ("metricx-qe", "google/metricx-24-hybrid-xxl-v2p6")):
        away.clear()
        ran = quitmt("score", "-s", "src", "-t", "out", "-m", metric)
        assert (ran.code, ran.out, len(away)) == (2, "", 1)
        assert ran.err == (
            f"quitmt: {model} is not in the cache, and the hub cannot be reached (download it on a machine with "
            f"a network with `hf download {model}`, or name a folder that holds it)\n"
        )


def test_an_encoder_that_is_lacking_is_named_with_what_it_is_for(quitmt: Quitmt, cache: Path, away: list[str]) -> None:
    add_to_hub(cache, "Unbabel/tiny-unified", CHECKPOINTS / "unified")
    for name in ("src", "out"):
        Path(name).write_text("a\nb\n")
    lacking = (
        "quitmt: encoder is not in the cache, and the hub cannot be reached (it is the {} of Unbabel/tiny-unified; "
        "download it on a machine with a network with `hf download encoder --include '*.json' --include '*.model'`)\n"
    )
    ran = quitmt("score", "-s", "src", "-t", "out", "-m", "kiwi:Unbabel/tiny-unified")
    assert (ran.code, ran.err, len(away)) == (2, lacking.format("encoder"), 1)
    shutil.copytree(CHECKPOINTS / "encoder", "half", ignore=lambda *_: ["tokenizer.json", "sentencepiece.bpe.model"])
    add_to_hub(cache, "encoder", Path("half"))
    ran = quitmt("score", "-s", "src", "-t", "out", "-m", "kiwi:Unbabel/tiny-unified")
    assert (ran.code, ran.err, len(away)) == (2, lacking.format("tokenizer"), 2)


def folder_with(path: Path, *names: str) -> Path:
    path.mkdir()
    for name in names:
        (path / name).write_text(json.dumps({"weight_map": {"x": "1.bin", "y": "2.bin", "z": "1.bin"}}))
    return path


def test_weights_in_one_file_or_in_many(tmp_path: Path, remote: Hub) -> None:
    one = folder_with(tmp_path / "one", "pytorch_model.bin", "model.safetensors")
    assert hub.weights(str(one), purpose="a test") == one
    many = folder_with(tmp_path / "many", "pytorch_model.bin.index.json", "1.bin", "2.bin")
    assert hub.weights(str(many), purpose="a test") == many
    (many / "2.bin").unlink()
    with pytest.raises(ModelError, match=r"many has no 2.bin"):
        hub.weights(str(many), purpose="a test")
    (many / "pytorch_model.bin.index.json").write_text("[]")
    with pytest.raises(ModelError, match=r"pytorch_model.bin.index.json of .*many cannot be read"):
        hub.weights(str(many), purpose="a test")
    with pytest.raises(ModelError, match=r"none has no model.safetensors"):
        hub.weights(str(folder_with(tmp_path / "none")), purpose="a test")
    assert remote.requested == []


def test_weights_that_are_cached_in_part(cache: Path, tmp_path: Path, away: list[str]) -> None:
    add_to_hub(cache, "a/b", folder_with(tmp_path / "some", "pytorch_model.bin.index.json", "1.bin"))
    with pytest.raises(ModelError, match=r"a/b is not in the cache, and the hub cannot be reached"):
        hub.weights("a/b", purpose="MetricX")
    assert len(away) == 1
