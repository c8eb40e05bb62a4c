"""``--resume``: whatever the moment of the kill, the result is what an uninterrupted run gives."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran

from quitmt.files import journal
from quitmt.files.durable import sealed

Quitmt = Callable[..., Ran]


@pytest.fixture
def pools(tmp_path: Path, make_pool: Callable[[int, int], list[str]]) -> Path:
    path = tmp_path / "pools.jsonl"
    lines = [json.dumps({"id": i, "source": f"s{i}", "candidates": make_pool(i, 24)}) for i in range(12)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def whole(quitmt: Quitmt, pools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, bytes]:
    """The output of an uninterrupted run, and the journal it had just before it ended."""
    kept = tmp_path / "kept"

    def close(self: journal.Journal, *, done: bool) -> None:
        assert done
        shutil.copy(self.path, kept)
        original(self, done=done)

    original = journal.Journal.close
    with monkeypatch.context() as patch:
        patch.setattr(journal.Journal, "close", close)
        assert quitmt("rerank", pools, "-o", tmp_path / "whole").code == 0
    return (tmp_path / "whole").read_text(), kept.read_bytes()


def test_a_journal_cut_off_anywhere(quitmt: Quitmt, pools: Path, whole: tuple[str, bytes], tmp_path: Path) -> None:
    text, written = whole
    cuts = [0, 1, written.index(b"\n"), written.index(b"\n") + 1, len(written) - 1, len(written)]
    cuts += random.Random(0).sample(range(len(written)), 12)
    for cut in cuts:
        (tmp_path / "out").write_text("half a li")
        (tmp_path / "out.journal").write_bytes(written[:cut])
        ran = quitmt("rerank", pools, "-o", tmp_path / "out", "--resume")
        assert ran.code == 0
        assert (tmp_path / "out").read_text() == text
        assert not (tmp_path / "out.journal").exists()


def test_what_was_done_is_not_done_again(quitmt: Quitmt, pools: Path, whole: tuple[str, bytes], tmp_path: Path) -> None:
    _, written = whole
    lines = written.splitlines(keepends=True)
    forged = json.loads(lines[3])
    forged["outcome"]["translation"] = "FROM THE JOURNAL"
    del forged["crc"]
    (tmp_path / "out.journal").write_bytes(lines[0] + sealed(forged))
    ran = quitmt("rerank", pools, "-o", tmp_path / "out", "--resume")
    assert "continuing after 1 finished" in ran.err
    assert (tmp_path / "out").read_text().count("FROM THE JOURNAL") == 1


def test_nothing_to_continue_simply_starts(
    quitmt: Quitmt, pools: Path, whole: tuple[str, bytes], tmp_path: Path
) -> None:
    assert quitmt("rerank", pools, "-o", tmp_path / "new", "--resume").code == 0
    assert (tmp_path / "new").read_text() == whole[0]


def test_a_finished_run_is_left_as_it_is(quitmt: Quitmt, pools: Path, whole: tuple[str, bytes], tmp_path: Path) -> None:
    files = ("-o", tmp_path / "out", "--jsonl", tmp_path / "out.jsonl", "--keep-pools", tmp_path / "kept.jsonl")
    assert quitmt("rerank", pools, *files).code == 0
    before = {path: path.read_bytes() for path in files[1::2]}
    ran = quitmt("rerank", pools, *files, "--resume")
    assert (ran.code, ran.out) == (0, "") and {path: path.read_bytes() for path in files[1::2]} == before
    assert (
        ran.err == f"quitmt: {files[1]} is finished already (delete it to start over; its settings were not compared)\n"
    )
    assert quitmt("rerank", pools, *files, "--resume", "-q").err == ""
    files[3].unlink()  # what is missing is made, whatever else is there
    ran = quitmt("rerank", pools, *files[:4], "--resume")
    assert ran.code == 0 and "finished:" not in ran.err and files[3].exists()


def test_a_text_of_another_length_is_not_that_of_a_finished_run(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("Yes.\nNo.\n")
    words = ("translate", tmp_path / "in", "-n", 8, "-o", tmp_path / "out", "--resume")
    (tmp_path / "out").write_text("Sim.\n")
    ran = quitmt(*words)
    assert ran.code == 2 and "has 1 lines, the input has 2, and there is no journal (delete that file" in ran.err
    assert (tmp_path / "out").read_text() == "Sim.\n" and not (tmp_path / "out.journal").exists()
    (tmp_path / "out").write_text("Sim.\nNão.\n")
    assert "is finished" in quitmt(*words).err
    (tmp_path / "out").write_text("")
    assert "is finished" not in quitmt(*words).err and len((tmp_path / "out").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alpha", "0.01"], "--stop was auto in the run that"),
        (["-n", "64"], "-n was 256"),
        (["--rerank", "qe:recorded:x"], "--rerank was mbr:chrf"),
        (["--support", "others", "--filter", "qe:recorded:x"], "--support was anchor"),
        (["--nbest", "4"], "--nbest was not set in the run that"),
    ],
)
def test_other_settings_are_refused(
    words: list[str], message: str, quitmt: Quitmt, pools: Path, whole: tuple[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "out.journal").write_bytes(whole[1])
    ran = quitmt("rerank", pools, "-o", tmp_path / "out", "--resume", *words)
    assert ran.code == 2 and f"cannot resume: {message}" in ran.err
    assert (tmp_path / "out.journal").read_bytes() == whole[1]


def test_another_input_is_refused(quitmt: Quitmt, pools: Path, whole: tuple[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "out.journal").write_bytes(whole[1])
    lines = pools.read_text().splitlines()
    lines[4] = json.dumps({"id": 4, "source": "s4", "candidates": ["another"]})
    pools.write_text("\n".join(lines))
    ran = quitmt("rerank", pools, "-o", tmp_path / "out", "--resume")
    assert ran.code == 2 and "line 5 of the input has changed" in ran.err and "continuing" not in ran.err


def test_an_unfinished_run_is_not_overwritten_by_accident(
    quitmt: Quitmt, pools: Path, whole: tuple[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "out.journal").write_bytes(whole[1])
    ran = quitmt("rerank", pools, "-o", tmp_path / "out", "--alpha", "0.01")
    assert ran.code == 2 and "holds 12 finished segments of an unfinished run (resume it" in ran.err
    assert (tmp_path / "out.journal").read_bytes() == whole[1]


def test_something_else_in_place_of_the_journal(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    for content in (b"my diary\n", b'{"settings": {}}\n', sealed({"settings": 5}), sealed({"key": "a judge's"})):
        (tmp_path / "out.journal").write_bytes(content)
        ran = quitmt("rerank", pools, "-o", tmp_path / "out", "--resume")
        assert ran.code == 2 and ran.err.count("\n") == 1
        assert (tmp_path / "out.journal").read_bytes() == content


SENTENCES = [
    "The door is open.", "", "I would like a glass of water.", "It rained all night.", "Where is the station?",
    "My brother works in a small shop.", "The soup is too hot.", "We will meet again tomorrow.",
]  # fmt: skip


def translate(folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    files = ["-o", str(folder / f"{name}.txt"), "--jsonl", str(folder / f"{name}.jsonl")]
    files += ["--keep-pools", str(folder / f"{name}.pools")]
    settings = ["-n", "64", "-w", "4", "-k", "4", "--in-flight", "2"]
    command = [sys.executable, "-m", "quitmt", "translate", *files, *settings, *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def results(folder: Path, name: str) -> tuple[bytes, list[object], bytes]:
    outcomes = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    timeless = [{key: value for key, value in fields.items() if key != "seconds"} for fields in outcomes]
    return (folder / f"{name}.txt").read_bytes(), timeless, (folder / f"{name}.pools").read_bytes()


LINES = ("\n".join(SENTENCES) + "\n").encode()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[object], bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with translate(folder, "whole") as whole:
        whole.communicate(LINES)
        assert whole.returncode == 0
    return results(folder, "whole")


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_killed_while_translating(
    how: int, code: int, undisturbed: tuple[bytes, list[object], bytes], tmp_path: Path
) -> None:
    with translate(tmp_path, "killed") as process:
        assert process.stdin
        process.stdin.write("\n".join(SENTENCES[:6]).encode())  # not the end: it cannot be done before it is killed
        process.stdin.flush()
        journal_path = tmp_path / "killed.txt.journal"
        while not journal_path.exists() or journal_path.read_bytes().count(b"\n") < 3:
            assert process.poll() is None
            time.sleep(0.005)
        os.kill(process.pid, how)
        process.wait()
        assert process.stderr
        error = process.stderr.read()
        assert process.returncode == code
    if how == signal.SIGINT:
        assert b"Traceback" not in error and b"interrupted; to continue: quitmt translate" in error
        assert b"--resume" in error
    with translate(tmp_path, "killed", "--resume") as resumed:
        _, error = resumed.communicate(LINES)
        assert resumed.returncode == 0 and b"continuing after" in error
    assert results(tmp_path, "killed") == undisturbed
    assert undisturbed[0].count(b"\n") == len(SENTENCES)


def test_a_shorter_input_is_refused(quitmt: Quitmt, pools: Path, whole: tuple[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "out.journal").write_bytes(whole[1])
    pools.write_text("\n".join(pools.read_text().splitlines()[:5]) + "\n")
    ran = quitmt("rerank", pools, "-o", tmp_path / "out", "--resume")
    assert ran.code == 2 and "the input has 5 lines, fewer than the run" in ran.err
    assert (tmp_path / "out.journal").read_bytes() == whole[1]


def test_the_journal_is_no_ones_output_or_input(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    ran = quitmt("rerank", pools, "-o", tmp_path / "x", "--jsonl", tmp_path / "x.journal")
    assert ran.code == 2 and "two outputs would go to the same file" in ran.err
    (tmp_path / "y").symlink_to(tmp_path / "x")
    assert "two outputs" in quitmt("rerank", pools, "-o", tmp_path / "x", "--jsonl", tmp_path / "y").err
    (tmp_path / "out.journal").write_text("Hello there")
    assert "is an input of this run" in quitmt("rerank", tmp_path / "out.journal", "-o", tmp_path / "out").err
    assert "not a journal" in quitmt("rerank", pools, "-o", tmp_path / "out").err
    assert (tmp_path / "out.journal").read_text() == "Hello there"


def test_a_full_disk_is_one_sentence(pools: Path, tmp_path: Path) -> None:
    command = (
        f"ulimit -f 4; exec {sys.executable} -m quitmt rerank {pools} -o {tmp_path / 'out'} --jsonl {tmp_path / 'j'}"
    )
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert ran.returncode == 2 and "cannot write" in ran.stderr and "Traceback" not in ran.stderr
