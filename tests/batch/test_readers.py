"""Other libraries read the results. Missing ones are skipped; make test-batch has them all."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quitmt.batch.columns import names
from quitmt.batch.job import BatchJob
from tests.batch.jobs import planned, recipe, results, worked

Rows = list[tuple[str, str]]
"""Ids and translations."""


def by_pyarrow(folder: str) -> Rows:
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(folder).to_table()
    return list(zip(table["id"].to_pylist(), table["translation"].to_pylist(), strict=True))


def by_pandas(folder: str) -> Rows:
    table = pytest.importorskip("pandas").read_parquet(folder)
    return list(zip(table["id"], table["translation"], strict=True))


def by_polars(folder: str) -> Rows:
    table = pytest.importorskip("polars").read_parquet(f"{folder}/*.parquet")
    return list(zip(table["id"], table["translation"], strict=True))


def by_duckdb(folder: str) -> Rows:
    query = f"SELECT id, translation FROM '{folder}/*.parquet'"
    return list(pytest.importorskip("duckdb").sql(query).fetchall())


def by_datasets(folder: str) -> Rows:
    load: Any = pytest.importorskip("datasets").load_dataset
    table = load("parquet", data_files=f"{folder}/*.parquet", cache_dir=f"{folder}/_cache")["train"]
    return list(zip(table["id"], table["translation"], strict=True))


@pytest.mark.parametrize("read", [by_pyarrow, by_pandas, by_polars, by_duckdb, by_datasets])
def test_a_folder_is_read_while_the_job_is_still_in_it(tmp_path: Path, read: Callable[[str], Rows]) -> None:
    """Even if a column is empty in some files, or contains lists of records."""
    (tmp_path / "a.txt").write_text("".join(f"line {number} {'bad' if number > 8 else ''}.\n" for number in range(12)))
    job = BatchJob((f"{tmp_path}/a.txt",), str(tmp_path / "out"), recipe("fussy", run__nbest=2), rows_per_file=4)
    worked(job, range(len(planned(job).parts)))
    found = results(job)
    assert len(found) == 12 and sum(row["error"] is not None for row in found) == 3
    assert (tmp_path / "out" / "_quitmt" / "input").is_dir()
    assert read(job.output) == [(row["id"], row["translation"]) for row in found]


def test_the_page_names_the_columns() -> None:
    page = (Path(__file__).parents[2] / "docs" / "batch.md").read_text()
    listed = page.partition("are the fields of an [outcome]")[2].partition(":")[2].partition(". `--nbest")[0]
    assert tuple(re.findall(r"`(\w+)`", listed)) == names(nbest=0)
