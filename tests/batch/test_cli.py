"""The command line of jobs, without Ray: each mistake gives one sentence, and nothing is started."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from quitmt.batch import cluster
from quitmt.batch.plan import BatchPlan
from quitmt.batch.run import BatchSummary
from quitmt.batch.tally import PartTally
from quitmt.cli.batch import BatchProgress, summary_lines
from quitmt.warnings import COPIED
from tests.batch.jobs import FUNCTIONS
from tests.conftest import Ran

MODEL = ("--model", f"{FUNCTIONS}:words", "-n", 8)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cluster, "check_installed", lambda: None)
    (tmp_path / "a.csv").write_text("text,k\nx,1\ny,1\n")
    (tmp_path / "a.txt").write_text("x\ny\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("{}/a.csv", "a.csv has no column 'source' (--source-column names one of text, k)"),
        ("{}/a.txt --rows-per-file 0", "--rows-per-file must be at least 1, not 0"),
        ("{}/a.txt --workers 4-2", "--workers must be a number from 1 up or a range such as 2-8"),
        ("{}/a.txt --address ray://h:1", "(run the command on a machine of the cluster with --address auto)"),
        (
            "{}/a.txt --text {}/a.txt",
            "{}/a.txt is an input of this job and would be overwritten (write",
        ),
    ],
)
def test_bad_input_is_one_sentence(quitmt: Callable[..., Ran], tmp_path: Path, words: str, said: str) -> None:
    ran = quitmt("batch", *words.replace("{}", str(tmp_path)).split(), "-o", tmp_path / "out", *MODEL)
    assert (ran.code, ran.out) == (2, "")
    [line] = ran.err.splitlines()
    assert said.replace("{}", str(tmp_path)) in line
    assert not list(tmp_path.glob("out/part-*")) and (tmp_path / "a.txt").read_text() == "x\ny\n"


def test_the_summary_shows_the_cost_and_the_cost_of_full_budgets() -> None:
    total = PartTally(rows=90, segments=80, candidates=1600, possible=8000, failed=1)
    total.stops.update({"decided": 79, "failed": 1})
    total.warnings[COPIED] = 1
    plan = BatchPlan((60, 40), 90)
    lines = summary_lines(plan, total, 7200.0, 4, 2.0)
    assert lines == [
        "100 rows, 90 of them distinct, in 2 files; 79 decided (enough by the rule), 1 failed",
        "1,600 candidates; full budgets would have taken 8,000 (80.0% saved)",
        "7,200 seconds in this run, at most 8.00 worker hours, 16.00 GPU hours",
        "copied source in 1 row: the translation is identical to the source",
    ]
    assert "1 second in this run" in summary_lines(plan, total, 1.0, 4, 2.0)


@pytest.mark.parametrize("words", [(), ("--retry-failed",)])
def test_the_command_to_retry_failures_repeats_the_users_words(
    quitmt: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    total = PartTally(rows=2, segments=2, failed=1, error="no")
    monkeypatch.setattr("quitmt.batch.run.run", lambda *_, **__: BatchSummary(BatchPlan((2,), 2), total, 1.0))
    words_given = ("batch", tmp_path / "a.txt", "-o", tmp_path / "out put", "-q", *words)
    ran = quitmt(*words_given)
    retry = shlex.join(["quitmt", *map(str, words_given[: len(words_given) - len(words)]), "--retry-failed"])
    assert ran.code == 1 and ran.err.splitlines()[-1] == f"quitmt: to translate them again: {retry}"


def test_progress_shows_rate_and_time_left() -> None:
    shown = BatchProgress(quiet=True)
    shown.planned(BatchPlan((100,), 100), PartTally(rows=10))
    line = shown.line(PartTally(rows=40, candidates=300, possible=1000, failed=2), 10.0)
    assert line == "40 of 100 segments, 3.0 per second, about 1 minute left; 300 candidates, 70% saved; 2 failed"


def test_worker_hours_count_the_workers_that_were_started(
    quitmt: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = BatchSummary(BatchPlan((2,), 2), PartTally(rows=2), 3600.0, workers=2)
    monkeypatch.setattr("quitmt.batch.run.run", lambda *_, **__: summary)
    assert "at most 2.00 worker hours" in quitmt("batch", "a.txt", "-o", tmp_path / "out", "--workers", 99).err


def test_help_begins_with_examples_and_explains_every_flag(quitmt: Callable[..., Ran]) -> None:
    told = quitmt("batch", "--help").out
    assert told.index("examples:") < told.index("positional arguments:") < told.index("stopping rules:")
    assert re.search(r"--gpus-per-worker G\s+\w+", told) and re.search(r"--cpus-per-worker C\s+\w+", told)
