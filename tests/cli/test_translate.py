"""``quitmt translate`` as a user runs it, with the embedded model."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran

from quitmt.bergamot.models import find

Quitmt = Callable[..., Ran]
SETTINGS = ("-n", 48, "-k", 4, "-w", 3, "--alpha", 0.02)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.en"
    path.write_text("Good morning.\n\nThe door is open.\n   \nWhere is the station?", encoding="utf-8")
    return path


def outcomes(path: Path) -> list[dict[str, Any]]:
    fields = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in one.items() if key != "seconds"} for one in fields]


def test_lines_in_lines_out(quitmt: Quitmt, text: Path) -> None:
    ran = quitmt("translate", text, *SETTINGS)
    lines = ran.out.split("\n")
    assert (ran.code, len(lines)) == (0, 6)  # five lines, and what follows the last line break
    assert lines[0] == "Bom dia." and lines[1] == lines[3] == lines[5] == ""
    assert "porta" in lines[2] and "estação" in lines[4]
    assert "3 segments" in ran.err


def test_a_live_run_is_the_replay_of_its_pools(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    files = ("-o", tmp_path / "live", "--jsonl", tmp_path / "live.jsonl", "--keep-pools", tmp_path / "pools")
    assert quitmt("translate", text, *SETTINGS, *files).code == 0
    assert quitmt("rerank", tmp_path / "pools", *SETTINGS, "--jsonl", tmp_path / "replay", "-o", "/dev/null").code == 0
    live = [one for one in outcomes(tmp_path / "live.jsonl") if one["size"]]
    replay = outcomes(tmp_path / "replay")
    assert [one["size"] for one in live] == [
        len(json.loads(p)["candidates"]) for p in (tmp_path / "pools").read_text().splitlines()
    ]
    for one, other in zip(live, replay, strict=True):
        same = ("id", "source", "translation", "index", "score", "size", "trajectory")
        assert {key: one[key] for key in same} == {key: other[key] for key in same}


def test_a_full_pool_replays_every_rule(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    quitmt("translate", text, "--stop", "full", "-n", 48, "--keep-pools", tmp_path / "pools", "-o", tmp_path / "full")
    for rule in (("--stop", "quit"), ("--stop", "fixed:8")):
        live = quitmt("translate", text, *SETTINGS, *rule).out.splitlines()
        replayed = quitmt("rerank", tmp_path / "pools", *SETTINGS, *rule).out.splitlines()
        assert [line for line in live if line] == replayed


def test_seed_and_segments_in_flight(quitmt: Quitmt, text: Path) -> None:
    def pools(*words: object) -> str:
        kept = text.with_name("-".join(map(str, words)))
        quitmt("translate", text, "-n", 16, "--keep-pools", kept, *words)
        return kept.read_text()

    assert pools("--in-flight", 1) == pools("--in-flight", 3)
    assert pools("--seed", 1) != pools("--seed", 2)


def test_greedy_gives_one_distinct_candidate(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    quitmt("translate", text, "--temperature", 0, "-n", 8, "--keep-pools", tmp_path / "pools")
    for line in (tmp_path / "pools").read_text().splitlines():
        assert len(set(json.loads(line)["candidates"])) == 1


def test_the_other_direction(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "pt").write_text("Bom dia.\n")
    words = ("translate", tmp_path / "pt", "-n", 16)
    assert quitmt(*words, "--src", "pt").out == quitmt(*words, "--model", "embedded:pt-en").out == "Good morning.\n"


def test_likelihood_reranks_and_a_folder_is_a_model(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    shutil.copytree(find("embedded:pt-en").model.parent, tmp_path / "reverse")
    words = ("translate", text, "-n", 16, "--jsonl", tmp_path / "out", "-q")
    quitmt(*words, "--rerank", "qe:likelihood")
    expected = outcomes(tmp_path / "out")
    quitmt(*words, "--rerank", f"qe:likelihood:bergamot:{tmp_path / 'reverse'}")
    assert [one["score"] for one in outcomes(tmp_path / "out")] == [one["score"] for one in expected]
    assert all(0 < one["score"] <= 1 for one in expected if one["size"])


@pytest.mark.slow
def test_standard_input_and_a_terminal(text: Path, tmp_path: Path) -> None:
    """Lines through a pipe, with standard error on a terminal: there, and only there, is a progress bar."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    command = [sys.executable, "-m", "quitmt", "translate", "-n", "256", "--stop", "full"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs) as process:
        out, _ = process.communicate(text.read_bytes())
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # how Linux says that the other end is closed
            pass
        os.close(ours)
    assert process.returncode == 0 and out.count(b"\n") == 5
    assert b"segment/s" in shown and b"candidates" in shown and b"saved" in shown
    piped = subprocess.run(command, input=b"Yes.\n", capture_output=True, check=True)
    assert piped.stderr.startswith(b"quitmt: 1 segment, 257.0 candidates per segment")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "/nowhere/out"], "cannot write /nowhere/out: there is no folder /nowhere"),
        (["--context", "2"], "--context goes with chat models"),
        (["nowhere.txt"], "cannot read nowhere.txt: No such file or directory"),
    ],
)
def test_bad_settings(words: list[str], message: str, quitmt: Quitmt) -> None:
    ran = quitmt("translate", *words)
    assert ran.code == 2 and message in ran.err and ran.err.count("\n") == 1 and ran.out == ""


def test_not_utf8_midway_loses_nothing(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"Good morning.\nol\xe1\nYes.\n")
    ran = quitmt("translate", tmp_path / "in", "-n", 8, "-o", tmp_path / "out")
    assert ran.code == 2 and "line 2: not UTF-8" in ran.err
    assert (tmp_path / "out").read_text() == "Bom dia.\n"


def test_an_input_is_not_taken_for_an_output(quitmt: Quitmt, text: Path) -> None:
    before = text.read_text()
    ran = quitmt("translate", "--jsonl", text)
    assert ran.code == 2 and "--jsonl would overwrite" in ran.err and text.read_text() == before


@pytest.mark.parametrize("words", [["nowhere.en"], ["IN", "--keep-pools", "/nowhere/pools"], ["BAD"]])
def test_an_old_output_survives_a_run_that_never_began(words: list[str], quitmt: Quitmt, text: Path) -> None:
    (text.parent / "bad").write_bytes(b"\xff\n")
    (text.parent / "out").write_text("precious\n")
    words = [{"IN": str(text), "BAD": str(text.parent / "bad")}.get(word, word) for word in words]
    assert quitmt("translate", *words, "-o", text.parent / "out", "-n", 8).code == 2
    assert (text.parent / "out").read_text() == "precious\n"


def test_a_longer_old_output_is_replaced_whole(quitmt: Quitmt, text: Path) -> None:
    (text.parent / "out").write_text("old\n" * 50)
    assert quitmt("translate", text, "-o", text.parent / "out", "-n", 8).code == 0
    assert (text.parent / "out").read_text().count("\n") == 5
    (text.parent / "empty").write_text("")
    assert quitmt("translate", text.parent / "empty", "-o", text.parent / "out", "-n", 8).code == 0
    assert (text.parent / "out").read_text() == ""


def test_a_source_that_is_far_too_long_fails_alone(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("Yes.\n" + "word " * 9000 + "\nNo.\n")
    ran = quitmt("translate", tmp_path / "in", "-n", 8, "--stop", "full", "--jsonl", "-o", tmp_path / "out")
    found = outcomes(tmp_path / "out")
    assert ran.code == 1 and [one["stop"] for one in found] == ["budget", "failed", "budget"]
    assert "split it into shorter segments" in found[1]["error"]


def test_resume_with_other_weights_is_refused(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    shutil.copytree(find("embedded:en-pt").model.parent, tmp_path / "model")
    words = ("translate", text, "--model", f"bergamot:{tmp_path / 'model'}", "-n", 8, "-o", tmp_path / "out")
    with text.open("ab") as file:
        file.write(b"\n\xff\n")  # so that the run does not end well, and its journal stays
    assert quitmt(*words).code == 2
    shutil.rmtree(tmp_path / "model")
    shutil.copytree(find("embedded:pt-en").model.parent, tmp_path / "model")
    ran = quitmt(*words, "--resume")
    assert ran.code == 2 and "cannot resume: what produces the results was" in ran.err


def test_a_pipe_is_read_as_it_comes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-m", "quitmt", "translate", str(tmp_path / "pipe"), "-n", "8", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process, (tmp_path / "pipe").open("wb") as pipe:
        assert process.stdout
        pipe.write(b"Good morning.\n")
        pipe.flush()
        assert process.stdout.readline() == b"Bom dia.\n"  # before the pipe is closed
        pipe.write(b"Yes.\n")
        pipe.close()
        assert process.stdout.read().count(b"\n") == 1


@pytest.mark.parametrize(("content", "message"), [("", "in has no lines\n"), ("\n \n", "all lines of in are blank\n")])
def test_an_input_without_text_is_told(content: str, message: str, quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(content)
    ran = quitmt("translate", tmp_path / "in", "-o", tmp_path / "out")
    assert ran.code == 0 and ran.err.startswith("quitmt: ") and ran.err.replace(f"{tmp_path}/", "").endswith(message)
    assert (tmp_path / "out").read_text() == "\n" * content.count("\n")
    assert quitmt("translate", tmp_path / "in", "-q").err == ""
