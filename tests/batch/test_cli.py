"""The command line of jobs, as far as it comes without Ray: what is wrong is one sentence, and nothing is started."""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from quitmt.batch import cluster
from quitmt.batch.board import DEADLY_DEATHS, SUSPECT_DEATHS, Board, is_hopeless
from quitmt.batch.cluster import WorkerPool
from quitmt.batch.plan import Plan
from quitmt.batch.run import BatchSummary
from quitmt.batch.tally import PartTally
from quitmt.cli.batch import BatchProgress, summary_lines
from quitmt.errors import QuitmtError, UsageError
from quitmt.remarks import COPIED
from tests.batch.jobs import FUNCTIONS
from tests.conftest import Ran

MODEL = ("--model", f"{FUNCTIONS}:words", "-n", 8)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cluster, "check_installed", lambda: None)
    (tmp_path / "a.csv").write_text("text,k\nx,1\ny,1\n")
    (tmp_path / "a.txt").write_text("x\ny\n")


BAD: list[tuple[str, str]] = [
    ("{}/*.nothing", "no file matches {}/*.nothing"),
    ("{}/a.csv", "a.csv has no column 'source' (there is text, k)"),
    ("{}/a.csv --source-column text --id-column k", "the id '1' occurs a second time"),
    ("{}/a.csv {}/a.txt", "inputs of one job have one format, but a.csv is csv and a.txt is text"),
    ("{}/a.txt --id-column k", "a.txt is plain text, which has no column for the id"),
    ("{}/a.txt --output-format xls", "unknown output format 'xls' (there is jsonl, parquet)"),
    ("{}/a.txt --rows-per-file 0", "--rows-per-file must be a whole number of at least 1, not 0"),
    ("{}/a.txt --run-deadline 9", "--run-deadline does not go with a job of many workers"),
    ("{}/a.txt --workers two", "--workers must be a number or a range such as 2-8, not 'two'"),
    ("{}/a.txt --workers ²", "--workers must be a number or a range such as 2-8, not '²'"),
    ("{}/a.txt --workers 1-²", "--workers must be a number or a range such as 2-8, not '1-²'"),
    ("{}/a.txt --workers 2-", "--workers must be a number or a range such as 2-8, not '2-'"),
    ("{}/a.txt --workers 4-2", "--workers must be a number from 1 on, or a range such as 2-8"),
    ("{}/a.txt --gpus-per-worker -1", "--gpus-per-worker must be 0 or more, not -1"),
    ("{}/a.txt --working-dir {}/nowhere", "there is no folder {}/nowhere"),
    ("{}/a.txt --model nowhere:function", "unknown model 'nowhere:function'"),
    ("{}/a.txt --text {}/a.txt", "{}/a.txt is an input of this job and would be overwritten (write to another file)"),
    ("{}/a.txt --text {}/none/x", "cannot write {}/none/x: there is no folder {}/none"),
    ("{}/a.txt --address here", "--address must be HOST:PORT, or auto for the cluster of this machine"),
    ("{}/a.txt --address here:²", "--address must be HOST:PORT, or auto for the cluster of this machine"),
    ("{}/a.txt --address a..b:1", "there is no Ray at a..b:1: "),
    ("{}/a.txt --address ray://h:1", "does not work by way of Ray's client (run it on a machine of the cluster, with"),
]


@pytest.mark.parametrize(("words", "said"), BAD)
def test_bad_input_is_one_sentence(quitmt: Callable[..., Ran], tmp_path: Path, words: str, said: str) -> None:
    own = () if "--model" in words else MODEL
    ran = quitmt("batch", *words.replace("{}", str(tmp_path)).split(), "-o", tmp_path / "out", *own)
    assert ran.code == 2, ran
    [line] = ran.err.splitlines()
    assert said.replace("{}", str(tmp_path)) in line
    assert not list(tmp_path.glob("out/part-*"))


def test_an_address_where_no_ray_is(quitmt: Callable[..., Ran], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ran = quitmt("batch", tmp_path / "a.txt", "-o", tmp_path / "out", "--address", f"127.0.0.1:{port}", *MODEL)
    assert f"there is no Ray at 127.0.0.1:{port}" in ran.err and ran.code == 2


def test_an_output_that_cannot_be_written(quitmt: Callable[..., Ran], tmp_path: Path) -> None:
    ran = quitmt("batch", tmp_path / "a.txt", "-o", tmp_path / "a.csv" / "out", *MODEL)
    assert ran.code == 2 and "cannot write" in ran.err


def test_more_workers_than_fit() -> None:
    there = [{"CPU": 3.0, "GPU": 1.0}]
    cluster._check_room(WorkerPool(1, 8, gpus=1.0, address="auto"), there)
    cluster._check_room(WorkerPool(0, 8, gpus=2.0, address="auto"), there)
    with pytest.raises(UsageError, match=r"^there is no room for 2 workers with .*: GPUs needed 2, found 1 \(fewer"):
        cluster._check_room(WorkerPool(2, 2, gpus=1.0, address="auto"), there)
    with pytest.raises(UsageError, match=r"^there is no room for 4 workers with .*: CPUs needed 4, found 3 \(fewer"):
        cluster._check_room(WorkerPool(4, 4, address="auto"), there)


def test_a_worker_must_fit_on_one_machine() -> None:
    ones, threes = [{"CPU": 8.0, "GPU": 1.0}] * 4, [{"CPU": 8.0, "GPU": 3.0}] * 2
    cluster._check_room(WorkerPool(4, 8, gpus=1.0, address="auto"), ones)
    cluster._check_room(WorkerPool(2, 3, gpus=2.0, address="auto"), threes)
    cluster._check_room(WorkerPool(20, 20, gpus=0.3, cpus=0.0, address="auto"), threes)
    cluster._check_room(WorkerPool(99, 99, cpus=0.0, address="auto"), ones)
    cluster._check_room(WorkerPool(0, 8, gpus=2.0, address="auto"), ones)  # it may grow
    cluster._check_room(WorkerPool(0, 8, gpus=2.0, address="auto"), [])
    said = r"^there is no room for {} with 2 GPUs and 1 CPUs on one machine each: {} would fit \(fewer"
    with pytest.raises(UsageError, match=said.format("1 worker", 0)):
        cluster._check_room(WorkerPool(1, 8, gpus=2.0, address="auto"), ones)
    with pytest.raises(UsageError, match=said.format("3 workers", 2)):
        cluster._check_room(WorkerPool(3, 3, gpus=2.0, address="auto"), threes)
    apart = [{"CPU": 8.0}, {"GPU": 8.0}]
    with pytest.raises(UsageError, match="with 1 GPUs and 1 CPUs on one machine each: 0 would fit"):
        cluster._check_room(WorkerPool(1, 1, gpus=1.0, address="auto"), apart)


def test_workers_elsewhere_get_what_engines_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert cluster._runtime_env(WorkerPool()) == {}
    given = cluster._runtime_env(WorkerPool(address="auto", working_dir="."))
    assert "secret" not in str(given), "Ray writes it to its logs"
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    given["worker_process_setup_hook"]()
    assert os.environ["OPENAI_API_KEY"] == "secret" and "OPENAI_BASE_URL" not in os.environ
    monkeypatch.setenv("OPENAI_API_KEY", "")
    assert cluster._runtime_env(WorkerPool(address="auto", working_dir=".")) == {"working_dir": "."}


def test_here_nothing_grows_and_cores_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "cores", lambda: 2)
    there = [{"CPU": 9.0}]
    cluster._check_room(WorkerPool(2, 8), there)
    cluster._check_room(WorkerPool(8, 8, cpus=0.25), there)
    with pytest.raises(UsageError, match=r"^there is no room for 3 workers with .*: CPUs needed 3, found 2 \(fewer"):
        cluster._check_room(WorkerPool(3, 3), there)
    with pytest.raises(UsageError, match=r"^there is no room for 1 worker with .*: GPUs needed 1, found 0 \(fewer"):
        cluster._check_room(WorkerPool(0, 4, gpus=1.0), there)


def test_no_worker_is_started_that_would_have_nothing_to_do() -> None:
    assert WorkerPool(0, 9999).for_parts(3) == WorkerPool(0, 3)
    assert WorkerPool(4, 8).for_parts(2) == WorkerPool(2, 2)
    assert WorkerPool(2, 4).for_parts(100) == WorkerPool(2, 4)


def test_ranges_of_workers() -> None:
    assert (WorkerPool.sized("3").least, WorkerPool.sized("3").most) == (3, 3)
    assert (WorkerPool.sized("0-8").least, WorkerPool.sized("0-8").most) == (0, 8)
    with pytest.raises(QuitmtError):
        WorkerPool.sized("0")


def test_a_job_is_given_up_when_workers_start_and_nothing_gets_done() -> None:
    board = Board()
    for _ in range(8):
        board.started()
    assert not is_hopeless(board.look(), 2)
    board.broke("no more")
    board.started()
    state = board.look()
    assert is_hopeless(state, 2) and not is_hopeless(state, 3) and state.error == "no more"
    board.part(7, {"rows": 1})
    assert board.look().under_way == {7: {"rows": 1}}
    board.finished(7, {"rows": 2})
    state = board.look()
    assert (state.starts, state.finished, state.under_way) == (0, {7: {"rows": 2}}, {})
    assert board.look().finished == {}


def test_a_row_that_ends_every_process_is_found() -> None:
    board = Board()
    for _ in range(SUSPECT_DEATHS):
        assert board.begin(3) is None
    for _ in range(DEADLY_DEATHS):
        board.started()
        suspicion = board.begin(3)
        assert suspicion is not None and not suspicion.deadly
        board.row(3, "a")
        board.row(3, "b")
    assert board.look().starts == DEADLY_DEATHS
    suspicion = board.begin(3)
    assert suspicion is not None and suspicion.deadly == {"b"} and board.look().starts == 0
    board.finished(3, {})
    assert board.begin(3) is None and board.begin(4) is None
    board.row(5, "of a board that was lost")


def test_the_summary_says_what_it_cost_and_what_full_budgets_would_have() -> None:
    total = PartTally(rows=90, segments=80, candidates=1600, possible=8000, failed=1)
    total.stops.update({"decided": 79, "failed": 1})
    total.remarks[COPIED] = 1
    plan = Plan((60, 40), 90, ())
    lines = summary_lines(plan, total, 7200.0, 4, 2.0)
    assert lines == [
        "100 rows, 90 of them distinct, in 2 files; 79 decided (enough by the rule), 1 failed",
        "1,600 candidates; full budgets would have taken 8,000 (80.0% saved)",
        "7,200 seconds in this run, at most 8.00 worker hours, 16.00 GPU hours",
        "copied source in 1 row: the translation is the source itself",
    ]
    assert "1 second in this run" in summary_lines(plan, total, 1.0, 4, 2.0)


@pytest.mark.parametrize("words", [(), ("--retry-failed",)])
def test_the_command_that_takes_up_failures_is_the_one_that_was_given(
    quitmt: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Not that of whoever calls ``main``."""
    total = PartTally(rows=2, segments=2, failed=1, error="no")
    monkeypatch.setattr("quitmt.batch.run.run", lambda *_, **__: BatchSummary(Plan((2,), 2, ()), total, 1.0))
    given = ("batch", tmp_path / "a.txt", "-o", tmp_path / "out put", "-q", *words)
    ran = quitmt(*given)
    own = shlex.join(["quitmt", *map(str, given[: len(given) - len(words)]), "--retry-failed"])
    assert ran.code == 1 and ran.err.splitlines()[-1] == f"quitmt: to take them up again: {own}"


def test_progress_tells_rate_and_time_left() -> None:
    shown = BatchProgress(quiet=True)
    shown.planned(Plan((100,), 100, ()), PartTally(rows=10))
    line = shown.line(PartTally(rows=40, candidates=300, possible=1000, failed=2), 10.0)
    assert line == "40 of 100 segments, 3.0 per second, about 1 minute left; 300 candidates, 70% saved; 2 failed"


def test_worker_hours_are_those_of_the_workers_that_there_were(
    quitmt: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = BatchSummary(Plan((2,), 2, ()), PartTally(rows=2), 3600.0, workers=2)
    monkeypatch.setattr("quitmt.batch.run.run", lambda *_, **__: summary)
    assert "at most 2.00 worker hours" in quitmt("batch", "a.txt", "-o", tmp_path / "out", "--workers", 99).err


def test_help_begins_with_examples_and_explains_every_flag(quitmt: Callable[..., Ran]) -> None:
    told = quitmt("batch", "--help").out
    assert told.index("examples:") < told.index("positional arguments:") < told.index("stopping rules:")
    assert re.search(r"--gpus-per-worker G\s+\w+", told) and re.search(r"--cpus-per-worker C\s+\w+", told)
