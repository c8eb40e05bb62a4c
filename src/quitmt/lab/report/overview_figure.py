"""The report's first figure: quality against cost, of everything that the study has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quitmt.calibrate.drawing import panels, styled
from quitmt.lab.report.assemble import GREEDY
from quitmt.lab.report.figures import metric_label
from quitmt.lab.report.options import Series, Way
from quitmt.lab.report.palette import family, look
from quitmt.lab.rows import MetricColumn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CANDIDATES, ESTIMATED, LIVE = "candidates per segment", "seconds per segment, estimated", "seconds per segment, live"


@styled
def quality_against_all_costs(series: Sequence[Series], options: Sequence[Way], metric: MetricColumn) -> Figure:
    """A row a reranker, a column a kind of cost. Colours are rules, markers and lines are samplings."""
    samplings = list(dict.fromkeys(one.sampling for one in series))
    rerankers = list(dict.fromkeys(one.reranker for one in series))
    costs = [CANDIDATES]
    costs += [ESTIMATED] if any(one.estimated is not None for one in series) else []
    costs += [LIVE] if any(one.live is not None and one.reranker for one in options) else []
    title = f"{metric.heading} against cost"
    figure, axes = panels(len(rerankers), len(costs), title, width=4.0, height=3.2)
    for place, panel in enumerate(axes):
        reranker, cost = rerankers[place // len(costs)], costs[place % len(costs)]
        if cost == LIVE:
            _runs(panel, [one for one in options if one.reranker == reranker], samplings, metric)
        else:
            for one in series:
                if one.reranker == reranker:
                    _line(panel, one, cost, samplings, metric)
        _baselines(panel, [one for one in options if one.is_baseline], cost, metric)
        _cut_below(panel)
        panel.set_xscale("log", base=2 if cost == CANDIDATES else 10)
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set_xlabel(cost)
        if place % len(costs) == 0:
            panel.set_ylabel(f"{reranker}: {metric_label(metric)}")
    _legends(figure, series, samplings, columns=2 * len(costs))
    return figure


def _line(panel: Axes, one: Series, cost: str, samplings: list[str], metric: MetricColumn) -> None:
    x = one.cost if cost == CANDIDATES else one.estimated
    if x is None:
        return
    style = look(one.rule, samplings.index(one.sampling)).of(one.rule) | {"markersize": 3.5, "linewidth": 1.1}
    panel.plot(x, one.quality[metric.name], markevery=None if len(x) < 10 else 0.15, **style)


def _cut_below(panel: Axes) -> None:
    """Leave out the beginnings of lines that are far below where every line ends: a few bad samples would squeeze all
    that is worth choosing from into one line."""
    ends = [float(np.asarray(line.get_ydata())[-1]) for line in panel.lines]
    highest = panel.dataLim.y1
    margin = 0.1 * (highest - min(ends))
    if margin > 0 and panel.dataLim.y0 < min(ends) - margin:
        panel.set_ylim(min(ends) - margin, highest + margin)


def _runs(panel: Axes, options: Sequence[Way], samplings: list[str], metric: MetricColumn) -> None:
    for one in options:
        if one.live is not None:
            own = look(one.rule, samplings.index(one.sampling))
            panel.plot([one.live.seconds], [one.live.quality[metric.name]], own.marker, color=own.colour)
            panel.set_title(f"the first {one.live.segments} segments", fontsize=8)


def _baselines(panel: Axes, options: Sequence[Way], cost: str, metric: MetricColumn) -> None:
    found: dict[str, Callable[[Way], tuple[float | None, float]]] = {
        CANDIDATES: lambda one: (one.cost, float(one.quality[metric.name].mean())),
        ESTIMATED: lambda one: (one.estimated, float(one.quality[metric.name].mean())),
        LIVE: lambda one: (one.live.seconds, one.live.quality[metric.name]) if one.live else (None, 0.0),
    }
    for one in options:
        x, y = found[cost](one)
        if x is None:
            continue
        panel.plot([x], [y], "*", color="black", markersize=9, zorder=4)
        panel.annotate(one.rule, (x, y), xytext=(5, 4), textcoords="offset points", fontsize=7.5)
        if one.rule == GREEDY:
            panel.axhline(y, color="black", linewidth=0.8, linestyle=":")


def _legends(figure: Figure, series: Sequence[Series], samplings: list[str], columns: int) -> None:
    """Rules by their colour, samplings by their line."""
    from matplotlib.lines import Line2D

    rules = list(dict.fromkeys("Fixed N" if family(one.rule) == "Fixed" else family(one.rule) for one in series))
    keys: list[Any] = [Line2D([], [], color=look(rule).colour, linewidth=4) for rule in rules]
    names = list(rules)
    for place, sampling in enumerate(samplings):
        style = look("Unaccelerated", place).of("") | {"color": "#444444"}
        keys.append(Line2D([], [], **style))
        names.append(sampling or "samples")
    figure.legend(keys, names, loc="outside lower center", ncols=min(columns, len(names)))
