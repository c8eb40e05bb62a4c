"""The paper's figures about stopping, windows, steps, thresholds and seconds.

Each function makes one figure from rows or arrays. To add a figure, write its function here or, if it is about quality
at a cost, in ``cost_figures``, and add its entry to ``publish.figures_of``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quitmt.lab.drawing import colour, legend_below, look, panels, styled
from quitmt.lab.frames import Floats, Ints
from quitmt.lab.replay.rules import steps
from quitmt.lab.results import Results
from quitmt.lab.rows import UNACCELERATED, MetricColumn, RuleRow, RuntimeRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
"""Most panels beside each other."""
EVOLUTIONS = 6
"""Segments in the figure of score evolution."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """The best score of one segment, and where rules stopped."""

    id: str
    reranker: str
    sizes: Ints
    """Candidates drawn at each look."""
    score: Floats
    """The best score at each look."""
    stops: Mapping[str, int]
    """By the rule's name: the size at which it stopped."""


@styled
def stopping_distribution(sizes: Mapping[str, Mapping[int, Ints]], *, budget: int, bins: int = 16) -> Figure:
    """Histograms of the stop sizes ``sizes[reranker][w]``, one panel each."""
    most = max(len(windows) for windows in sizes.values())
    columns = -(-most // -(-most // COLUMNS))
    rows = sum(-(-len(windows) // columns) for windows in sizes.values())
    figure, axes = panels(rows, columns, "Where segments stop", width=2.3, height=1.9, sharex=True, sharey=True)
    used, free = [], iter(axes)
    for reranker, windows in sizes.items():
        for place in range(-(-len(windows) // columns) * columns):
            panel = next(free)
            if place >= len(windows):
                panel.set_axis_off()
                continue
            w, stops = list(windows.items())[place]
            _histogram(panel, stops, budget, bins)
            panel.set_title(f"{reranker}, w={w}")
            used.append(panel)
    for panel in axes[::columns]:
        panel.set_ylabel("segments (%)")
    for column in range(columns):
        lowest = [panel for panel in axes[column::columns] if panel in used][-1]
        lowest.set_xlabel("candidates")
        lowest.tick_params(labelbottom=True)
    legend_below(figure, used)
    return figure


def _histogram(panel: Axes, stops: Ints, budget: int, bins: int) -> None:
    # A bin includes its right end, since stops fall on multiples of k·w and the last bin must include the budget.
    place = np.clip(-(-stops * bins // budget) - 1, 0, bins - 1)
    early = np.bincount(place[stops < budget], minlength=bins) * 100 / len(stops)
    width = budget / bins
    at = (np.arange(bins) + 0.5) * width
    tint = f"{colour('QUIT')}66"
    panel.bar(at, early, width, color=tint, edgecolor="black", linewidth=0.6, label="stopped early")
    full = 100 * float((stops >= budget).mean())
    panel.bar(
        at[-1], full, width, bottom=early[-1], color="white", edgecolor="black", linewidth=0.6, hatch="////",
        label="whole budget",
    )  # fmt: skip
    panel.axvline(float(stops.mean()), color="black", linestyle="--", label="mean")
    panel.set_xlim(0, budget)


@styled
def window_sweep(
    rows: Sequence[RuleRow],
    base: Sequence[RuleRow],
    metrics: Sequence[MetricColumn],
    *,
    budget: int,
    alone: Sequence[RuleRow] = (),
) -> Figure:
    """Mean N and each metric against w, one line per reranker.

    ``base`` are the Unaccelerated rows, drawn as horizontal lines; bars are the 95% interval of the paired
    difference to them. Rerankers' own scores have different scales, so each gets a panel.
    """
    rerankers = list(dict.fromkeys(row.reranker for row in rows))
    wanted: list[tuple[MetricColumn | None, list[str]]] = [(None, rerankers)]
    for metric in metrics:
        wanted += [(metric, [one]) for one in rerankers] if metric.name == "rerank" else [(metric, rerankers)]
    columns = min(3, len(wanted))
    figure, axes = panels(-(-len(wanted) // columns), columns, "Cost and quality by window")
    for panel, (metric_or_none, shown) in zip(axes, wanted, strict=False):
        for reranker in shown:
            own = look("QUIT", rerankers.index(reranker))
            mine = sorted((row for row in rows if row.reranker == reranker), key=lambda row: row.settings["w"])
            level = next((row for row in base if row.reranker == reranker), None)
            w = [row.settings["w"] for row in mine]
            if metric_or_none is None:
                panel.plot(w, [row.mean_size for row in mine], **own.of(reranker))
            else:
                points = [(row.settings["w"], *_with_bars(row, metric_or_none)) for row in mine]
                x, y, below, above = np.array(points).T
                panel.errorbar(x, y, yerr=[below, above], capsize=2, elinewidth=0.8, **own.of(reranker))
                if level is not None and metric_or_none.name in level.scores:
                    value = level.scores[metric_or_none.name].value
                    style: dict[str, Any] = {"color": colour(UNACCELERATED), "linestyle": own.line, "linewidth": 0.8}
                    panel.axhline(value, label=f"{reranker}, {UNACCELERATED}", **style)
            panel.set_xticks(w)
        panel.set_xlabel("window w (steps)")
        if metric_or_none is None:
            panel.set_ylabel("mean candidates per segment")
            panel.set_ylim(0, budget)
        else:
            panel.set_ylabel(metric_label(metric_or_none))
            levels(panel, alone, metric_or_none)
            panel.set_title(shown[0] if metric_or_none.name == "rerank" else "")
    for panel in axes[len(wanted) :]:
        panel.set_axis_off()
    legend_below(figure, axes)
    return figure


def _with_bars(row: RuleRow, metric: MetricColumn) -> tuple[float, float, float]:
    """The score, and how far its bar reaches below and above it."""
    score = row.scores[metric.name]
    if score.base is None:
        return score.value, 0.0, 0.0
    low, high = score.base.interval
    # A bootstrap interval can miss the difference itself by a little, but a bar's length cannot be negative.
    return score.value, max(0.0, score.base.difference - low), max(0.0, high - score.base.difference)


def levels(panel: Axes, alone: Sequence[RuleRow], metric: MetricColumn) -> None:
    """Greedy, beam searches and one sample, as horizontal lines."""
    lines = (":", (0, (1, 3)), (0, (1, 5)), (0, (1, 7)))
    for number, row in enumerate(alone):
        if metric.name in row.scores:
            style: dict[str, Any] = {"color": "black", "linestyle": lines[number % len(lines)], "linewidth": 0.9}
            panel.axhline(row.scores[metric.name].value, label=row.rule, **style)


def metric_label(metric: MetricColumn) -> str:
    """An axis label that says which direction is better."""
    return f"{metric.heading} ({'lower' if metric.lower_is_better else 'higher'} is better)"


def evolutions(results: Results) -> list[Evolution]:
    """The first segments with each reranker, and where QUIT's shown windows stop."""
    budget, k = results.study.model.budget, results.study.rules.k
    found, windows = [], results.study.shown_windows()
    for spec, one in results.trajectories.items():
        shown = [rule for rule in results.replays[spec].windows if rule.settings["w"] in windows]
        for row in range(min(max(1, EVOLUTIONS // len(results.trajectories)), len(one.ids))):
            sizes = steps(int(one.sizes[row]), k, budget)
            stops = {rule.name: int(rule.size[row]) for rule in shown}
            found.append(Evolution(one.ids[row], spec, sizes, one.score[row, sizes - 1], stops))
    return found


@styled
def score_evolution(curves: Sequence[Evolution]) -> Figure:
    """The best score of single segments as the pool grows, with the point where each rule stopped."""
    columns = min(3, len(curves))
    figure, axes = panels(-(-len(curves) // columns), columns, "How the best score moves, and where rules stop")
    rules = list(dict.fromkeys(rule for curve in curves for rule in curve.stops))
    for panel, curve in zip(axes, curves, strict=False):
        panel.plot(curve.sizes, curve.score, drawstyle="steps-post", color="#555555", label="best score")
        for number, rule in enumerate(rules):
            if rule in curve.stops:
                own = look(rule, number)
                at = int(np.searchsorted(curve.sizes, curve.stops[rule], side="right")) - 1
                panel.plot(
                    [curve.stops[rule]], [curve.score[at]], own.marker, color=own.colour,
                    markerfacecolor="white", markeredgewidth=1.4, markersize=7, label=rule,
                )  # fmt: skip
        panel.set_title(f"segment {curve.id}")
        panel.set_xlabel("candidates")
        panel.set_ylabel(f"best score, {curve.reranker}")
        panel.ticklabel_format(axis="y", useOffset=False)
    for panel in axes[len(curves) :]:
        panel.set_axis_off()
    legend_below(figure, axes, 5)
    return figure


@styled
def step_sizes(
    rows: Sequence[RuleRow],
    metric: MetricColumn,
    *,
    w: int,
    product: int,
    alone: Sequence[RuleRow] = (),
) -> Figure:
    """Mean N and a metric against k: at a fixed window w, and at a fixed k·w."""
    kept = [
        (f"window w={w}", [row for row in rows if row.settings["w"] == w]),
        (f"k·w={product} candidates", [row for row in rows if row.settings["k"] * row.settings["w"] == product]),
    ]
    rerankers = list(dict.fromkeys(row.reranker for row in rows))
    figure, axes = panels(2, 2, "What the step size changes", sharex=True, sharey="row")
    for number, panel in enumerate(axes):
        title, shown = kept[number % 2]
        for place, reranker in enumerate(rerankers):
            mine = sorted((row for row in shown if row.reranker == reranker), key=lambda row: row.settings["k"])
            y = [row.scores[metric.name].value if number > 1 else row.mean_size for row in mine]
            k = [row.settings["k"] for row in mine]
            panel.plot(k, y, **look("QUIT", place).of(reranker))
        panel.set_xscale("log", base=2)
        ticks = sorted({row.settings["k"] for _, each in kept for row in each})
        panel.set_xticks(ticks, [f"{k:.0f}" for k in ticks])
        if number < 2:
            panel.set_title(f"at a fixed {title}")
        if number >= len(axes) - 2:
            panel.set_xlabel("step k (candidates)")
    axes[0].set_ylabel("mean candidates per segment")
    axes[0].set_ylim(bottom=0)
    axes[2].set_ylabel(metric_label(metric))
    for panel in axes[2:]:
        levels(panel, alone, metric)
    legend_below(figure, axes)
    return figure


@styled
def runtime_breakdown(rows: Sequence[RuntimeRow]) -> Figure:
    """Stacked bars of generation and reranking; estimated and live seconds have separate panels."""
    bases = [basis for basis in ("estimated", "live") if any(row.seconds(basis) for row in rows)]
    titles = {"estimated": "Estimated from a replay", "live": "Measured live"}
    tall = max(2.0, 0.3 * len(rows) + 1.0)
    figure, axes = panels(1, len(bases), "Where the time goes", width=4.6, height=tall, sharey=True)
    names = [f"{row.reranker}, {row.rule}" if row.reranker else row.rule for row in rows]
    for panel, basis in zip(axes, bases, strict=True):
        left = [0.0] * len(rows)
        for part, shade, hatch in (("generation", "#cccccc", ""), ("reranking", "white", "////")):
            seconds = [row.seconds(basis) for row in rows]
            widths = [(each.generate if part == "generation" else each.rerank) if each else 0.0 for each in seconds]
            panel.barh(names, widths, left=left, color=shade, hatch=hatch, edgecolor="black", linewidth=0.6, label=part)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        for place, row in enumerate(rows):
            if row.seconds(basis) is None:
                panel.text(0, place, " not measured", va="center", fontsize=7, color="#555555")
        panel.set_title(titles[basis])
        panel.set_xlabel(f"seconds ({basis})")
        panel.grid(axis="y", visible=False)
    axes[0].invert_yaxis()
    axes[0].set_ylabel("reranker and rule")
    legend_below(figure, axes)
    return figure


@styled
def alpha_tradeoff(rows: Sequence[RuleRow], metric: MetricColumn, alone: Sequence[RuleRow] = ()) -> Figure:
    """The cost of the threshold α and the quality it buys, one line per reranker and window."""
    series: dict[tuple[str, int], list[RuleRow]] = {}
    for row in sorted(rows, key=lambda row: (row.reranker, row.settings["w"], row.settings["alpha"])):
        series.setdefault((row.reranker, int(row.settings["w"])), []).append(row)
    rerankers = list(dict.fromkeys(reranker for reranker, _ in series))
    figure, (cost, *trades) = panels(1, 1 + len(rerankers), "What the threshold α trades", width=3.7, height=3.0)
    for number, ((reranker, w), mine) in enumerate(series.items()):
        sizes = [row.mean_size for row in mine]
        quality = [row.scores[metric.name].value for row in mine]
        style = look("QUIT", number).of(f"{reranker}, w={w}")
        cost.plot([row.settings["alpha"] for row in mine], sizes, **style)
        trades[rerankers.index(reranker)].plot(sizes, quality, **style)
    cost.set_xscale("log")
    cost.set_xlabel("threshold α (score)")
    cost.set_ylabel("mean candidates per segment")
    cost.set_ylim(bottom=0)
    for reranker, panel in zip(rerankers, trades, strict=True):
        panel.set_title(reranker)
        panel.set_xlabel("mean candidates per segment")
        panel.set_ylabel(metric_label(metric))
        levels(panel, alone, metric)
    legend_below(figure, [cost, *trades], 3)
    return figure
