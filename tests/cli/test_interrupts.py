"""Interrupts and kills: what was drawn is not drawn again, and nobody sees a traceback."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.servers.fake_openai import Faults, Server, fake_server

from quitmt import rerank, stop
from quitmt.cli import run as module
from quitmt.cli.progress import Progress
from quitmt.cli.results import Outputs
from quitmt.cli.run import Run
from quitmt.engine.driver import Driver, Item
from quitmt.files.journal import Journal
from quitmt.files.outputs import Output
from quitmt.generate.function import FunctionGenerator
from quitmt.types import Segment

LINES = [f"The door number {i} is open." for i in range(2)]
BUDGET = 1024


def translate(server: Server, folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    (folder / "in").write_text("\n".join(LINES) + "\n")
    command = [sys.executable, "-m", "quitmt", "translate", str(folder / "in"), "--model", "openai:m"]
    command += [
        "--base-url",
        server.base_url,
        "--concurrency",
        "4",
        "--anchors",
        "none",
        "--stop",
        "full",
        "-n",
        str(BUDGET),
        "--src",
        "en",
        "--tgt",
        "pt",
    ]
    command += ["-o", str(folder / f"{name}.txt"), "--jsonl", str(folder / f"{name}.jsonl"), *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def outcomes(folder: Path, name: str) -> list[object]:
    found = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    return [{key: value for key, value in fields.items() if key != "seconds"} for fields in found]


def wanted(server: Server) -> int:
    return sum(request.get("n", 1) for request in server.requests)


def test_ctrl_c_while_every_line_is_in_flight(tmp_path: Path) -> None:
    """No line is done when it comes: what was drawn is there for --resume, and only the rest is asked for."""
    with fake_server(Faults(seconds=0.02)) as server:
        with translate(server, tmp_path, "whole") as whole:
            assert whole.stderr and whole.wait() == 0, whole.stderr.read()
        everything = wanted(server)
        server.requests.clear()
        with translate(server, tmp_path, "x") as process:
            while wanted(server) < everything / 4:
                assert process.poll() is None
                time.sleep(0.005)
            process.send_signal(signal.SIGINT)
            assert process.stderr
            error = process.stderr.read().decode()
            assert process.wait() == 130
        assert "interrupted; to continue: quitmt translate" in error and "Traceback" not in error
        assert not (tmp_path / "x.txt").exists()
        drawn = wanted(server)
        with translate(server, tmp_path, "x", "--resume") as resumed:
            assert resumed.stderr
            error = resumed.stderr.read().decode()
            assert resumed.wait() == 0
    assert re.search("continuing after 0 finished segments, with candidates of [12] unfinished ones", error)
    # Lost are the requests that were under way, and what came before one of them did.
    assert wanted(server) < everything * 1.1 < everything * 1.25 <= everything + drawn
    assert (tmp_path / "x.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    assert outcomes(tmp_path, "x") == outcomes(tmp_path, "whole")
    assert not (tmp_path / "x.txt.journal").exists()


def test_candidates_are_kept_from_time_to_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each candidate is written once, and none of a segment that finishes before the journal is written again."""
    monkeypatch.setattr(module, "KEEP_SECONDS", 1e6)  # the test itself says when
    path = tmp_path / "x.journal"

    async def sample(source: str, start: int, stop: int) -> list[str]:
        if source == "slow":
            while start > 0 and run.progress.segments < 20:  # until the quick segments are done
                await asyncio.sleep(0.001)
            run._keep_candidates()
        return [f"{source} {index}" for index in range(start, stop)]

    async def items() -> AsyncIterator[tuple[Item, int]]:
        for number, source in enumerate(["slow", *["quick"] * 20]):
            yield Segment(str(number), source), number

    rule = stop.load("quit", k=4, w=2, alpha=0.0, n=32)
    driver = Driver(FunctionGenerator(sample), rerank.qe(lambda source, text: float(text.split()[1])), rule)
    journal = Journal(path, {})
    journal.start(resume=False)
    outputs = Outputs(32, text=Output(str(tmp_path / "x")))
    run = Run(driver, outputs, Progress(32, quiet=True), journal)
    asyncio.run(run.work(items()))
    outputs.close()
    entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    journal.close(done=True)
    begun = [entry for entry in entries if "begun" in entry]
    assert len(begun) > 2 and {entry["position"] for entry in begun} == {0}
    drawn = [text for entry in begun for text, *_ in entry["begun"]]
    assert drawn == [f"slow {index}" for index in range(len(drawn))] and len(drawn) <= 32
    assert (tmp_path / "x").read_text() == "slow 31\n" + "quick 31\n" * 20


@pytest.mark.parametrize("name", ["quitmt.cli.main", "numpy"])
def test_an_interrupt_while_modules_are_loaded(name: str) -> None:
    code = f"""
import os, runpy, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["quitmt", "rerank", "/dev/null"]
runpy.run_module("quitmt", run_name="__main__")
"""
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "quitmt: interrupted\n")


def test_an_ignored_interrupt_stays_ignored(tmp_path: Path) -> None:
    """As by nohup."""
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    (tmp_path / "sitecustomize.py").write_text(code)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    ran = subprocess.run(
        [sys.executable, "-m", "quitmt", "--version"],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": paths},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        check=False,
    )
    assert ran.returncode == 0 and ran.stdout.startswith(b"quitmt ")
