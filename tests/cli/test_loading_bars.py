"""Libraries that load models draw bars of their own: not where ours are unwanted or unseen."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.conftest import Ran
from tests.models.zoo import Zoo


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "in.en").write_text("The weather is nice today.\n")
    model = Zoo(folder).folder("marian")
    quitmt = [sys.executable, "-W", "ignore", "-m", "quitmt", "translate", str(folder / "in.en")]
    return [*quitmt, "--model", f"hf:{model}", "-n", "2", "-k", "2", "-o", os.devnull]


def on_a_terminal(words: list[str]) -> str:
    """What a command writes to standard error, which is a terminal."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    with subprocess.Popen(words, stderr=its, env=environment()) as process:
        os.close(its)
        told = b""
        try:
            while part := os.read(own, 4096):
                told += part
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(own)
    assert process.returncode == 0, told
    return told.decode()


def environment() -> dict[str, str]:
    """As a user has it: other tests of this process may have asked for silence."""
    return {name: value for name, value in os.environ.items() if name != "HF_HUB_DISABLE_PROGRESS_BARS"}


def test_somebody_who_looks_sees_the_weights_load(command: list[str]) -> None:
    assert "Loading weights" in on_a_terminal(command)


def test_quiet_is_quiet(command: list[str]) -> None:
    assert on_a_terminal([*command, "-q"]) == ""


def test_a_file_gets_no_bars(quitmt: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries are told so before they are imported."""
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS", raising=False)
    assert quitmt("recipe").code == 0
    assert os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] == "1"
