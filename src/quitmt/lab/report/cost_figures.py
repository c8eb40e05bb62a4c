"""Figures of quality and regret against cost, and the report's first figure, which shows all options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quitmt.lab.drawing import Look, colour, family, legend_below, look, panels, styled
from quitmt.lab.frames import Floats, Replayed
from quitmt.lab.replay.frontier import FIXED, REGRET
from quitmt.lab.report.assemble import GREEDY
from quitmt.lab.report.configurations import Configuration, Series
from quitmt.lab.report.figures import levels, metric_label
from quitmt.lab.report.frontier import Frontier, Line
from quitmt.lab.results import Results
from quitmt.lab.rows import UNACCELERATED, MetricColumn, RuleRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARK_EVERY = 0.06
"""The distance between markers, as a share of a line's length: enough to identify lines without colour."""
CANDIDATES, ESTIMATED, LIVE = "candidates per segment", "seconds per segment, estimated", "seconds per segment, live"


@dataclass(frozen=True, slots=True)
class Trace:
    """The losses of one kind of rule: mean sizes and mean regret."""

    rule: str
    sizes: Floats
    regret: Floats


@styled
def quality_against_cost(
    lines: Mapping[str, Sequence[Line]],
    rows: Sequence[RuleRow],
    metric: MetricColumn,
    alone: Sequence[RuleRow] = (),
) -> Figure:
    """One panel per reranker: fixed sizes (its first line), every rule, and baselines as horizontal lines.

    Bars are the 95% interval of the paired difference to Fixed-N* at equal mean cost, drawn around the rule: if a bar
    does not reach the fixed sizes, the difference is significant.
    """
    figure, axes = panels(1, len(lines), f"{metric.heading} against cost", width=4.2, height=3.3)
    # Rules with lines come first, because the first markers and lines are the easiest to follow.
    lined = ["QUIT", *(family(line.rule) for own in lines.values() for line in own)]
    pointed = [family(row.rule) for row in rows]
    families = [one for one in dict.fromkeys((*lined, *pointed)) if one not in ("Fixed", UNACCELERATED)]
    look_of = {one: look(one, number) for number, one in enumerate((UNACCELERATED, *families))}
    for panel, (reranker, (fixed, *others)) in zip(axes, lines.items(), strict=True):
        few = fixed.places(64)
        panel.plot(fixed.size[few], fixed.quality[metric.name][few], color=colour("Fixed"), label=FIXED)
        for name, own in look_of.items():
            for line in (line for line in others if family(line.rule) == name):
                style = {**own.of(name), "markevery": MARK_EVERY, "markersize": 3}
                panel.plot(line.size, line.quality[metric.name], **style)
            mine = [row for row in rows if row.reranker == reranker and family(row.rule) == name]
            for number, row in enumerate(sorted(mine, key=lambda row: row.mean_size)):
                # Labels alternate between below and above, because windows crowd where pools are nearly whole.
                _point(panel, row, metric, name, own, label_above=bool(number % 2))
        levels(panel, alone, metric)
        panel.set_xlabel("mean candidates per segment")
        panel.set_ylabel(metric_label(metric))
        panel.set_title(reranker)
    legend_below(figure, axes, 5)
    return figure


def _point(panel: Axes, row: RuleRow, metric: MetricColumn, name: str, own: Look, *, label_above: bool) -> None:
    score = row.scores.get(metric.name)
    if score is None:
        return
    bars = None
    if score.fixed is not None:
        low, high = score.fixed.interval
        bars = [[max(0.0, score.fixed.difference - low)], [max(0.0, high - score.fixed.difference)]]
    whole = name == UNACCELERATED
    panel.errorbar(
        [row.mean_size], [score.value], yerr=bars, fmt="*" if whole else own.marker, color=own.colour, capsize=2,
        elinewidth=0.8, markersize=8 if whole else 5, markerfacecolor=own.colour if whole else "white", label=name,
        zorder=3,
    )  # fmt: skip
    settings = row.rule.removeprefix(name).strip(" :")
    if settings:
        panel.annotate(
            settings, (row.mean_size, score.value), xytext=(3, 5 if label_above else -10), textcoords="offset points",
            fontsize=6.5,
        )  # fmt: skip


@styled
def regret_against_cost(traces: Mapping[str, Sequence[Trace]]) -> Figure:
    """One panel per reranker with logarithmic axes, fixed sizes first. Lower and further left is better."""
    figure, axes = panels(1, len(traces), "How much rules lose, at which cost", width=4.4, height=3.6)
    names = list(dict.fromkeys(one.rule for _, *rules in traces.values() for one in rules))
    look_of = {name: look(name, number) for number, name in enumerate(names)}
    for panel, (reranker, (fixed, *rules)) in zip(axes, traces.items(), strict=True):
        there = fixed.sizes >= min((float(one.sizes.min()) for one in rules), default=1.0)
        panel.plot(fixed.sizes[there], fixed.regret[there], color=colour("Fixed"), label=fixed.rule)
        for one in rules:
            few = {} if len(one.sizes) < 16 else {"markevery": MARK_EVERY}
            style = {**look_of[one.rule].of(one.rule), **few, "markersize": 4, "markerfacecolor": "white"}
            panel.plot(one.sizes, one.regret, **style)
        panel.set_xscale("log", base=2)
        most = float(fixed.regret[there].max(initial=0.0))
        if most > 0:  # values far below come from one or two segments
            panel.set_ylim(most / 2000, most * 1.5)
            panel.set_yscale("log", nonpositive="mask")
        panel.xaxis.set_major_formatter("{x:.0f}")
        panel.set_xlabel("mean candidates per segment")
        panel.set_ylabel("mean regret (score; lower is better)")
        panel.set_title(reranker)
    legend_below(figure, axes, 4)
    return figure


def traces(results: Results, frontier: Frontier) -> dict[str, list[Trace]]:
    """Fixed sizes, rules at every threshold, and QUIT by window and by α."""
    found = {}
    for spec, lines in frontier.lines.items():
        own, rules = results.replays[spec], results.study.rules
        traces = [Trace(line.rule, line.size, line.lost[REGRET]) for line in lines]
        series = {f"QUIT, all w, α={rules.alpha:g}": list(own.windows)}
        for w in rules.alpha_windows:
            series[f"QUIT w={w}, all α"] = [one for one in own.alphas if one.settings["w"] == w]
        traces += [_trace(name, quits, own.unaccelerated) for name, quits in series.items()]
        found[spec] = traces
    return found


def _trace(name: str, rules: list[Replayed], whole: Replayed) -> Trace:
    points = sorted((one.mean_size, float((whole.score - one.score).mean())) for one in rules)
    return Trace(name, *np.array(points).T)


@styled
def quality_against_all_costs(
    series: Sequence[Series], options: Sequence[Configuration], metric: MetricColumn
) -> Figure:
    """One row per reranker, one column per kind of cost. Colours are rules, markers and lines are samplings."""
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
    """Cut off the beginnings of lines that are far below the ends of all lines: they would squeeze everything worth
    choosing into a narrow band."""
    ends = [float(np.asarray(line.get_ydata())[-1]) for line in panel.lines]
    highest = panel.dataLim.y1
    margin = 0.1 * (highest - min(ends))
    if margin > 0 and panel.dataLim.y0 < min(ends) - margin:
        panel.set_ylim(min(ends) - margin, highest + margin)


def _runs(panel: Axes, options: Sequence[Configuration], samplings: list[str], metric: MetricColumn) -> None:
    for one in options:
        if one.live is not None:
            own = look(one.rule, samplings.index(one.sampling))
            panel.plot([one.live.seconds], [one.live.quality[metric.name]], own.marker, color=own.colour)
            panel.set_title(f"the first {one.live.segments} segments", fontsize=8)


def _baselines(panel: Axes, options: Sequence[Configuration], cost: str, metric: MetricColumn) -> None:
    found: dict[str, Callable[[Configuration], tuple[float | None, float]]] = {
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
    """A legend for rules by their colour, and for samplings by their line."""
    from matplotlib.lines import Line2D

    rules = list(dict.fromkeys(FIXED if family(one.rule) == "Fixed" else family(one.rule) for one in series))
    keys: list[Any] = [Line2D([], [], color=look(rule).colour, linewidth=4) for rule in rules]
    names = list(rules)
    for place, sampling in enumerate(samplings):
        style = look(UNACCELERATED, place).of("") | {"color": "#444444"}
        keys.append(Line2D([], [], **style))
        names.append(sampling or "samples")
    figure.legend(keys, names, loc="outside lower center", ncols=min(columns, len(names)))
