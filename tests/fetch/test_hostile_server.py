"""Servers that send too much or too slowly, and a kill in the middle of replacing a model."""

from __future__ import annotations

import gzip
import itertools
import threading
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any, Self

import pytest

from quitmt.bergamot import models, store
from quitmt.errors import ModelError
from quitmt.fetch import RemoteFile, download, get, index, read, transfer
from quitmt.fetch.install import Silent
from tests.servers.models import INDEX, ModelServer


class Time:
    """A clock that moves when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


class Answer:
    """What a server sends, ``chunk`` by ``chunk``: ``seconds`` before each, and so many that it ends with the test."""

    def __init__(
        self, chunk: bytes, time: Time, *, seconds: float = 0.0, count: int = 100_000, length: str = ""
    ) -> None:
        self._chunk, self._time, self._seconds, self._count = chunk, time, seconds, count
        self.headers = Message()
        if length:
            self.headers["Content-Length"] = length
        self.sent = 0

    def read1(self, _: int) -> bytes:
        self._time.pass_(self._seconds)
        if self.sent == self._count * len(self._chunk):
            return b""
        self.sent += len(self._chunk)
        return self._chunk

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


Fetch = Callable[..., Path]


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def fetch(tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch) -> Fetch:
    """Download a file of a thousand bytes from a server that gives an answer; where its packed file is."""

    def run(answers: Callable[[], Answer], size: int | None = 1000) -> Path:
        file = RemoteFile("model.bin", "http://x/model.bin", size)
        monkeypatch.setattr("quitmt.fetch.download.opened", lambda *_: answers())
        try:
            download.download(file, tmp_path, Silent, time.pass_, time)
        finally:
            assert not (tmp_path / "model.bin").exists()
        return tmp_path / download.packed_name(file)

    return run


def kept(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"*{download.PART}"))


def test_an_index_that_unpacks_to_more_than_any_has(server: ModelServer) -> None:
    server.files[INDEX] = gzip.compress(b" " * (4 * index.MOST_BYTES))
    with pytest.raises(ModelError, match=r"is damaged: it has more than 16,777,216 bytes"):
        read()


def test_an_endless_index(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(b" " * (1 << 16), time)
    monkeypatch.setattr("quitmt.fetch.index.opened", lambda *_: answer)
    with pytest.raises(ModelError, match="it has more than"):
        read("http://x")
    assert answer.sent <= index.MOST_BYTES + (1 << 16)


def test_an_index_that_drips(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(b" ", time, seconds=20.0)
    monkeypatch.setattr("quitmt.fetch.index.opened", lambda *_: answer)
    with pytest.raises(ModelError, match=r"cannot read the index .* fewer than 8,192 bytes per second"):
        read("http://x", time)
    assert answer.sent == 4


def test_an_endless_file_takes_no_more_disk_than_it_should_have(fetch: Fetch, tmp_path: Path, time: Time) -> None:
    answer = Answer(b"x" * 4096, time)
    with pytest.raises(ModelError, match=r"is damaged: it has more than 66,537 bytes"):
        fetch(lambda: answer)
    assert answer.sent <= 66_537 + 4096 and kept(tmp_path) == 0


def test_a_file_that_is_announced_as_too_long_is_not_read(fetch: Fetch, time: Time) -> None:
    answer = Answer(b"x", time, length="10000000")
    with pytest.raises(ModelError, match="it has more than"):
        fetch(lambda: answer)
    assert answer.sent == 0


def test_a_size_in_the_index_is_not_believed_without_limit() -> None:
    assert download.most_bytes(RemoteFile("a", "b", 10**15)) == download.most_bytes(RemoteFile("a", "b"))


def test_a_file_that_drips_is_given_up_and_kept(fetch: Fetch, tmp_path: Path, time: Time) -> None:
    answer = Answer(b"x", time, seconds=29.0)
    with pytest.raises(ModelError, match=r"fewer than 8,192 bytes per second \(the part that has arrived is kept"):
        fetch(lambda: answer)
    assert time.now < 120 and kept(tmp_path) == answer.sent == 3


def test_a_server_that_ends_after_each_byte_is_given_up(fetch: Fetch, time: Time) -> None:
    asked = itertools.count()

    def answer() -> Answer:
        found = Answer(b"x", time, count=1)
        found.headers["Content-Range"] = f"bytes {next(asked)}-59999/60000"
        return found

    with pytest.raises(ModelError, match="fewer than 8,192 bytes per second"):
        fetch(answer)
    assert 60 < time.now < 120


def test_slow_but_steady_is_enough(time: Time) -> None:
    answer = Answer(b"x" * 8192, time, seconds=1.0, count=1000)
    assert sum(map(len, transfer.chunks(answer, transfer.Allowance(time), 10**9))) == 8_192_000


def test_a_server_that_never_ends_its_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr("quitmt.fetch.transfer.urlopen", lambda *_, **__: over.wait())
    monkeypatch.setattr("quitmt.fetch.transfer.PATIENCE_SECONDS", 0.01)
    with pytest.raises(TimeoutError, match="no answer within"):
        transfer.opened("http://x")
    over.set()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("renames", [0, 1])
def test_a_kill_between_the_renames_leaves_the_previous_model(
    renames: int, server: ModelServer, small: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.publish("en-xx", small)
    get("en-xx")
    before = models.load("embedded:en-xx").fingerprint
    server.models["en-xx"].clear()
    server.publish("en-xx", other)
    left, rename = [None] * renames, Path.rename

    def until_killed(path: Path, target: Any) -> Path:
        if not left:
            raise Killed
        left.pop()
        return rename(path, target)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "rename", until_killed)
        get("en-xx", replace=True)
    assert store.pairs() == ["en-xx"] and store.manifest("en-xx")
    assert models.load("embedded:en-xx").fingerprint == before
    get("en-xx", replace=True)
    assert models.load("embedded:en-xx").fingerprint == models.load(f"bergamot:{other}").fingerprint
    assert store.folder("en-xx") == store.place("en-xx") and not store.aside("en-xx").exists()


def test_a_model_that_was_set_aside_goes_back(server: ModelServer, small: Path) -> None:
    server.publish("en-xx", small)
    get("en-xx")
    store.place("en-xx").rename(store.aside("en-xx"))
    assert not get("en-xx").fresh and store.folder("en-xx") == store.place("en-xx")
