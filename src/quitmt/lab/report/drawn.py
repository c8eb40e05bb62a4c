"""From results to the figures of one sampling: what each of them is drawn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from quitmt.lab.frames import Replayed
from quitmt.lab.replay import rules as replay
from quitmt.lab.replay.frontier import REGRET
from quitmt.lab.report import cost_figures, figures
from quitmt.lab.report.assemble import Assembled
from quitmt.lab.report.cost_figures import Trace
from quitmt.lab.report.figures import Evolution
from quitmt.lab.report.frontier_rows import Frontier
from quitmt.lab.results import Results
from quitmt.lab.rows import UNACCELERATED, MetricColumn, RuleRow

EVOLUTIONS = 6
"""Single segments in the figure of score evolution."""


def shown_windows(results: Results) -> tuple[int, ...]:
    """Those that figures and sentences are about: the ones of the other sweeps, if they are replayed, else all."""
    rules = results.study.rules
    return tuple(w for w in rules.windows if w in rules.alpha_windows) or rules.windows


def all_figures(
    results: Results, rows: Assembled, frontier: Frontier, alone: Sequence[RuleRow] = ()
) -> Iterator[tuple[str, str, Any]]:
    """``alone`` are greedy, beam searches and one sample."""
    study = results.study
    budget = study.model.budget
    shown = shown_windows(results)
    stops = {
        spec: {int(one.settings["w"]): one.size for one in own.windows if one.settings["w"] in shown}
        for spec, own in results.replays.items()
    }
    metric_of_all = judged(rows)
    yield "stopping", "Where segments stop", figures.stopping_distribution(stops, budget=budget)
    base = [row for row in rows.main if row.rule == UNACCELERATED]
    yield "windows", "The window", figures.window_sweep(rows.windows, base, rows.metrics, budget=budget, alone=alone)
    yield "evolution", "The best score of single segments", figures.score_evolution(_evolutions(results))
    middle = study.rules.alpha_windows[len(study.rules.alpha_windows) // 2]
    steps = figures.step_sizes(rows.steps, metric_of_all, w=middle, product=study.rules.k * middle, alone=alone)
    yield "steps", "The step", steps
    for metric in rows.metrics:
        figure = cost_figures.quality_against_cost(_bought(frontier, metric), rows.main, metric, alone)
        yield f"cost-{_file_name(metric.name)}", f"{metric.heading} against cost", figure
    yield "regret", "Regret against cost", cost_figures.regret_against_cost(_traces(results, frontier))
    if any(row.estimated or row.live for row in rows.runtimes):
        yield "runtime", "Where the time goes", cost_figures.runtime_breakdown(rows.runtimes)
    yield "alpha", "The threshold", cost_figures.alpha_tradeoff(rows.alphas, metric_of_all, alone)


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "+-_." else "-" for c in name)


def judged(rows: Assembled) -> MetricColumn:
    """The first external metric, or the reranker's own score if there is none."""
    return rows.metrics[1] if len(rows.metrics) > 1 else rows.metrics[0]


def _evolutions(results: Results) -> list[Evolution]:
    budget, k = results.study.model.budget, results.study.rules.k
    found, windows = [], shown_windows(results)
    for spec, one in results.trajectories.items():
        shown = [rule for rule in results.replays[spec].windows if rule.settings["w"] in windows]
        for row in range(min(max(1, EVOLUTIONS // len(results.trajectories)), len(one.ids))):
            sizes = replay.steps(int(one.sizes[row]), k, budget)
            stops = {rule.name: int(rule.size[row]) for rule in shown}
            found.append(Evolution(one.ids[row], spec, sizes, one.score[row, sizes - 1], stops))
    return found


def _bought(frontier: Frontier, metric: MetricColumn) -> dict[str, cost_figures.CostCurves]:
    """What each fixed size buys, and each rule at every threshold."""
    found = {}
    for spec, (fixed, *others) in frontier.lines.items():
        rules = {line.rule: (line.size, line.quality[metric.name]) for line in others}
        few = fixed.places(64)
        found[spec] = cost_figures.CostCurves(fixed.size[few], fixed.quality[metric.name][few], rules)
    return found


def _traces(results: Results, frontier: Frontier) -> dict[str, list[Trace]]:
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
