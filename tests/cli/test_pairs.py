"""``quitmt models get`` and ``list``: translation models for other languages, from a server like Mozilla's."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.bergamot.marian_writer import write_folder
from tests.conftest import Ran
from tests.servers.models import ModelServer, serving

from quitmt.bergamot import models, store
from quitmt.cli import pairs
from quitmt.fetch import index

Quitmt = Callable[..., Ran]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("QUITMT_CACHE", str(tmp_path / "cache"))
    with serving() as served:
        monkeypatch.setenv("QUITMT_MODELS_URL", served.url)
        yield served


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("small") / "model", quantized=True)


def test_the_fetched_model_translates_as_the_embedded_one(server: ModelServer, quitmt: Quitmt, tmp_path: Path) -> None:
    for pair in ("en-pt", "pt-en"):
        server.publish(pair.replace("pt", "gl"), models.find(f"embedded:{pair}").model.parent)
    (tmp_path / "news.en").write_text("The weather is nice today.\nMy brother repairs old radios.\n")
    run = ("translate", tmp_path / "news.en", "-q", "-n", 32, "-k", 4, "-w", 2)
    ours = quitmt(*run)
    assert ours.code == 0 and ours.out.count("\n") == 2
    missing = quitmt(*run, "--tgt", "gl")
    assert missing.code == 2
    assert missing.err == "quitmt: the model embedded:en-gl is not on this machine (quitmt models get en-gl)\n"
    got = quitmt("models", "get", "en-gl", "gl-en")
    assert (got.code, got.out) == (0, "") and "use it with --model embedded:en-gl" in got.err
    assert quitmt(*run, "--model", "embedded:en-gl").out == ours.out
    assert quitmt(*run, "--src", "en", "--tgt", "gl").out == ours.out
    back = quitmt(*run, "--rerank", "qe:likelihood")
    assert quitmt(*run, "--tgt", "gl", "--rerank", "qe:likelihood").out == back.out
    refused = quitmt(*run, "--model", "embedded:en-gl", "--tgt", "pt")
    assert refused.code == 2 and "embedded:en-gl translates en to gl, not en to pt" in refused.err


def test_a_list_of_what_is_here_and_what_is_published(server: ModelServer, small: Path, quitmt: Quitmt) -> None:
    server.publish("en-de", small, comet=0.8765, bleu=41.27)
    server.publish("en-de", small, architecture="base", status="Nightly")
    server.publish("fr-en", small, architecture="base-memory", status="Release Desktop")
    ran = quitmt("models", "list")
    here, _, published = ran.out.partition("\n\n")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[0] for line in here.splitlines()[1:]] == ["pair", "en-pt", "pt-en"]
    rows = [line.split() for line in published.splitlines()[2:]]
    assert [row[:2] for row in rows] == [["en-de", "tiny"], ["en-de", "base"], ["fr-en", "base-memory"]]
    assert rows[0][-3:] == ["0.8765", "41.3", "Release"] and rows[2][-2:] == ["Release", "Desktop"]
    assert "published by Mozilla (2026-11-01)" in published
    assert quitmt("models", "get", "en-de").code == 0
    here = quitmt("models", "list", "--installed").out
    assert "en-de  tiny" in here and "0.8765  41.3  fetched, Release" in here and "fr-en" not in here
    only = quitmt("models", "list", "fr").out
    assert "fr-en" in only and "en-de" not in only and "en-pt" not in only
    assert quitmt("models", "list", "--installed", "fr").out.splitlines()[1:] == ["  none"]


def test_a_list_without_a_network(quitmt: Quitmt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUITMT_MODELS_URL", "http://127.0.0.1:9")
    ran = quitmt("models", "list")
    assert ran.code == 0 and "en-pt" in ran.out and "published" not in ran.out
    assert "Connection refused; showing installed models only" in ran.err
    assert quitmt("models", "list", "--installed").err == ""


def test_the_architectures_of_the_flag_are_those_that_are_ranked() -> None:
    assert pairs.ARCHITECTURES == index.ARCHITECTURES  # written twice, so that the help needs no network library


@pytest.mark.usefixtures("server")
def test_bad_values(quitmt: Quitmt) -> None:
    assert "unknown value of --architecture 'huge'" in quitmt("models", "get", "en-de", "--architecture", "huge").err
    assert "'deutsch' is not a language pair (write it as en-de)" in quitmt("models", "get", "deutsch").err
    assert quitmt("models", "get").code == quitmt("models", "fetch").code == 2
    ran = quitmt("translate", "--model", "embedded:deutsch")
    assert ran.code == 2 and "unknown model 'embedded:deutsch'" in ran.err


def test_a_bar_on_a_terminal_and_ctrl_c(server: ModelServer, small: Path) -> None:
    server.publish("en-gl", small)
    server.hold = threading.Event()
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = subprocess.Popen([sys.executable, "-m", "quitmt", "models", "get", "en-gl"], stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while not any(path.stat().st_size for path in store.root().glob(".en-gl.part/*.part")):
            assert process.poll() is None
        while b"model.bin" not in shown:
            assert select.select([ours], [], [], 30)[0], shown
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        while chunk := _read(ours):
            shown += chunk
    finally:
        process.kill()
        server.hold.set()
        os.close(ours)
    assert b"quitmt: interrupted; to continue: quitmt models get en-gl" in shown
    assert b"Traceback" not in shown and not store.has("en-gl")
    server.hold = None
    assert subprocess.run([sys.executable, "-m", "quitmt", "models", "get", "en-gl", "-q"]).returncode == 0
    assert store.has("en-gl")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # how a terminal says that nobody is there any more
        return b""
