"""Planning a job: ids, parts, and a folder that belongs to one job."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quitmt.batch.job import BatchJob
from quitmt.batch.plan import Planned, unpack
from quitmt.batch.rows import InputColumns
from quitmt.errors import QuitmtError
from tests.batch.jobs import planned, recipe


@pytest.fixture
def job(tmp_path: Path) -> BatchJob:
    for name, lines in (("a.txt", 7), ("b.txt", 5)):
        (tmp_path / name).write_text("".join(f"{name[0]} {number}.\n" for number in range(1, lines + 1)))
    return BatchJob((f"{tmp_path}/*.txt",), str(tmp_path / "out"), recipe(), rows_per_file=5)


def rows(job: BatchJob) -> list[Planned]:
    plan = planned(job)
    return [row for part in range(len(plan.parts)) for row in unpack(job.folder.rows(part).read())]


def test_parts_have_a_bounded_number_of_rows_and_ids_by_file_and_line(job: BatchJob) -> None:
    plan = planned(job)
    assert plan.parts == (5, 5, 2) and plan.rows == plan.distinct == 12
    found = rows(job)
    assert [row.id for row in found] == [*(f"a.txt:{n}" for n in range(1, 8)), *(f"b.txt:{n}" for n in range(1, 6))]
    assert all(row.first for row in found)


def test_ids_do_not_depend_on_other_files(job: BatchJob, tmp_path: Path) -> None:
    alone = replace(job, inputs=(f"{tmp_path}/b.txt",), output=f"{tmp_path}/alone", rows_per_file=2)
    assert rows(alone) == rows(job)[7:]


def test_a_plan_is_taken_over(job: BatchJob) -> None:
    planned(job)
    written = Path(job.folder.rows(0).path)
    before = written.stat().st_mtime_ns
    planned(job)
    assert written.stat().st_mtime_ns == before
    written.unlink()
    assert planned(job).parts == (5, 5, 2) and written.exists()


def test_a_job_that_was_done_is_planned_again_where_a_result_is_missing(job: BatchJob) -> None:
    planned(job)
    job.folder.rows(0).remove()
    (job.folder.state / "input").remove()
    assert planned(job).parts == (5, 5, 2) and job.folder.rows(0).exists()


def test_distinct_marks_the_first_of_equal_texts(job: BatchJob, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("a 2.\nnew\nnew\n\n\n")
    found = rows(replace(job, distinct=True))
    assert [row.first for row in found] == [True] * 7 + [False, True, False, True, False]
    assert found[1].key == found[7].key and len({row.key for row in found}) == 9


def test_context_is_the_lines_before_within_a_file(job: BatchJob) -> None:
    chat = recipe().changed({"model.name": "openai:m", "model.context": 2})
    found = rows(replace(job, recipe=chat))
    assert [row.context for row in found[:3]] == ["", "a 1.", "a 1.\na 2."] and found[7].context == ""


def test_a_context_may_have_a_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("source,c\nHi.,Yo.\nOi.,\n")
    columns = InputColumns("source", None, "c")
    job = BatchJob((f"{tmp_path}/a.csv",), str(tmp_path / "out"), recipe(), columns)
    assert [row.context for row in rows(job)] == ["Yo.", ""]


def other_budget(job: BatchJob) -> BatchJob:
    return replace(job, recipe=job.recipe.changed({"stop.n": 16}))


REFUSED: list[tuple[Callable[[BatchJob], BatchJob], str]] = [
    (other_budget, "cannot continue: n was 8 in the job that {} holds and is 16 now"),
    (lambda job: replace(job, rows_per_file=6), "cannot continue: rows_per_file was 5 in"),
    (lambda job: replace(job, distinct=True), "cannot continue: distinct was False in"),
    (lambda job: replace(job, columns=InputColumns("text")), "cannot continue: source_column was source in"),
    (lambda job: replace(job, inputs=(job.inputs[0].replace("*", "a"),)), "the input b.txt is missing since"),
]


@pytest.mark.parametrize(("change", "said"), REFUSED)
def test_another_job_is_refused_and_the_difference_named(
    job: BatchJob, change: Callable[[BatchJob], BatchJob], said: str
) -> None:
    planned(job)
    with pytest.raises(QuitmtError) as caught:
        planned(change(job))
    assert said.format(job.output) in str(caught.value) and "another output" in str(caught.value)


def test_other_limits_are_the_same_job(job: BatchJob) -> None:
    planned(job)
    planned(replace(job, recipe=job.recipe.changed({"run.in_flight": 3})))


def test_changed_input_is_refused(job: BatchJob, tmp_path: Path) -> None:
    planned(job)
    (tmp_path / "a.txt").write_text("x\n")
    with pytest.raises(QuitmtError, match=r"^cannot continue: the input a\.txt has changed since"):
        planned(job)


def test_a_job_with_a_corrected_input_starts_over(job: BatchJob, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"fine\nnot \xff fine\n")
    with pytest.raises(QuitmtError, match="not UTF-8"):
        planned(job)
    (tmp_path / "b.txt").write_text("fine\n")
    assert planned(replace(job, rows_per_file=8)).parts == (8,)
    with pytest.raises(QuitmtError, match="rows_per_file was 8"):
        planned(job)


def test_unrelated_files_are_not_overwritten(job: BatchJob) -> None:
    Path(job.output).mkdir()
    (Path(job.output) / "part-000000.parquet").write_bytes(b"precious")
    with pytest.raises(QuitmtError, match=r"holds part-000000\.parquet, which isn't from this job"):
        planned(job)


def two_of_a_name(folder: Path) -> dict[str, Any]:
    for name in ("x", "y"):
        (folder / name).mkdir()
        (folder / name / "a.txt").write_text("x\n")
    return {"inputs": (f"{folder}/x/*.txt", f"{folder}/y/*.txt")}


def one_twice(folder: Path) -> dict[str, Any]:
    return {"inputs": (f"{folder}/a.txt", f"{folder}/*.txt")}


def equal_ids(folder: Path) -> dict[str, Any]:
    (folder / "c.csv").write_text("source,k\nx,1\ny,2\nz,1\n")
    return {"inputs": (f"{folder}/c.csv",), "columns": InputColumns(id="k")}


def broken_in_the_middle(folder: Path) -> dict[str, Any]:
    data = gzip.compress(b"x\n" * 1000)
    for name, one in (("1", data), ("2", data[:20]), ("3", data)):
        (folder / f"{name}.gz").write_bytes(one)
    return {"inputs": (f"{folder}/*.gz",)}


def unwritable(folder: Path) -> dict[str, Any]:
    (folder / "file").write_text("")
    return {"output": f"{folder}/file/out"}


BAD: list[tuple[Callable[[Path], dict[str, Any]], str]] = [
    (lambda folder: {"inputs": (f"{folder}/*.nothing",)}, "no file matches"),
    (two_of_a_name, "two inputs are called a.txt, so ids would not be unique"),
    (one_twice, "is given as an input twice"),
    (equal_ids, "the id '1' occurs twice (ids must be unique in the whole input)"),
    (broken_in_the_middle, "2.gz: damaged gzip data"),
    (unwritable, "cannot write"),
    (lambda folder: {"output": "nosuch://x/y"}, "nosuch"),
    (lambda folder: {"rows_per_file": 0}, "rows_per_file must be at least 1, not 0"),
    (lambda folder: {"output_format": "parkett"}, "unknown output format 'parkett'"),
    (lambda folder: {"recipe": recipe(run__run_deadline=9.0)}, "batch jobs don't support run_deadline"),
]


@pytest.mark.parametrize(("make", "said"), BAD)
def test_bad_input_is_one_sentence_and_starts_nothing(
    job: BatchJob, tmp_path: Path, make: Callable[[Path], dict[str, Any]], said: str
) -> None:
    with pytest.raises(QuitmtError) as caught:
        planned(replace(job, **make(tmp_path)))
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert not list(tmp_path.glob("out/_quitmt/plan.json"))
