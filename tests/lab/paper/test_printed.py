"""The study's tables: found by their keys, and consistent with each other where they overlap."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quitmt.errors import UsageError
from quitmt.lab.frames import RuleSeconds
from quitmt.lab.paper import printed
from quitmt.lab.replay.runtime import speedup


def result(dataset: str, model: str, reranker: str, acceleration: str, column: str) -> printed.PrintedCell | None:
    keys = {"dataset": dataset, "model": model, "reranker": reranker, "acceleration": acceleration}
    return printed.cell("results", column, **keys)


def test_every_speedup_with_mbr_follows_from_the_seconds_to_the_printed_digit() -> None:
    compared = 0
    for row in printed.table("results"):
        if row["reranker"] == "MBR":
            base = printed.runtime(row["dataset"], row["model"], "Unaccelerated")
            seconds = printed.runtime(row["dataset"], row["model"], row["acceleration"])
            assert base and seconds
            assert f"{speedup(base, seconds):.2f}" == row["speedup"], row
            compared += 1
    assert compared == len(printed.table("runtime")) == 66


def test_the_ablations_default_is_the_mean_of_the_main_table() -> None:
    for row in printed.table("alpha"):
        if row["alpha"] == "1e-3":
            name, found = f"QUIT w={row['w']}", list[float]()
            for dataset in ("WMT24", "WMT25"):
                for model in ("Qwen3", "TranslateGemma", "Hy-MT2"):
                    cell = result(dataset, model, row["reranker"], name, "xcomet")
                    assert cell
                    found.append(cell.value)
            assert sum(found) / 6 == pytest.approx(float(row["xcomet"]), abs=1.01e-4)  # both are rounded


def test_what_the_readme_says_does_not_agree_does_not() -> None:
    """Should the files change, so must the README."""
    said = (Path(printed.__file__).parent / "published" / "README.md").read_text("utf-8")
    by_k = [printed.cell("mean_n_by_k", "mean_n", k=8, w=w, reranker="QE") for w in (4, 8, 16)]
    by_alpha = [printed.cell("alpha", "mean_n", alpha=1e-3, w=w, reranker="QE") for w in (4, 8, 16)]
    texts = [", ".join(cell.text for cell in cells if cell) for cells in (by_k, by_alpha)]
    assert f"for QE ({texts[0]} and {texts[1]})" in re.sub(r"\s+", " ", said)


@pytest.mark.parametrize("name", printed.TABLES)
def test_every_table_has_whole_rows(name: str) -> None:
    rows = printed.table(name)
    assert len(rows) >= 18
    assert all(None not in row and None not in row.values() for row in rows)


def test_every_file_is_a_table() -> None:
    files = {path.stem for path in (Path(printed.__file__).parent / "published").glob("*.csv")}
    assert files == set(printed.TABLES)


def test_cells_are_found_by_their_keys() -> None:
    assert result("WMT25", "Hy-MT2", "QE", "QUIT w=16", "gemba") == printed.PrintedCell("-4.83", "††")
    assert result("WMT24", "Qwen3", "MBR", "QUIT w=2", "xcomet") == printed.PrintedCell(".7392", "")
    assert printed.runtime("WMT24", "Hy-MT2", "PMBR") == RuleSeconds(467484.0, 5497.37, live=False)
    found = printed.cell("prr", "prr", w=16, dataset="WMT24", model="Qwen3", reranker="QE", risk="xcomet")
    assert found and found.value == 0.246
    assert printed.cell("alpha", "worse_better", reranker="QE", w=4, alpha=0.01) == printed.PrintedCell("17/1")


def test_numbers_are_found_however_they_are_written() -> None:
    for alpha in (1e-3, "1e-3", "0.001"):
        assert printed.cell("alpha", "full_percent", reranker="MBR", w="8", alpha=alpha) == printed.PrintedCell("12.1")


def test_a_row_that_the_study_does_not_have_is_none() -> None:
    assert result("WMT24", "Qwen3", "QE", "PruneMBR", "xcomet") is None
    assert result("WMT23", "Qwen3", "QE", "Unaccelerated", "xcomet") is None
    assert printed.runtime("WMT24", "Qwen3", "QUIT w=3") is None


def test_questions_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'chrfpp'"):
        result("WMT24", "Qwen3", "QE", "Unaccelerated", "chrf")
    with pytest.raises(UsageError, match="unknown table of the study"):
        printed.table("figures")
    with pytest.raises(UsageError, match="5 rows of the study's table alpha"):
        printed.cell("alpha", "mean_n", reranker="QE", w=4)
