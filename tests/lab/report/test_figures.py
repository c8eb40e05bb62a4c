"""Figures: each is drawn from small arrays, labelled, saved in all formats, and the same twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from quitmt.evaluate.equivalence import Comparison
from quitmt.lab.drawing import colour, encoded, family, look, save
from quitmt.lab.frames import RuleSeconds
from quitmt.lab.report.configurations import Configuration, Measured, Series
from quitmt.lab.report.cost_figures import (
    Trace,
    quality_against_all_costs,
    quality_against_cost,
    regret_against_cost,
)
from quitmt.lab.report.figures import (
    Evolution,
    alpha_tradeoff,
    runtime_breakdown,
    score_evolution,
    step_sizes,
    stopping_distribution,
    window_sweep,
)
from quitmt.lab.report.frontier import Line
from quitmt.lab.rows import MetricColumn, RuleRow, RuntimeRow, Score

METRICS = [MetricColumn("rerank", "Rerank score", 4), MetricColumn("metricx", "MetricX", 2, lower_is_better=True)]
RERANKERS = ["mbr:chrf", "qe:kiwi"]
COMPARED = Comparison(0.1, (-0.1, 0.3), (0.0, 0.2), 1.0, (0.05,), (0.5,), 1, 1, 1)


def row(reranker: str, rule: str, size: float, **settings: float) -> RuleRow:
    scores = {metric.name: Score(size / 100, COMPARED, COMPARED) for metric in METRICS}
    return RuleRow(reranker, rule, size, 0.0, scores, settings=settings)


@cache
def distribution() -> Figure:
    stops = np.array([16, 32, 64, 64, 128])
    return stopping_distribution({name: dict.fromkeys((2, 4, 8, 12, 16), stops) for name in RERANKERS}, budget=128)


@cache
def sweep() -> Figure:
    rows = [row(name, f"QUIT w={w}", 30.0 * w, w=w) for name in RERANKERS for w in (2, 4, 8)]
    base = [row(name, "Unaccelerated", 256.0) for name in RERANKERS]
    return window_sweep(rows, base, METRICS, budget=256)


@cache
def evolution() -> Figure:
    sizes = np.arange(8, 65, 8)
    curves = [Evolution(str(i), "mbr:chrf", sizes, np.sqrt(sizes) + i, {"QUIT w=4": 32, "Fixed": 37}) for i in range(4)]
    return score_evolution(curves)


@cache
def steps() -> Figure:
    rows = [row(name, "QUIT", 8.0 * k + w, k=k, w=w) for name in RERANKERS for k in (4, 8, 16) for w in (4, 8, 16)]
    return step_sizes(rows, METRICS[1], w=8, product=64)


@cache
def cost() -> Figure:
    metric = METRICS[1].name
    fixed = Line("Fixed N", np.arange(3.0), np.array([8.0, 64.0, 512.0]), {}, {metric: np.array([1.0, 2.0, 3.0])})
    loss = Line("loss", np.arange(2.0), np.array([16.0, 200.0]), {}, {metric: np.array([2.0, 3.0])})
    lines = dict.fromkeys(RERANKERS, (fixed, loss))
    rules = [("Unaccelerated", 512.0), ("QUIT w=4", 80.0), ("QUIT w=8", 160.0), ("Fixed-N* (w=4)", 80.0)]
    rules += [("loss:most=0.1", 90.0), ("Fixed-N* (loss:most=0.1)", 90.0)]
    return quality_against_cost(lines, [row(name, *rule) for name in RERANKERS for rule in rules], METRICS[1])


@cache
def regret() -> Figure:
    sizes = np.array([1.0, 16.0, 128.0, 512.0])
    names = ["Fixed N", "loss", "mine", "QUIT w=4, all α"]
    own = [Trace(name, sizes[bool(place) :], (place + 1) / sizes[bool(place) :]) for place, name in enumerate(names)]
    lossless = [own[0], Trace("headroom", sizes, np.zeros(4))]
    return regret_against_cost({"mbr:chrf": own, "qe:kiwi": lossless, "qe:other": [Trace("Fixed N", sizes, 0 * sizes)]})


@cache
def runtime() -> Figure:
    rows = [
        RuntimeRow("mbr", "Unaccelerated", RuleSeconds(9, 3, False), RuleSeconds(10, 3, True)),
        RuntimeRow("mbr", "PruneMBR", RuleSeconds(9, 1, False)),
    ]
    return runtime_breakdown(rows)


@cache
def alphas() -> Figure:
    return alpha_tradeoff(
        [
            row(n, "QUIT", 10.0 * w - np.log10(a), w=w, alpha=a)
            for n in RERANKERS
            for w in (4, 16)
            for a in (1e-4, 1e-3)
        ],
        METRICS[1],
    )


ALL = [distribution, sweep, evolution, steps, cost, regret, runtime, alphas]


@pytest.mark.parametrize("make", ALL)
def test_every_figure_has_a_title_labels_and_a_legend(make: Callable[[], Figure]) -> None:
    figure = make()
    assert figure.get_suptitle()
    assert figure.legends
    drawn = [panel for panel in figure.axes if panel.axison]
    # Where panels share an axis the outer ones name it: every row has a name for y, every column one for x.
    places = [(panel.get_subplotspec(), panel) for panel in drawn]
    for row_ in {place.rowspan.start for place, _ in places if place}:
        assert any(panel.get_ylabel() for place, panel in places if place and place.rowspan.start == row_)
    for column in {place.colspan.start for place, _ in places if place}:
        assert any(panel.get_xlabel() for place, panel in places if place and place.colspan.start == column)


def test_three_formats_are_saved_and_are_the_same_twice(tmp_path: Path) -> None:
    paths = save(runtime(), tmp_path / "one", "figure")
    assert [path.name for path in paths] == ["figure.svg", "figure.pdf", "figure.png"]
    assert [path.read_bytes()[:4] for path in paths] == [b"<?xm", b"%PDF", b"\x89PNG"]
    runtime.cache_clear()
    again = save(runtime(), tmp_path / "two", "figure")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]


def test_a_histogram_counts_every_segment_once_with_whole_budgets_apart() -> None:
    panel = distribution().axes[0]
    early, whole = panel.containers
    assert sum(bar.get_height() for bar in early) == pytest.approx(80)
    assert [bar.get_height() for bar in whole] == pytest.approx([20])
    # A bin holds its right end: 16 of 128 in 16 bins of 8 candidates is the second.
    assert early[1].get_height() == pytest.approx(20)


def test_stops_lie_on_the_line_also_between_looks() -> None:
    line, on_step, between = evolution().axes[0].lines
    sizes, scores = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    assert (on_step.get_xdata()[0], on_step.get_ydata()[0]) == (32, scores[sizes == 32][0])  # type: ignore[index]
    assert (between.get_xdata()[0], between.get_ydata()[0]) == (37, scores[sizes == 32][0])  # type: ignore[index]


def test_steps_are_shown_at_a_fixed_window_and_at_a_fixed_product() -> None:
    at_window, at_product = steps().axes[:2]
    assert np.asarray(at_window.lines[0].get_ydata()).tolist() == [8 * k + 8 for k in (4, 8, 16)]
    assert np.asarray(at_product.lines[0].get_ydata()).tolist() == [8 * k + 64 / k for k in (4, 8, 16)]


def test_bars_are_the_paired_interval_around_the_rule() -> None:
    panel = cost().axes[0]
    ends = sorted(tuple(segment[:, 1]) for bars in panel.collections for segment in bars.get_segments())  # type: ignore[attr-defined]
    # QUIT at 80 candidates scores 0.8, the difference to Fixed-N* is 0.1 with an interval from −0.1 to 0.3.
    assert ends[0] == pytest.approx((0.6, 1.0))


def test_a_rule_has_one_look_on_its_line_and_at_its_point() -> None:
    labels = {line.get_label(): line for line in cost().axes[0].lines}
    loss = [bars.lines[0] for bars in cost().axes[0].containers if bars.get_label() == "loss"]  # type: ignore[attr-defined]
    assert [one.get_marker() for one in loss] == [labels["loss"].get_marker()]
    assert "Fixed-N*" not in labels


def test_fixed_sizes_are_drawn_from_where_rules_begin() -> None:
    panel = regret().axes[0]
    assert np.asarray(panel.lines[0].get_xdata()).tolist() == [16, 128, 512]
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    assert len({(line.get_marker(), line.get_linestyle()) for line in panel.lines}) == 4


def test_rules_that_were_not_run_live_say_so() -> None:
    estimated, live = runtime().axes
    assert "Estimated" in estimated.get_title()
    assert "live" in live.get_title()
    assert [text.get_text().strip() for text in live.texts] == ["not measured"]
    assert not estimated.texts


def test_series_differ_without_colour() -> None:
    seen = {(one.marker, one.line) for one in (look("QUIT", number) for number in range(7))}
    assert len(seen) == 7


def test_a_rule_has_one_colour_in_all_figures() -> None:
    """Whatever else a series is, its colour is that of its rule."""
    wanted = {"QUIT": colour("QUIT"), "loss": colour("loss"), "mine": colour("mine")}
    assert len(set(wanted.values())) == 3
    for make in (cost, regret, evolution, alphas, steps, sweep):
        for panel in make().axes:
            for line in panel.get_lines():
                name = family(str(line.get_label()))
                if name in wanted:
                    assert line.get_color() == wanted[name], make
    for make in (alphas, steps):  # QUIT alone, by reranker
        assert {line.get_color() for panel in make().axes for line in panel.get_lines()} == {wanted["QUIT"]}


@cache
def everything() -> Figure:
    line = np.array([4.0, 16.0, 64.0])
    series = [
        Series(sampling, reranker, rule, line, line / 100, {"metricx": 3 - line / 100})
        for sampling in ("T=1", "T=0.7 + greedy")
        for reranker in RERANKERS
        for rule in ("Fixed N", "loss", "QUIT")
    ]
    live = Measured(5, 0.3, {"metricx": 2.0})
    quality = {"metricx": np.array([2.0, 3.0])}
    options = [
        Configuration("", "", "greedy", 0, 1, quality, 0.01, live),
        Configuration("T=1", "qe:kiwi", "QUIT", 8, 8, quality, 1, live),
    ]
    return quality_against_all_costs(series, options, METRICS[1])


def test_the_first_figure_keeps_kinds_of_cost_apart() -> None:
    figure = everything()
    labels = [panel.get_xlabel() for panel in figure.axes]
    kinds = ["candidates per segment", "seconds per segment, estimated", "seconds per segment, live"]
    assert labels == kinds * 2
    candidates, estimated, live = figure.axes[:3]
    assert len(candidates.get_lines()) == len(estimated.get_lines()) == 6 + 2  # greedy: a point, and a level
    assert [text.get_text() for text in candidates.texts] == ["greedy"]
    assert len(live.get_lines()) == 2 and len(figure.axes[5].get_lines()) == 3  # run live: qe:kiwi only
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["Fixed N", "loss", "QUIT", "T=1", "T=0.7 + greedy"]


@pytest.mark.slow
@pytest.mark.parametrize("make", [*ALL, everything])
def test_text_stays_text_and_no_date_is_written(make: Callable[[], Figure]) -> None:
    figure = make()
    text = encoded(figure, "svg").decode()
    assert f">{figure.get_suptitle()}<" in text
    assert "dc:date" not in text
