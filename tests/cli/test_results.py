"""Where results go, and what can go wrong on the way: links, gzip, other runs, files that vanish, text that is none."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from aiohttp import web
from tests.conftest import Ran
from tests.servers.fake_openai import scripted_server, text_of

from quitmt.cli.results import Outputs
from quitmt.files import journal
from quitmt.files.outputs import Output
from quitmt.types import Candidate, Finished, Outcome, Segment, StopReason

Quitmt = Callable[..., Ran]
HALF = "half of a pair: \ud83d"


@pytest.fixture
def pools(tmp_path: Path, make_pool: Callable[[int, int], list[str]]) -> Path:
    path = tmp_path / "pools.jsonl"
    path.write_text(
        "".join(json.dumps({"id": i, "source": "s", "candidates": make_pool(i, 24)}) + "\n" for i in range(4))
    )
    return path


def test_a_gz_file_is_gzip(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    plain = quitmt("rerank", pools).out
    for _ in range(2):  # the second replaces the first
        assert quitmt("rerank", pools, "-o", tmp_path / "x.gz", "--jsonl", tmp_path / "x.jsonl.gz").code == 0
    assert gzip.decompress((tmp_path / "x.gz").read_bytes()).decode() == plain
    assert len(gzip.decompress((tmp_path / "x.jsonl.gz").read_bytes()).splitlines()) == 4


def test_kept_pools_in_gzip_are_read_back(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("Good morning.\n\nYes.\n")
    kept = tmp_path / "pools.jsonl.gz"
    out = quitmt("translate", tmp_path / "in", "-n", 16, "-k", 4, "--keep-pools", kept).out.splitlines()
    assert kept.read_bytes()[:2] == b"\x1f\x8b"
    assert quitmt("rerank", kept, "-n", 16, "-k", 4).out.splitlines() == [out[0], out[2]]


def test_pools_that_are_there_are_not_written_over(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    kept, words = tmp_path / "kept.jsonl", ("rerank", pools, "-o", tmp_path / "out", "--keep-pools")
    kept.write_text("")
    assert quitmt(*words, kept).code == 0 and quitmt(*words, "/dev/null").code == 0
    (tmp_path / "out").write_text("mine")
    before = kept.read_bytes()
    for resume in ([], ["--resume"]):  # there is nothing to resume
        (tmp_path / "new").unlink(missing_ok=True)
        ran = quitmt("rerank", pools, "-o", tmp_path / "new", "--keep-pools", kept, *resume)
        assert ran.code == 2 and ran.err.count("\n") == 1
        assert f"{kept} exists, and its pools would be lost (name another file, or remove it first)" in ran.err
        assert kept.read_bytes() == before and not list(tmp_path.glob("new*"))


def test_pools_of_the_run_that_is_resumed_are_written_again(
    quitmt: Quitmt, pools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("rerank", pools, "-o", tmp_path / "out", "--keep-pools", tmp_path / "kept.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(journal.Path, "unlink", lambda *_, **__: None)  # as if it had been killed just before
        assert quitmt(*words).code == 0
    whole = (tmp_path / "kept.jsonl").read_bytes()
    (tmp_path / "kept.jsonl").write_bytes(whole[: len(whole) // 2])
    ran = quitmt(*words, "--resume")
    assert ran.code == 0 and "continuing after 4 finished" in ran.err
    assert (tmp_path / "kept.jsonl").read_bytes() == whole


@pytest.mark.parametrize("rule", ["full", "fixed:4", "quit"])
def test_pools_say_why_they_end_there(rule: str, quitmt: Quitmt, tmp_path: Path) -> None:
    """A command that reads them warns once if there might have been more candidates."""
    (tmp_path / "in").write_text("Good morning.\nYes.\n")
    kept, again = tmp_path / "pools.jsonl", tmp_path / "again.jsonl"
    words = ("--stop", rule, "-k", 2, "-n", 16, *(("-w", 2, "--alpha", 1) if rule == "quit" else ()))
    assert quitmt("translate", tmp_path / "in", *words, "--keep-pools", kept, "-o", tmp_path / "out").code == 0
    ran = quitmt("rerank", kept, "--stop", "full", "--keep-pools", again, "-o", tmp_path / "out")
    stop = "stable" if rule == "quit" else "budget"
    for path in (kept, again):
        assert [json.loads(line)["stop"] for line in path.read_text().splitlines()] == [stop, stop]
    told = "what more candidates would have brought"
    assert ran.err.count(told) == (rule == "quit")
    assert told not in quitmt("rerank", kept, "--stop", "full", "-q").err
    calibrate = ("calibrate", kept, "--max-loss", 0.1, "--confidence", "none", "--risk", 0.9, "-k", 2, "-n")
    assert quitmt(*calibrate, 4).err.count(told) == (rule == "quit")
    ran = quitmt(*calibrate, 32)
    assert ran.code == 2 and "fewer than 32" in ran.err and ("stopped early" in ran.err) == (rule == "quit")


def test_a_hard_link_to_the_input_is_the_input(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    (tmp_path / "link").hardlink_to(pools)
    before = pools.read_bytes()
    ran = quitmt("rerank", pools, "-o", tmp_path / "link")
    assert ran.code == 2 and "is an input of this run and would be overwritten" in ran.err
    (tmp_path / "one").write_text("")
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    ran = quitmt("rerank", pools, "-o", tmp_path / "one", "--jsonl", tmp_path / "two")
    assert ran.code == 2 and "two outputs would go to the same file" in ran.err
    assert pools.read_bytes() == before


@pytest.mark.parametrize("option", ["-o", "--jsonl"])
@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_a_file_that_another_run_writes(
    option: str, resume: list[str], quitmt: Quitmt, pools: Path, tmp_path: Path
) -> None:
    """Whatever it is for, and whether or not that run has a journal beside this file: nothing is touched."""
    (tmp_path / "mine.journal").write_text("of a run that still goes on")
    living = Output(str(tmp_path / "mine"))
    files = ["-o", tmp_path / "other", option, tmp_path / "mine"]
    ran = quitmt("rerank", pools, *files, *resume)
    assert (ran.code, ran.out) == (2, "")
    assert f"another run is writing to {tmp_path / 'mine'} (wait until it has ended" in ran.err
    assert "delete" not in ran.err and ran.err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "mine.journal", "pools.jsonl"}
    assert (tmp_path / "mine.journal").read_text() == "of a run that still goes on"
    living.close()


def test_a_refused_run_leaves_no_empty_files(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    (tmp_path / "out.journal").write_text("Hello")
    before = set(tmp_path.iterdir())
    assert quitmt("rerank", pools, "-o", tmp_path / "out", "--jsonl", tmp_path / "j").code == 2
    assert set(tmp_path.iterdir()) == before


def test_an_output_that_vanishes_is_noticed(tmp_path: Path) -> None:
    """The run fails, and its journal still has everything."""
    (tmp_path / "in").write_text("Good morning.\nYes.\n")
    words = [sys.executable, "-m", "quitmt", "translate", "-n", "8", "-o", str(tmp_path / "out")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin and process.stderr
        process.stdin.write(b"Good morning.\n")
        process.stdin.flush()
        while not (tmp_path / "out").exists() or not (tmp_path / "out").read_text():
            assert process.poll() is None
            time.sleep(0.01)
        (tmp_path / "out").rename(tmp_path / "moved")
        process.stdin.write(b"Yes.\n")
        process.stdin.close()
        error = process.stderr.read().decode()
        assert process.wait() == 2
    assert f"{tmp_path / 'out'} was moved, deleted or replaced" in error and "Traceback" not in error
    ran = subprocess.run([*words, str(tmp_path / "in"), "--resume"], capture_output=True, text=True, check=True)
    assert "continuing after 2 finished segments" in ran.stderr
    assert (tmp_path / "out").read_bytes() == (tmp_path / "moved").read_bytes() != b""


def test_outputs_are_on_the_disk_before_the_journal_goes(
    quitmt: Quitmt, pools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    sync, close = os.fsync, journal.Journal.close

    def noted_sync(descriptor: int) -> None:
        happened.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def noted_close(self: journal.Journal, *, done: bool) -> None:
        happened.append("journal")
        close(self, done=done)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(journal.Journal, "close", noted_close)
    assert quitmt("rerank", pools, "-o", tmp_path / "out.gz", "--jsonl", tmp_path / "j").code == 0
    assert happened == ["out.gz", "j", "journal"]


def test_a_failed_segment_is_a_blank_line(tmp_path: Path) -> None:
    """Also one that had a translation when it failed; its outcome keeps that."""
    outputs = Outputs(8, text=Output(str(tmp_path / "t")), outcomes=Output(str(tmp_path / "j")))
    outcome = Outcome("1", "s", "the best so far", 0, 0.5, 4, StopReason.FAILED, (0.5,), error="the server died")
    outputs.write(Finished(Segment("1", "s"), outcome, (Candidate("the best so far"),)))
    outputs.close()
    assert (tmp_path / "t").read_text() == "\n"
    kept = json.loads((tmp_path / "j").read_text())
    assert (kept["translation"], kept["error"]) == ("the best so far", "the server died")


def test_failed_segments_are_counted(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "p").write_text(
        '{"id": 1, "candidates": ["a"], "scores": {"q": [1]}}\n{"id": 2, "candidates": ["b"]}\n'
    )
    ran = quitmt("rerank", tmp_path / "p", "--rerank", "qe:recorded:q")
    assert (ran.code, ran.out) == (1, "a\n\n")
    assert "1 segment failed with: " in ran.err and "1 line of the output is blank" in ran.err
    assert "blank" not in quitmt("rerank", tmp_path / "p", "--rerank", "qe:recorded:q", "--jsonl").err


async def answer(_: int, request: web.Request) -> web.StreamResponse:
    """Refuses what has "poison" in it, with a text that is none."""
    body = await request.json()
    prompt = body["messages"][-1]["content"]
    if "poison" in prompt:
        return web.Response(text=json.dumps({"error": {"message": HALF}}), status=400, content_type="application/json")
    await asyncio.sleep(0.05)
    texts = [text_of(prompt, body["seed"] + i) for i in range(body["n"])]
    choices = [{"index": i, "message": {"content": text}, "finish_reason": "stop"} for i, text in enumerate(texts)]
    return web.json_response({"choices": choices})


def test_half_of_a_surrogate_pair_in_an_error(quitmt: Quitmt, tmp_path: Path) -> None:
    """From a server: one failed segment, a journal that can be resumed, outputs that can be read."""
    (tmp_path / "in").write_text("Good morning.\npoison\nYes.\n")
    with scripted_server(answer) as server:
        words = ["translate", tmp_path / "in", "--model", "openai:m", "--base-url", server.base_url, "--tgt", "pt"]
        words += ["--src", "en", "-n", 8, "-o", tmp_path / "out", "--jsonl", tmp_path / "j"]
        for resume in ([], ["--resume"], ["--resume"]):
            ran = quitmt(*words, *resume)
            assert ran.code == 1 and "1 segment failed" in ran.err and "Traceback" not in ran.err
            lines = (tmp_path / "out").read_text().split("\n")
            assert lines[0] and not lines[1] and lines[2]
            assert "half of a pair: \ufffd" in json.loads((tmp_path / "j").read_text().splitlines()[1])["error"]


def test_half_of_a_surrogate_pair_in_a_name(quitmt: Quitmt, tmp_path: Path) -> None:
    scores = {"m": {"system": 1.0, "segments": [1.0, 2.0]}}
    content = {"metrics": {"m": {"signature": "", "lower_is_better": False}}, "systems": {"a": scores, HALF: scores}}
    (tmp_path / "scores.json").write_text(json.dumps(content))
    for words in ([], ["--format", "json"], ["--format", "csv"], ["-o", tmp_path / "out"]):
        ran = quitmt("compare", tmp_path / "scores.json", *words)
        assert ran.code == 0 and "half of a pair: \ufffd" in (ran.out or (tmp_path / "out").read_text())


def ended(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """What a program that should end at once says; killed if it does not."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    timer = threading.Timer(60, process.kill)
    timer.start()
    out, error = process.communicate()
    timer.cancel()
    return subprocess.CompletedProcess(command, process.returncode, out, error)


@pytest.mark.parametrize("words", ["rerank -", "translate"])
def test_a_closed_standard_input_is_one_sentence(words: str) -> None:
    ran = ended(["bash", "-c", f"exec {sys.executable} -m quitmt {words} <&-"])
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "standard input is closed" in ran.stderr and ran.stderr.count("\n") == 1
