"""Workers without Ray: parts as files, failures, engines that break, equal rows, plain lines."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quitmt.batch import worker as worker_module
from quitmt.batch.board import Suspicion
from quitmt.batch.columns import SCHEMA, TIMED
from quitmt.batch.fill import fill, write_text
from quitmt.batch.job import BatchJob
from quitmt.batch.storage import Location
from quitmt.batch.tally import PartTally
from quitmt.batch.worker import Broken, Observer, PartWorker, Work
from quitmt.errors import UsageError
from quitmt.files.outcomes import to_fields
from quitmt.plan import Recipe
from quitmt.types import Outcome, Seconds, StopReason
from tests.batch import functions
from tests.batch.jobs import files_of, planned, recipe, results, worked


@pytest.fixture
def job(tmp_path: Path) -> BatchJob:
    lines = [f"line {number} {'bad' if number % 5 == 0 else 'good'}." for number in range(1, 24)]
    (tmp_path / "a.txt").write_text("\n".join([*lines, "", "last"]))
    return BatchJob((f"{tmp_path}/a.txt",), str(tmp_path / "out"), recipe(), rows_per_file=4)


def bytes_of(job: BatchJob) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files_of(job)}


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_the_same_bytes_whatever_the_order_and_the_company(job: BatchJob, tmp_path: Path, kind: str) -> None:
    one = replace(job, output_format=kind, recipe=recipe(run__nbest=3))
    parts = range(len(planned(one).parts))
    worked(one, parts)
    found = results(one)
    assert [row["id"] for row in found] == [f"a.txt:{number}" for number in range(1, 26)]
    assert found[23]["translation"] == "" and found[23]["size"] == 0
    best = found[0]["nbest"]
    assert len(best) == 3 and best[0]["text"] == found[0]["translation"] and best[0]["score"] >= best[1]["score"]
    other = replace(one, output=str(tmp_path / "other"))
    planned(other)
    for part in reversed(parts):
        worked(other, [part], at_once=1)
    assert bytes_of(one) == bytes_of(other)


def test_sizes_of_files_do_not_change_translations(job: BatchJob, tmp_path: Path) -> None:
    other = replace(job, output=str(tmp_path / "other"), rows_per_file=25)
    for one in (job, other):
        worked(one, range(len(planned(one).parts)))
    assert results(job) == results(other) and len(files_of(job)) == 7 and len(files_of(other)) == 1


def test_a_part_that_is_done_is_left_alone(job: BatchJob) -> None:
    planned(job)
    worked(job, [0])
    before = files_of(job)[0].stat().st_mtime_ns
    worked(job, [0])
    assert files_of(job)[0].stat().st_mtime_ns == before


def test_a_failed_segment_is_an_outcome_and_is_taken_up_again(
    job: BatchJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MENDED", str(tmp_path / "mended"))
    fussy = replace(job, recipe=recipe("fussy"))
    parts = range(len(planned(fussy).parts))
    worked(fussy, parts)
    failed = [row for row in results(fussy) if row["stop"] == "failed"]
    assert [row["id"] for row in failed] == [f"a.txt:{number}" for number in (5, 10, 15, 20)]
    assert all("cannot say that" in row["error"] for row in failed)
    write_text(fussy.folder, planned(fussy), str(tmp_path / "text"))
    lines = (tmp_path / "text").read_text().split("\n")
    assert len(lines) == 26 and [n for n, line in enumerate(lines, 1) if not line] == [5, 10, 15, 20, 24, 26]
    (tmp_path / "mended").touch()
    worked(fussy, parts)
    assert any(row["stop"] == "failed" for row in results(fussy))
    worked(fussy, parts, retry=True)
    undisturbed = replace(fussy, output=str(tmp_path / "other"))
    planned(undisturbed)
    worked(undisturbed, parts)
    assert bytes_of(fussy) == bytes_of(undisturbed)


def test_an_engine_that_fails_whatever_it_is_given_is_broken(job: BatchJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_calls", 0)
    monkeypatch.setenv("WORN_AFTER", "8")
    worn = replace(job, recipe=recipe("wearing", run__in_flight=1), rows_per_file=25)
    planned(worn)
    with pytest.raises(Broken, match=r"16 segments in a row failed, the last with: .*worn out"):
        worked(worn, [0])
    assert not files_of(worn)


def test_failures_of_a_broken_engine_are_not_written(job: BatchJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a part has too few rows for an immediate test."""
    monkeypatch.setattr(functions, "_calls", 0)
    monkeypatch.setenv("WORN_AFTER", "0")
    worn = replace(job, recipe=recipe("wearing", run__in_flight=1))
    planned(worn)
    with pytest.raises(Broken, match="4 segments in a row failed"):
        worked(worn, [0])
    assert not files_of(worn)


def test_segments_that_fail_in_a_row_do_not_break_a_good_engine(job: BatchJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "FAILURES_IN_A_ROW", 2)
    Path(job.inputs[0]).write_text("fine\n" + "bad\n" * 9 + "fine\n")
    fussy = replace(job, recipe=recipe("fussy"), rows_per_file=25)
    planned(fussy)
    worked(fussy, [0])
    assert [row["stop"] == "failed" for row in results(fussy)] == [False, *[True] * 9, False]


def test_equal_rows_share_their_outcome(job: BatchJob, tmp_path: Path) -> None:
    Path(job.inputs[0]).write_text("one\ntwo\none\nthree\n\none\ntwo\n\n")
    once = replace(job, distinct=True, rows_per_file=3)
    plan = planned(once)
    assert (plan.rows, plan.distinct) == (8, 4)
    worked(once, range(3))
    assert not files_of(once)
    fill(once.folder, plan, 0)
    found = results(once)
    assert [row["id"] for row in found] == [f"a.txt:{number}" for number in range(1, 9)]
    assert [row["source"] for row in found] == ["one", "two", "one", "three", "", "one", "two", ""]
    by_source = {row["source"]: row["translation"] for row in found}
    assert all(row["translation"] == by_source[row["source"]] for row in found) and len(set(by_source.values())) == 4
    before = bytes_of(once)
    files_of(once)[1].unlink()
    fill(once.folder, plan, 0)
    assert bytes_of(once) == before


def test_a_job_may_lie_in_an_object_store(job: BatchJob) -> None:
    """On a store like s3, the bytes are the same as on disk, and jobs continue."""
    store = Location("memory://store")
    (store / "in" / "a.txt").write(Path(job.inputs[0]).read_bytes())
    there = replace(job, inputs=("memory://store/in/*.txt",), output=(store / "out").url, distinct=True)
    here = replace(job, distinct=True)
    try:
        for one in (here, there):
            plan = planned(one)
            worked(one, range(len(plan.parts)))
            fill(one.folder, plan, 0)
        write_text(there.folder, planned(there), (store / "text").url)
        assert {name: (there.folder.place / name).read() for name in bytes_of(here)} == bytes_of(here)
        assert len((store / "text").read().split(b"\n")) == 26
        assert {"_quitmt", *bytes_of(here)} == there.folder.place.names()
        with pytest.raises(UsageError, match="rows_per_file was 4"):
            planned(replace(there, rows_per_file=5))
    finally:
        store.remove()


def test_a_suspect_part_is_done_alone_row_by_row_without_its_deadly_rows(
    job: BatchJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(job)
    seen: list[tuple[int, str | None]] = []
    built: list[Recipe] = []
    original = worker_module.build

    def build(recipe: Recipe) -> Any:
        built.append(recipe)
        return original(recipe)

    monkeypatch.setattr(worker_module, "build", build)

    class Recorder(Observer):
        async def begin_row(self, number: int, row: str) -> None:
            assert built, "a death while loading would be counted as the row's"
            seen.append((number, row))

        def part(self, number: int, tally: PartTally) -> None:
            seen.append((-1, None))

    monkeypatch.setattr(worker_module, "REPORT_SECONDS", -1.0)  # after every row
    worker = PartWorker(Work(job.folder, job.recipe.to_fields()), Recorder())

    async def work() -> None:
        await asyncio.gather(worker.do(1, Suspicion(frozenset({"a.txt:6"}))), worker.do(0), worker.do(2))
        await worker.close()

    asyncio.run(work())
    named = [place for place, (number, _) in enumerate(seen) if number == 1]
    assert [seen[place][1] for place in named] == [f"a.txt:{number}" for number in (5, 6, 7, 8)]
    assert [place - named[0] for place in named] == [0, 2, 4, 6]  # each is done before the next, and nothing else is
    failed = [row for row in results(job) if row["stop"] == "failed"]
    assert [row["id"] for row in failed] == ["a.txt:6"]
    assert failed[0]["error"] == "the worker's process ended 3 times while this row was translated"
    before = {path.name: path.read_bytes() for path in files_of(job)}
    worked(job, [1], retry=True)
    assert not [row for row in results(job) if row["stop"] == "failed"]
    assert {name for name, data in bytes_of(job).items() if before[name] != data} == {"part-000001.parquet"}


def test_an_engine_that_does_not_start_elsewhere_is_replaced(job: BatchJob, monkeypatch: pytest.MonkeyPatch) -> None:
    planned(job)
    monkeypatch.setattr(worker_module, "build", lambda recipe: 1 / 0)
    for elsewhere, expected in ((True, Broken), (False, ZeroDivisionError)):
        worker = PartWorker(Work(job.folder, job.recipe.to_fields(), elsewhere=elsewhere))
        with pytest.raises(expected, match="division by zero"):
            asyncio.run(worker.do(0))


def test_a_recipe_that_this_machine_cannot_use_says_how_to_ship_it(job: BatchJob) -> None:
    planned(job)
    away = replace(job, recipe=job.recipe.changed({"model.name": "nowhere_to_be_found:function"}))
    with pytest.raises(UsageError) as caught:
        worked(away, [0])
    assert "a worker cannot use the recipe: unknown model 'nowhere_to_be_found:function'" in str(caught.value)
    assert "ship your own code with working_dir='FOLDER'" in str(caught.value)


def test_every_field_of_an_outcome_has_a_column() -> None:
    """Reminds developers to add new outcome fields to the schema."""
    whole = Outcome(
        "1", "s", "t", 0, 0.5, 8, StopReason.BUDGET, (0.5,), Seconds(), "sig", "err", None, 8, None, ("r",), "greedy", 1
    )
    assert to_fields(whole).keys() - set(TIMED) - {"recipe"} <= SCHEMA.keys()


def test_tallies_add_up() -> None:
    rows = [
        {"size": 8, "budget": 16, "anchors": 2, "stop": "decided", "signature": "s", "warnings": ["much shorter"]},
        {"size": 0, "stop": "stable", "signature": "s"},
        {"size": 0, "stop": "failed", "signature": "s", "error": "no"},
    ]
    tally = PartTally.of(rows, 100)
    assert (tally.rows, tally.segments, tally.candidates, tally.possible, tally.failed) == (3, 2, 10, 18, 1)
    total = PartTally()
    for _ in range(2):
        total.merge(PartTally.from_fields(json.loads(json.dumps(tally.to_fields()))))
    assert total.rows == 6 and total.stops == {"decided": 2, "failed": 2} and total.error == "no"
    assert total.saved == 1 - 20 / 36


def test_the_first_error_is_that_of_the_first_row(job: BatchJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the error of the row that failed first."""
    monkeypatch.setattr(functions, "second_failed", asyncio.Event())
    Path(job.inputs[0]).write_text("first\nsecond\n")
    planned(job)
    tally = asyncio.run(PartWorker(Work(job.folder, recipe("failing").to_fields())).do(0))
    assert tally.failed == 2 and "no word for first" in (tally.error or "")
