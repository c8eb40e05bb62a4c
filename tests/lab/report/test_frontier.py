"""From results to the frontier's rows, tables and sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quitmt.evaluate.equivalence import Pair, compare
from quitmt.lab import pipeline
from quitmt.lab.replay.rules import matched_fixed
from quitmt.lab.report import tables
from quitmt.lab.report.formats import csv, latex, markdown
from quitmt.lab.report.frontier import Frontier, frontier_of
from quitmt.lab.results import Results
from tests.lab.studies import Bars, recorded_study

HEADINGS = {"chrfpp": "chrF++"}
RULES = {
    "beyond": ["loss:minimum=4", "loss:new=0.1,minimum=4", "headroom:top=1,minimum=4"],
    "costs": [8, 12, 24, 400],
    "splits": 20,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    study = recorded_study(tmp_path_factory.mktemp("frontier"), count=6, size=32, rules=RULES)
    return pipeline.run(study, Bars())


@pytest.fixture(scope="module")
def found(results: Results) -> Frontier:
    return frontier_of(results, {"chrfpp": results.quality["chrf++"]})


def test_every_rule_has_a_line_where_it_fits(found: Frontier) -> None:
    assert {spec: [line.rule for line in lines] for spec, lines in found.lines.items()} == {
        "mbr:chrf": ["Fixed N", "loss:minimum=4", "loss:new=0.1,minimum=4"],
        "qe:recorded:q": ["Fixed N", "headroom:top=1,minimum=4"],
    }


def test_lines_end_at_the_whole_pool(results: Results, found: Frontier) -> None:
    for spec, lines in found.lines.items():
        whole = results.replays[spec].unaccelerated
        for line in lines:
            place = int(line.size.argmax())
            assert line.size[place] == 32
            assert [line.lost[name][place] for name in found.measures] == [0, 0]
            assert line.quality["rerank"][place] == pytest.approx(whole.score.mean())
            assert line.quality["chrfpp"][place] == pytest.approx(results.quality["chrf++"].of(whole).mean())


def test_costs_below_the_budget_that_can_be_reached(found: Frontier) -> None:
    rows = [(row.rule, row.cost) for row in found.costs if row.reranker == "qe:recorded:q"]
    assert rows[:2] == [("QUIT w=2", None), ("QUIT w=4", None)]
    assert set(rows[2:]) <= {("headroom:top=1,minimum=4", cost) for cost in (8, 12, 24)} and len(rows) > 3
    for row in found.costs:
        assert row.lost.keys() == row.paired.keys() == {"regret", "chrfpp"}
        assert (row.threshold is None) == (row.cost is None)


def test_paired_intervals_are_of_all_segments(results: Results, found: Frontier) -> None:
    one, own = results.trajectories["mbr:chrf"], results.replays["mbr:chrf"]
    row = next(row for row in found.costs if (row.reranker, row.rule) == ("mbr:chrf", "QUIT w=2"))
    rule, whole = own.windows[0], own.unaccelerated
    rival = matched_fixed(one, rule.mean_size, 32)
    pair = Pair((whole.score - rival.score), (whole.score - rule.score), lower_is_better=True)
    (expected,) = compare([pair], resamples=50, rng=0)
    assert row.paired["regret"].difference == pytest.approx(expected.difference, abs=1e-7)
    assert row.paired["regret"].interval == pytest.approx(expected.interval, abs=1e-7)


def test_every_rule_is_compared_with_every_window(found: Frontier) -> None:
    rows = [(row.rule, row.quit) for row in found.quits if row.reranker == "qe:recorded:q"]
    assert rows == [(rule, f"QUIT w={w}") for rule in ("headroom:top=1,minimum=4", "Fixed N") for w in (2, 4)]


def test_tables_in_all_formats(found: Frontier) -> None:
    cost = tables.equal_cost(found, HEADINGS, 20)
    assert cost is not None and len(cost.rows) == len(found.costs)
    against = tables.against_quit(found, HEADINGS, 20)
    assert against is not None and len(against.rows) == len(found.quits) == 10
    points = tables.curves(found, HEADINGS)
    assert {str(row[1].value) for row in points.rows} == {
        "Fixed N", "loss:minimum=4", "loss:new=0.1,minimum=4", "headroom:top=1,minimum=4",
    }  # fmt: skip
    for table in (cost, against, points):
        for form in (markdown, latex, csv):
            shown = form(table)
            assert "headroom:top=1,minimum=4" in shown and "nan" not in shown
    assert "Each of 20 random halves" in markdown(cost)


@pytest.mark.parametrize("sections", [{"rules": {"beyond": []}}, {"test_set": {"limit": 1}}])
def test_nothing_to_compare_leaves_fixed_sizes(sections: dict[str, dict[str, object]], tmp_path: Path) -> None:
    found = frontier_of(pipeline.run(recorded_study(tmp_path, **sections), Bars()), {})
    assert (found.costs, found.quits) == ((), ())
    assert all(lines[0].rule == "Fixed N" and len(lines[0].size) == 16 for lines in found.lines.values())
    assert np.isfinite(tables.curves(found, {}).rows[0][3].value)  # type: ignore[arg-type]
