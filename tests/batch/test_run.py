"""A job from its beginning to its end, with workers that are turned by hand in place of Ray."""

from __future__ import annotations

import json
import queue
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quitmt.batch import cluster, run
from quitmt.batch.board import State
from quitmt.batch.cluster import WorkerPool
from quitmt.batch.columns import from_bytes
from quitmt.batch.job import BatchJob
from quitmt.batch.plan import Plan
from quitmt.batch.tally import PartTally
from quitmt.errors import UsageError
from tests.batch.jobs import files_of, recipe, results, worked


class Silent:
    def __init__(self) -> None:
        self.totals: list[int] = []
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)

    def planned(self, plan: Plan, done: PartTally) -> None:
        """Nobody listens."""

    def progress(self, total: PartTally) -> None:
        self.totals.append(total.rows)


def by_hand(
    job: BatchJob, pool: WorkerPool, reporter: run.Reporter, plan: Plan, course: run._Course
) -> run.BatchSummary:
    for part in range(len(plan.parts)):
        if part not in course.done:
            worked(job, [part], retry=part in course.retried)
            place = job.folder.worked(part)
            course.add(part, PartTally.of(from_bytes(place.read(), job.output_format, place.url), course.budget))
    return run.BatchSummary(plan, PartTally(), 1.0)


@pytest.fixture(autouse=True)
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "check_installed", lambda: None)
    monkeypatch.setattr(run, "_work", by_hand)


@pytest.fixture
def job(tmp_path: Path) -> BatchJob:
    (tmp_path / "a.txt").write_text("good\nbad\ngood\nfine\nbad\n")
    return BatchJob((f"{tmp_path}/a.txt",), str(tmp_path / "out"), recipe("fussy"), rows_per_file=2, distinct=True)


def done(job: BatchJob, *, retry_failed: bool = False) -> PartTally:
    return run.run(job, WorkerPool(), Silent(), retry_failed=retry_failed).total


def test_what_was_done_again_reaches_all_equal_rows_whoever_dies(
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
    for retry_failed in (True, True, False):  # there is nothing to take up
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
    with pytest.raises(UsageError, match=r"cannot go on: (no_header|source_column) was"):
        done(headless)


def test_progress_is_told_by_the_clock_however_quickly_parts_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(run, "_look", lambda ray, seen: State(starts=1))

    class Quick(queue.Queue[Any]):
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            time.sleep(0.005)
            return super().get(block, timeout)

    results, reporter = Quick(), Silent()
    for part in range(40):
        results.put({"part": part, "tally": json.dumps(PartTally(rows=1).to_fields())})
    results.put(None)
    run._follow(None, None, WorkerPool(), reporter, run._Course(8), results)
    assert len(reporter.totals) > 3 and reporter.totals[-1] == 40 and sorted(reporter.totals) == reporter.totals


@pytest.mark.parametrize("kept", [b"", b"[]", b'{"rows": 1, "of another version": 2}', None])
def test_a_job_that_is_done_tells_the_same_again(job: BatchJob, tmp_path: Path, kept: bytes | None) -> None:
    (tmp_path / "a.txt").write_text("good\nfine\ngood\nfine\ngood\n")
    total = done(job)
    assert (total.rows, total.segments) == (2, 2)
    assert done(job) == total
    place = Path(job.folder.total.path)  # it may be lost: then the results are counted
    place.unlink() if kept is None else place.write_bytes(kept)
    assert done(job).segments == 5
    assert kept == (place.read_bytes() if place.exists() else None)  # what was counted so is not kept


def test_the_first_error_is_that_of_the_first_part() -> None:
    course = run._Course(8)
    for part in (2, 0, 1, 3):
        course.add(part, PartTally(failed=1, error=f"of {part}" if part else None))
    assert course.sum.error == "of 1" and course.sum.failed == 4


def test_the_summary_knows_the_workers_that_there_were(job: BatchJob) -> None:
    assert run.run(job, WorkerPool(1, 99), Silent()).workers == 3
    assert run.run(job, WorkerPool(1, 99), Silent()).workers == 0


@pytest.mark.parametrize(("wish", "said"), [({"stop.max_loss": 0.02}, ["stopping by loss:most=0.02"]), ({}, [])])
def test_the_rule_that_a_wish_was_granted_by_is_told_once(job: BatchJob, wish: dict[str, Any], said: list[str]) -> None:
    wished, reporter = replace(job, recipe=recipe("words", **{"stop.rule": None, **wish})), Silent()
    run.run(wished, WorkerPool(), reporter)
    assert reporter.said == said
    run.run(wished, WorkerPool(), reporter)
    assert reporter.said == said  # nothing is left to do


def test_of_few_parts_every_worker_gets_its_share(job: BatchJob) -> None:
    small = replace(job, rows_per_file=16, recipe=recipe(run__in_flight=64))
    assert [run._at_once(small, parts, workers) for parts, workers in ((2, 2), (3, 2), (100, 2), (1, 1))] == [
        1,
        2,
        5,
        1,
    ]
