"""The paper's figures about cost: what quality costs, where the time goes, and what the threshold trades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quitmt.calibrate.drawing import Look, legend_below, panels, styled
from quitmt.lab.frames import Floats, Ints
from quitmt.lab.report.figures import levels, metric_label
from quitmt.lab.report.palette import colour, family, look
from quitmt.lab.rows import UNACCELERATED, MetricColumn, RuleRow, RuntimeRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARK_EVERY = 0.06
"""Of a line's length: markers tell lines apart without colour, and too many hide them."""


@dataclass(frozen=True, slots=True)
class CostCurves:
    """What a fixed number of candidates buys, and what rules do at every threshold."""

    sizes: Ints | Floats
    """Means over segments."""
    quality: Floats
    rules: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)
    """By name: mean sizes and quality."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What one kind of rule loses: mean sizes and mean regret."""

    rule: str
    sizes: Floats
    regret: Floats


@styled
def quality_against_cost(
    frontiers: Mapping[str, CostCurves],
    rows: Sequence[RuleRow],
    metric: MetricColumn,
    alone: Sequence[RuleRow] = (),
) -> Figure:
    """A panel a reranker: the fixed-N frontier, every rule on it, and as level lines what reranks nothing.

    Bars are the 95% interval of the paired difference to Fixed-N* at equal mean cost, drawn around the rule: a bar that
    does not reach the frontier is a difference that shows.
    """
    figure, axes = panels(1, len(frontiers), f"{metric.heading} against cost", width=4.2, height=3.3)
    # What has lines first: looks that are easy to follow. A rule's points look like its line.
    lined = ["QUIT", *(family(rule) for frontier in frontiers.values() for rule in frontier.rules)]
    pointed = [family(row.rule) for row in rows]
    families = [one for one in dict.fromkeys((*lined, *pointed)) if one not in ("Fixed", UNACCELERATED)]
    look_of = {one: look(one, number) for number, one in enumerate((UNACCELERATED, *families))}
    for panel, (reranker, frontier) in zip(axes, frontiers.items(), strict=True):
        panel.plot(frontier.sizes, frontier.quality, color=colour("Fixed"), label="Fixed N")
        for name, own in look_of.items():
            for rule in (rule for rule in frontier.rules if family(rule) == name):
                panel.plot(*frontier.rules[rule], **{**own.of(name), "markevery": MARK_EVERY, "markersize": 3})
            mine = [row for row in rows if row.reranker == reranker and family(row.rule) == name]
            for number, row in enumerate(sorted(mine, key=lambda row: row.mean_size)):
                # Labels of neighbours go below and above in turn: windows crowd where pools are nearly whole.
                _point(panel, row, metric, name, own, label_above=bool(number % 2))
        levels(panel, alone, metric)
        panel.set_xlabel("mean candidates a segment")
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
    """A panel a reranker, both axes logarithmic, fixed sizes first: the lower and the further left, the better."""
    figure, axes = panels(1, len(traces), "What rules lose, at which cost", width=4.4, height=3.6)
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
        if most > 0:  # far less than that is what one segment or two have lost
            panel.set_ylim(most / 2000, most * 1.5)
            panel.set_yscale("log", nonpositive="mask")
        panel.xaxis.set_major_formatter("{x:.0f}")
        panel.set_xlabel("mean candidates a segment")
        panel.set_ylabel("mean regret (score; lower is better)")
        panel.set_title(reranker)
    legend_below(figure, axes, 4)
    return figure


@styled
def runtime_breakdown(rows: Sequence[RuntimeRow]) -> Figure:
    """Stacked bars of generation and reranking; estimated and live seconds in panels of their own."""
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
    """What the threshold α costs, and what it buys: a line a reranker and window."""
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
    cost.set_ylabel("mean candidates a segment")
    cost.set_ylim(bottom=0)
    for reranker, panel in zip(rerankers, trades, strict=True):
        panel.set_title(reranker)
        panel.set_xlabel("mean candidates a segment")
        panel.set_ylabel(metric_label(metric))
        levels(panel, alone, metric)
    legend_below(figure, [cost, *trades], 3)
    return figure
