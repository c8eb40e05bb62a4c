"""Whole jobs with a worker in this process instead of Ray."""

from __future__ import annotations

import datetime
import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from quitmt.batch import cluster, run
from quitmt.batch.cluster import WorkerPool
from quitmt.batch.job import BatchJob
from quitmt.batch.plan import BatchPlan
from quitmt.batch.rows import InputColumns
from quitmt.batch.tally import PartTally
from quitmt.errors import ModelError, QuitmtError, UsageError
from tests.batch.jobs import files_of, recipe, results
from tests.batch.local_ray import LocalRay


class Silent:
    def __init__(self) -> None:
        self.totals: list[int] = []
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)

    def planned(self, plan: BatchPlan, done: PartTally) -> None:
        """Not recorded."""

    def progress(self, total: PartTally) -> None:
        self.totals.append(total.rows)


@pytest.fixture(autouse=True)
def ray(monkeypatch: pytest.MonkeyPatch) -> LocalRay:
    local = LocalRay()
    monkeypatch.setattr(cluster, "check_installed", lambda: None)
    monkeypatch.setattr(cluster, "ray_of", lambda: local)
    monkeypatch.setattr(cluster, "cores", lambda: 8)
    return local


@pytest.fixture
def job(tmp_path: Path) -> BatchJob:
    (tmp_path / "a.txt").write_text("good\nbad\ngood\nfine\nbad\n")
    return BatchJob((f"{tmp_path}/a.txt",), str(tmp_path / "out"), recipe("fussy"), rows_per_file=2, distinct=True)


def done(job: BatchJob, *, retry_failed: bool = False) -> PartTally:
    return run.run(job, WorkerPool(), Silent(), retry_failed=retry_failed).total


def test_retried_outcomes_reach_all_equal_rows_despite_a_crash(
    job: BatchJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MENDED", str(tmp_path / "mended"))
    assert done(job).failed == 1
    assert [row["stop"] == "failed" for row in results(job)] == [False, True, False, False, True]
    (tmp_path / "mended").touch()

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, "fill", killed)
        with pytest.raises(KeyboardInterrupt):
            done(job, retry_failed=True)
    assert any(row["stop"] == "failed" for row in results(job))
    assert done(job).failed == 0
    assert not any(row["stop"] == "failed" for row in results(job))
    before = {path: path.read_bytes() for path in files_of(job)}
    for retry_failed in (True, True, False):  # there is nothing to retry
        assert done(job, retry_failed=retry_failed).failed == 0
    assert {path: path.read_bytes() for path in files_of(job)} == before


def test_another_profile_under_the_same_name_is_refused(job: BatchJob, tmp_path: Path) -> None:
    profile = tmp_path / "mine.json"
    profile.write_bytes((Path(__file__).parents[1] / "golden" / "golden" / "profile mbr.json").read_bytes())
    named = replace(job, recipe=job.recipe.changed({"stop.profile": str(profile)}))
    before = named.settings()
    profile.write_text(profile.read_text() + "\n")
    changed = {name for name, value in named.settings().items() if before[name] != value}
    assert changed == {"the checksum of the profile"}


def test_a_header_is_a_setting(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("source\nx\ny\n")
    job = BatchJob((f"{tmp_path}/a.csv",), str(tmp_path / "out"), recipe())
    done(job)
    headless = replace(job, columns=replace(job.columns, source="1", header=False))
    with pytest.raises(UsageError, match=r"cannot continue: (no_header|source_column) was"):
        done(headless)


@pytest.mark.parametrize("seconds", [0.0, 3600.0])
def test_progress_is_reported_regularly_and_at_the_end(
    job: BatchJob, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However fast parts arrive."""
    monkeypatch.setattr(run, "LOOK_SECONDS", seconds)
    reporter = Silent()
    total = run.run(job, WorkerPool(), reporter).total
    assert reporter.totals == sorted(reporter.totals) and reporter.totals[-1] == total.rows == 3
    assert (len(reporter.totals) == 1) is (seconds > 0)


def test_a_finished_job_translates_nothing_again(job: BatchJob) -> None:
    done(job)
    before = {path: path.stat().st_mtime_ns for path in files_of(job)}
    done(job)
    assert {path: path.stat().st_mtime_ns for path in files_of(job)} == before


def test_the_first_error_is_that_of_the_first_part(
    job: BatchJob, tmp_path: Path, ray: LocalRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the error of the part that ended first."""
    (tmp_path / "a.txt").write_text("good\nfine\nbad\nfine\nbad too\n")
    in_order = ray.work
    monkeypatch.setattr(ray, "work", lambda rows, *more: in_order(rows[::-1], *more))
    total = done(replace(job, distinct=False))
    assert total.failed == 2 and (total.error or "").startswith("segment a.txt:3: ")


def test_the_summary_knows_the_workers_that_there_were(job: BatchJob) -> None:
    assert run.run(job, WorkerPool(1, 99), Silent()).workers == 3
    assert run.run(job, WorkerPool(1, 99), Silent()).workers == 0


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"stop.max_loss": 0.02}, ["stopping by loss:most=0.02"]),
        ({}, ["stopping by loss:most=0.005, the default for mbr:chrf"]),
        ({"stop.rule": "fixed:2"}, []),
    ],
)
def test_a_job_reports_its_stopping_rule_once_unless_the_user_chose_it(
    job: BatchJob, target: dict[str, Any], said: list[str]
) -> None:
    job, reporter = replace(job, recipe=recipe("words", **{"stop.rule": None, **target})), Silent()
    run.run(job, WorkerPool(), reporter)
    assert reporter.said == said
    run.run(job, WorkerPool(), reporter)
    assert reporter.said == said  # nothing is left to do


@pytest.mark.parametrize(
    ("parts", "workers", "at_once"), [(2, 2, 1), (3, 2, 2), (8, 2, 3), (1, 1, 1)], ids=lambda number: str(number)
)
def test_of_few_parts_every_worker_gets_its_share(
    job: BatchJob, tmp_path: Path, ray: LocalRay, parts: int, workers: int, at_once: int
) -> None:
    """A worker has one part that is ending, plus enough others to fill its engine."""
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(2 * parts)))
    run.run(replace(job, recipe=recipe(run__in_flight=4)), WorkerPool(workers, workers), Silent())
    assert ray.strategy["max_tasks_in_flight_per_actor"] == at_once
    assert (ray.strategy["min_size"], ray.strategy["max_size"]) == (workers, workers)


def test_plain_lines_that_cannot_be_written_are_refused_before_any_work(job: BatchJob, tmp_path: Path) -> None:
    for name, said in (("a.txt", "a.txt is an input of this job and would be overwritten"), ("no/x", "no folder")):
        with pytest.raises(QuitmtError, match=said):
            run.run(job, WorkerPool(), Silent(), text=str(tmp_path / name))
    assert not (tmp_path / "out").exists()


def test_a_worker_that_refuses_the_recipe_ends_the_job_in_its_words(
    job: BatchJob, ray: LocalRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("there is no such model", hint="fetch it")

    monkeypatch.setattr("quitmt.batch.worker.build", refuse)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(ModelError, match=r"^there is no such model \(fetch it\)$"):
        done(job)


def test_a_job_whose_workers_start_again_and_again_is_given_up(
    job: BatchJob, ray: LocalRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulates workers that end before they finish a part."""
    held = threading.Event()

    def dying(rows: Any, kind: Any, settings: Any) -> Any:
        for _ in range(9):
            settings["fn_constructor_kwargs"]["board"].started.remote()
        held.wait()
        yield from ()

    monkeypatch.setattr(run, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(ray, "work", dying)
    with pytest.raises(ModelError, match=r"^workers were started 9 times without finishing a part: their proc"):
        done(job)
    held.set()


ROWS = [
    {"text": "good", "doc": "a", "page": 1, "weight": 1, "seen": True, "tags": ["x"], "score": 0.5},
    {"text": "fine", "doc": "b", "page": 2, "weight": 2.5, "seen": None, "tags": [], "score": None},
    {
        "text": "good",
        "doc": None,
        "page": 3,
        "weight": 3,
        "seen": False,
        "tags": None,
        "score": 1.0,
        "late": "only here",
    },
]


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("output_format", ["parquet", "jsonl"])
def test_the_users_other_columns_are_in_the_output(tmp_path: Path, distinct: bool, output_format: str) -> None:
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    job = BatchJob(
        (f"{tmp_path}/in.jsonl",), str(tmp_path / "out"), recipe("fussy"), InputColumns("text"),
        output_format=output_format, rows_per_file=2, distinct=distinct,
    )  # fmt: skip
    assert done(job).failed == 0
    found = results(job)
    assert [row["source"] for row in found] == ["good", "fine", "good"] and all(row["translation"] for row in found)
    names = ("doc", "page", "weight", "seen", "input_score")
    wanted = [tuple(row[name.removeprefix("input_")] for name in names) for row in ROWS]
    assert [tuple(row.get(name) for name in names) for row in found] == wanted
    assert [row.get("late") for row in found] == [None, None, "only here"]
    tags = [row.get("tags") for row in found]
    assert tags == ([["x"], [], None] if output_format == "jsonl" else ['["x"]', "[]", None])
    if output_format == "parquet":
        types = {str(pyarrow.parquet.read_schema(path)) for path in files_of(job)}
        assert len(types) == 1, "all files have the same columns"
        schema = pyarrow.parquet.read_schema(files_of(job)[0])
        kinds = [str(schema.field(name).type) for name in (*names, "tags", "late")]
        assert kinds == ["string", "int64", "double", "bool", "double", "string", "string"]


def test_other_columns_of_parquet_and_csv(tmp_path: Path) -> None:
    day = datetime.date(2026, 11, 18)
    pyarrow.parquet.write_table(pyarrow.table({"source": ["good"], "day": [day], "n": [7]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("source,n\ngood,007\n")
    for name, wanted in (("a.parquet", {"day": "2026-11-18", "n": 7}), ("b.csv", {"n": "007"})):
        job = BatchJob((f"{tmp_path}/{name}",), str(tmp_path / f"{name}.out"), recipe("fussy"))
        done(job)
        [row] = results(job)
        assert {key: row[key] for key in wanted} == wanted
