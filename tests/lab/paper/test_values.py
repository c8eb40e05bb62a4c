"""The paper's tables: found by their keys, and consistent with each other where they overlap."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from quitmt.lab.paper import values as printed
from quitmt.lab.rows import Printed
from quitmt.lab.study import Study
from quitmt.lab.study.settings import PaperSettings, TestSetSettings
from tests.lab.arrays import fixed, running_best


def result(dataset: str, model: str, reranker: str, acceleration: str, column: str) -> Printed | None:
    keys = {"dataset": dataset, "model": model, "reranker": reranker, "acceleration": acceleration}
    return printed.cell("results", column, **keys)


def seconds_of(dataset: str, model: str, acceleration: str) -> dict[str, float]:
    study = Study(TestSetSettings(tsv="x"), paper=PaperSettings(dataset, model))
    rule = fixed(running_best(np.ones((1, 1))), 1, 1, name=acceleration)
    return printed.seconds(study, "mbr:comet", rule)


def test_every_speedup_with_mbr_follows_from_the_seconds_to_the_printed_digit() -> None:
    compared = 0
    for row in printed.table("results"):
        if row["reranker"] == "MBR":
            found = seconds_of(row["dataset"], row["model"], row["acceleration"])
            assert f"{found['speedup_estimated']:.2f}" == row["speedup"], row
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
    by_k = [printed.text_of("mean_n_by_k", "mean_n", k=8, w=w, reranker="QE") for w in (4, 8, 16)]
    by_alpha = [printed.text_of("alpha", "mean_n", alpha=1e-3, w=w, reranker="QE") for w in (4, 8, 16)]
    texts = [", ".join(cell[0] for cell in cells if cell) for cells in (by_k, by_alpha)]
    assert f"for QE ({texts[0]} and {texts[1]})" in re.sub(r"\s+", " ", said)


@pytest.mark.parametrize("name", ["alpha", "chrf_utility", "mean_n_by_k", "prr", "results", "runtime"])
def test_every_table_has_whole_rows(name: str) -> None:
    rows = printed.table(name)
    assert len(rows) >= 18
    assert all(None not in row and None not in row.values() for row in rows)


def test_cells_are_found_by_their_keys() -> None:
    assert result("WMT25", "Hy-MT2", "QE", "QUIT w=16", "gemba") == Printed(-4.83, "††")
    assert result("WMT24", "Qwen3", "MBR", "QUIT w=2", "xcomet") == Printed(0.7392)
    seconds = seconds_of("WMT24", "Hy-MT2", "PMBR")
    assert (seconds["generation_seconds_estimated"], seconds["reranking_seconds_estimated"]) == (467484.0, 5497.37)
    found = printed.cell("prr", "prr", w=16, dataset="WMT24", model="Qwen3", reranker="QE", risk="xcomet")
    assert found and found.value == 0.246
    assert printed.text_of("alpha", "worse_better", reranker="QE", w=4, alpha=0.01) == ("17/1", "")


def test_numbers_are_found_however_they_are_written() -> None:
    for alpha in (1e-3, "1e-3", "0.001"):
        assert printed.cell("alpha", "full_percent", reranker="MBR", w="8", alpha=alpha) == Printed(12.1)


def test_a_row_that_the_paper_does_not_have_is_none() -> None:
    assert result("WMT24", "Qwen3", "QE", "PruneMBR", "xcomet") is None
    assert result("WMT23", "Qwen3", "QE", "Unaccelerated", "xcomet") is None
    assert seconds_of("WMT24", "Qwen3", "QUIT w=3") == {}
