"""Engines from the command line: what is there, and one sentence for everything that can be wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import Ran
from tests.models import tiny
from tests.servers.fake_openai import Server, fake_server

Quitmt = Callable[..., Ran]
LANGUAGES = ("--src", "en", "--tgt", "pt")
SMALL = ("-n", 8, "-k", 4, "-w", 2)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "in").write_text("Good morning.\n\nThe door is open.\n")
    return tmp_path / "in"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with fake_server() as one:
        yield one


def test_a_server(quitmt: Quitmt, server: Server, text: Path, tmp_path: Path) -> None:
    words = ("translate", text, "--model", "openai:m", "--base-url", server.base_url, *LANGUAGES, *SMALL)
    ran = quitmt(*words, "-o", tmp_path / "out", "--keep-pools", tmp_path / "pools")
    assert ran.code == 0
    lines = (tmp_path / "out").read_text().split("\n")
    assert lines[0] and lines[1] == "" and lines[2]
    assert quitmt("rerank", tmp_path / "pools", *SMALL).out.splitlines() == [lines[0], lines[2]]


def test_transformers(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    tiny.make_marian(tmp_path / "marian")
    words = ("translate", text, "--model", f"hf:{tmp_path / 'marian'}", *LANGUAGES, *SMALL, "--max-tokens", 6)
    ran = quitmt(*words, "--speculate")
    assert ran.code == 0 and ran.out == quitmt(*words).out and ran.out.count("\n") == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "openai:m", *LANGUAGES], "--base-url"),
        (["--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1", *LANGUAGES], "is the server running"),
        (["--model", "openai:m", "--base-url", "URL", "--device", "cuda", *LANGUAGES], "--device goes with hf:"),
        (["--model", "hf:/nowhere/model", *LANGUAGES], "/nowhere/model"),
    ],
)
def test_bad_settings(words: list[str], message: str, quitmt: Quitmt, server: Server, text: Path) -> None:
    ran = quitmt("translate", text, *[word.replace("URL", server.base_url) for word in words])
    assert ran.code == 2 and ran.out == ""
    assert message in ran.err and "Traceback" not in ran.err and ran.err.count("\n") == 1


def test_a_model_folder_without_tokenizer(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    tiny.make_marian(tmp_path / "marian")
    for file in (tmp_path / "marian").iterdir():
        if file.name != "config.json" and file.suffix != ".safetensors":
            file.unlink()
    ran = quitmt("translate", text, "--model", f"hf:{tmp_path / 'marian'}", *LANGUAGES)
    assert ran.code == 2 and "tokenizer" in ran.err and "Traceback" not in ran.err
