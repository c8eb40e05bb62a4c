"""What a study leaves behind: all files, and in them what was asked for."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quitmt.lab import drawing, pipeline
from quitmt.lab.replay.live import Live
from quitmt.lab.report.publish import publish
from quitmt.lab.report.text import agreements
from quitmt.lab.results import Results
from quitmt.lab.study import Study
from tests.lab.studies import Bars, recorded_study, write_pools, write_tsv

PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt" viewBox="0 0 1 1"></svg>'
TABLES = {"results", "window_sweep", "alpha", "mean_n_by_k", "prr", "runtime", "chrf_utility"}
TABLES |= {"beyond_cost", "beyond_quit", "choices", "guarantees", "options"}
TWICE = {"window_sweep", "chrf_utility"}
"""Their rows are among the main results, so they are not shown again."""
FIGURES = {"stopping", "windows", "evolution", "steps", "cost-rerank", "cost-chrfpp", "runtime", "alpha", "regret"}
FIGURES |= {"overview"}
BEYOND = {"beyond": ["loss:minimum=4", "headroom:top=1,minimum=4"], "costs": [8], "splits": 5}
LIVE = {"rules": ["loss:most=0.05,minimum=4", "headroom:top=1,share=0.05,minimum=4"]}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are drawn, but not set as SVG, PDF and PNG, which takes most of the time."""
    monkeypatch.setattr(drawing, "encoded", lambda figure, form: PICTURE.encode())


def study_of(folder: Path) -> Study:
    return recorded_study(folder, rules={"alpha": 0.02, **BEYOND}, live=LIVE)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    found = pipeline.run(study_of(tmp_path_factory.mktemp("publish")), Bars())
    timed = {
        spec: replace(one, generate_seconds=np.arange(1.0, 5.0), rerank_seconds=np.full(4, 0.5))
        for spec, one in found.trajectories.items()
    }
    return replace(found, trajectories=timed)


def measured(results: Results, count: int, *, other: bool = False) -> Results:
    """As if the rules had been run live on the first few segments, with the same choices or others."""
    live = {}
    for spec, own in results.replays.items():
        rules = (own.unaccelerated, own.windows[0], *own.beyond)
        sizes = [tuple((rule.size[:count] - other).tolist()) for rule in rules]
        live[spec] = [
            Live(rule.name, spec, size, tuple(rule.index[:count].tolist()), 8.0 / (place + 1), 2.0 / (place + 1), 9.0)
            for place, (rule, size) in enumerate(zip(rules, sizes, strict=True))
        ]
    return replace(results, live=live)


@pytest.fixture(scope="module")
def report(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the report, with empty pictures."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "encoded", lambda figure, form: PICTURE.encode())
        assert publish(results, folder) == folder / "report.html"
    return folder


def cells(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


def test_all_files_are_written(report: Path) -> None:
    forms = {path.name for path in (report / "tables").iterdir()}
    assert forms == {f"{name}.{form}" for name in (*TABLES, "frontier") for form in ("md", "tex", "csv")}
    forms = {path.name for path in (report / "figures").iterdir()}
    assert forms == {f"{name}.{form}" for name in FIGURES for form in ("svg", "pdf", "png")}
    text, shown = ((report / name).read_text("utf-8") for name in ("results.md", "report.html"))
    assert text.startswith("# A study of early stopping\n\n## What to use\n\n- Best of all: ")
    assert "\n\n## What was found\n\n- 4 segments, up to 16 candidates each, sampled from pools.jsonl.\n" in text
    for name in TABLES:
        assert ((report / "tables" / f"{name}.md").read_text("utf-8") in text) == (name not in TWICE)
        assert (f'id="table-{name}"' in shown) == (name not in TWICE)
    assert "QUIT w=4" in shown and shown.count("<svg") >= len(FIGURES)


def test_fixed_sizes_are_in_every_comparison_with_intervals(results: Results, report: Path) -> None:
    main = cells(report / "tables" / "results.csv")
    for spec in results.replays:
        rules = [row["acceleration"] for row in main if row["reranker"] == spec]
        for w in (2, 4):
            assert rules[rules.index(f"QUIT w={w}") + 1] == f"Fixed-N* (w={w})"
    assert "PruneMBR" in [row["acceleration"] for row in main if row["reranker"] == "mbr:chrf"]
    for name in ("results", "window_sweep", "alpha"):
        rows = [row for row in cells(report / "tables" / f"{name}.csv") if "QUIT" in row.get("acceleration", "QUIT")]
        assert rows
        for row in rows:
            for metric in ("rerank", "chrfpp"):
                low, high = float(row[f"{metric}_minus_fixed_low"]), float(row[f"{metric}_minus_fixed_high"])
                assert low <= float(row[f"{metric}_minus_fixed"]) + 1e-9 and low <= high
    by_rule = {(row["reranker"], row["acceleration"]): row for row in main}
    own = results.replays["mbr:chrf"]
    row = by_rule["mbr:chrf", "QUIT w=2"]
    gain = results.quality["chrf++"].of(own.windows[0]).mean() - results.quality["chrf++"].of(own.fixed[0]).mean()
    assert float(row["chrfpp_minus_fixed"]) == pytest.approx(gain)
    assert float(row["mean_n"]) == own.windows[0].mean_size


@pytest.mark.usefixtures("quick")
def test_estimated_and_live_stand_apart(results: Results, report: Path, tmp_path: Path) -> None:
    row = cells(report / "tables" / "runtime.csv")[0]
    assert {key for key in row if "live" in key} == set()
    publish(measured(results, 2), tmp_path / "live")
    for row in cells(tmp_path / "live" / "tables" / "runtime.csv"):
        if row["method"] == "Unaccelerated":
            assert (row["generation_seconds_live"], row["total_seconds_live"]) == ("8.0", "10.0")
            assert (row["generation_seconds_estimated"], row["reranking_seconds_estimated"]) == ("3.0", "1.0")
        assert (row["speedup_live"] != "") == (row["method"] in ("Unaccelerated", "QUIT w=2", *LIVE["rules"]))
    main = cells(tmp_path / "live" / "tables" / "results.csv")
    assert {row["speedup_live"] for row in main if row["acceleration"] == "QUIT w=2"} == {"2.0"}
    speedups = [float(row["speedup_live"]) for row in main if row["acceleration"] in LIVE["rules"]]
    assert speedups == pytest.approx([3.0, 3.0])
    note = "All seconds here are of the first 2 of 4 segments, which were run live."
    assert note in (tmp_path / "live" / "tables" / "runtime.md").read_text("utf-8")
    assert "Live: of the first 2 of 4 segments." in (tmp_path / "live" / "tables" / "results.md").read_text("utf-8")
    assert "first 2 of" not in (tmp_path / "live" / "tables" / "prr.md").read_text("utf-8")


def test_whether_live_runs_agree_is_said(results: Results) -> None:
    assert list(agreements(results)) == []
    for said in agreements(measured(results, 3)):
        assert said.endswith("chose the same translations as in the replay.")
    first = next(agreements(measured(results, 3, other=True)))
    assert first.startswith("mbr:chrf: 3 rules were run live on 3 segments; in 9 of 9 cases the number of candidates")


def test_rules_with_a_threshold_stand_beside_the_windows(results: Results, report: Path) -> None:
    page = (report / "report.html").read_text("utf-8")
    main = cells(report / "tables" / "results.csv")
    for spec, rule in zip(results.replays, LIVE["rules"], strict=True):
        rules = [row["acceleration"] for row in main if row["reranker"] == spec]
        assert rules[-2:] == [rule, f"Fixed-N* ({rule})"]
        (replayed,) = results.replays[spec].beyond
        assert float(main[[row["acceleration"] for row in main].index(rule)]["mean_n"]) == replayed.mean_size
        assert f"{spec}: {rule} draws" in page
        assert f'"{rule}"' in page  # in the browser of segments
    assert "Beyond the window: at equal cost" in page and "Beyond the window: against QUIT" in page
    cost = cells(report / "tables" / "beyond_cost.csv")
    assert {row["rule"] for row in cost} >= {"QUIT w=2", "QUIT w=4"}
    for row in cost:
        assert float(row["regret_minus_fixed_low"]) <= float(row["regret_minus_fixed_high"])


@pytest.mark.usefixtures("quick")
def test_without_rules_with_a_threshold_their_tables_are_not_there(tmp_path: Path) -> None:
    study = recorded_study(tmp_path, rules={"beyond": []}, live={"rules": []})
    page = publish(pipeline.run(study, Bars()), tmp_path / "out").read_text("utf-8")
    assert "Beyond the window" not in page
    assert not list((tmp_path / "out" / "tables").glob("beyond_*"))
    assert (tmp_path / "out" / "figures" / "regret.svg").exists()
    assert not list((tmp_path / "study" / "cache").glob("signals-*"))


def small(folder: Path) -> None:
    write_pools(folder / "pools.jsonl", 4, 0, sizes=[9, 1, 3, 12])


def two_references(folder: Path) -> None:
    write_tsv(folder / "test.tsv", 4, references=2)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("prepare", "sections"),
    [
        (small, {"evaluate": {"metrics": ["chrf", "bleu:char"]}, "rules": {"windows": [3], "alpha_windows": [2]}}),
        (two_references, {"rerank": {"rerankers": ["qe:recorded:q"]}, "evaluate": {"metrics": []}}),
        (None, {"test_set": {"limit": 1}}),
    ],
    ids=["short pools and several metrics", "QE only and no metric", "one segment"],
)
def test_odd_studies_have_a_report_too(
    prepare: Callable[[Path], None] | None, sections: dict[str, dict[str, object]], tmp_path: Path
) -> None:
    if prepare:
        prepare(tmp_path)
    study = recorded_study(tmp_path, **sections)
    found = pipeline.run(study, Bars())
    page = publish(found, tmp_path / "out").read_text("utf-8")
    for pool in found.pools:
        assert pool.segment.source in page
    main = cells(tmp_path / "out" / "tables" / "results.csv")
    assert {row["reranker"] for row in main} == set(study.rerank.rerankers)
    assert not any("nan" in row.values() for row in main)
    assert (tmp_path / "out" / "tables" / "chrf_utility.csv").exists() == ("mbr:chrf" in study.rerank.rerankers)
    # Pools from elsewhere have no seconds, so there is nothing to estimate from and no figure of it.
    assert not (tmp_path / "out" / "figures" / "runtime.svg").exists()
    names = {path.stem for path in (tmp_path / "out" / "figures").glob("cost-*.svg")}
    assert len(names) == 1 + len(study.evaluate.metrics)
    assert all(":" not in name for name in names)
