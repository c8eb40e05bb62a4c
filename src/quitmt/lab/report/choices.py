"""What to use: the best way to translate at each cost, how it compares with greedy, and how sure that is.

The best of many looks better than it is on the segments that it was chosen by. So each choice says in how many
resamples of the segments it is the best again, and what choosing gains on segments that had no part in it: one random
half chooses, the other judges, many times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from quitmt.evaluate.equivalence import Comparison, Pair, compare, draws
from quitmt.lab.frames import Floats
from quitmt.lab.replay.frontier import halves
from quitmt.lab.report.assemble import GREEDY
from quitmt.lab.report.options import Way
from quitmt.lab.rows import MetricColumn
from quitmt.lab.study import Study

MOST_RESAMPLES = 2000
"""To tell in which share of them an option is the best, to a hundredth."""


@dataclass(frozen=True, slots=True)
class BestAtCost:
    """The best option among those that cost no more than a limit."""

    limit: float
    """Candidates per segment; infinite for any cost."""
    option: Way
    value: float
    greedy: Comparison | None
    """Against greedy; None if that is unknown, or is the choice."""
    best_again: float
    """The share of resamples in which it is the best of these."""
    held_out: float | None
    """How much better than greedy a choice by one half of the segments is on the other half."""


@dataclass(frozen=True, slots=True)
class Overview:
    """All options by all metrics, and the choices by the first of them."""

    metrics: tuple[MetricColumn, ...]
    segments: int
    options: tuple[Way, ...]
    against: tuple[Mapping[str, Comparison], ...]
    """Of each option, by metric: against greedy. Empty for greedy itself, and where it is unknown."""
    choices: tuple[BestAtCost, ...]
    """From the cheapest; the last one is the best of all."""
    cheapest: BestAtCost | None
    """The cheapest option that the best of all is not shown to be better than."""
    greedy: Way | None

    @property
    def judged(self) -> MetricColumn:
        return self.metrics[0]


def overview(options: Sequence[Way], metrics: Sequence[MetricColumn], study: Study) -> Overview | None:
    """Nothing if there is no metric to judge by."""
    if not metrics:
        return None
    judged, greedy = metrics[0], next((one for one in options if one.is_baseline and one.rule == GREEDY), None)
    against = _against(options, greedy, metrics, study)
    usable = sorted((one for one in options if one.is_choice), key=lambda one: one.cost)  # of equals, the cheapest
    values = np.stack([one.quality[judged.name] for one in usable])
    better = -values if judged.lower_is_better else values
    cost = np.array([one.cost for one in usable])
    resampled = _resampled(better, study)
    place = {id(one): at for at, one in enumerate(options)}

    def choice(limit: float, chosen: int | None = None) -> BestAtCost:
        within = np.flatnonzero(cost <= limit)
        best = int(within[better[within].mean(axis=1).argmax()]) if chosen is None else chosen
        again = float((resampled[:, within].argmax(axis=1) == int(np.flatnonzero(within == best)[0])).mean())
        gain = None
        if greedy is not None:
            gain = _held_out(better[within], better[usable.index(greedy)], study)
            gain = -gain if judged.lower_is_better and gain is not None else gain
        compared = against[place[id(usable[best])]].get(judged.name)
        return BestAtCost(limit, usable[best], float(values[best].mean()), compared, again, gain)

    found = [choice(limit) for limit in (*_limits(cost), np.inf)]
    kept = [one for at, one in enumerate(found) if at == 0 or one.option is not found[at - 1].option]
    top = usable.index(kept[-1].option)
    cheapest = choice(np.inf, _cheapest(values, cost, top, study))
    return Overview(tuple(metrics), values.shape[1], tuple(options), tuple(against), tuple(kept), cheapest, greedy)


def _limits(cost: Floats) -> list[float]:
    """Powers of two between the cheapest and the dearest."""
    return [2.0**power for power in range(20) if cost.min() <= 2.0**power < cost.max()]


def _against(
    options: Sequence[Way], greedy: Way | None, metrics: Sequence[MetricColumn], study: Study
) -> list[dict[str, Comparison]]:
    if greedy is None:
        return [{} for _ in options]
    wanted = [(one, metric) for one in options if one is not greedy for metric in metrics]
    pairs = [
        Pair(greedy.quality[metric.name], one.quality[metric.name], metric.lower_is_better) for one, metric in wanted
    ]
    found = iter(compare(pairs, resamples=study.evaluate.resamples, rng=study.evaluate.seed))
    return [{} if one is greedy else {metric.name: next(found) for metric in metrics} for one in options]


def _cheapest(values: Floats, cost: Floats, top: int, study: Study) -> int:
    """The interval of what the best has more holds 0; the best itself always qualifies."""
    pairs = [Pair(one, values[top]) for one in values]
    compared = compare(pairs, resamples=study.evaluate.resamples, rng=study.evaluate.seed)
    equal = [at for at, one in enumerate(compared) if one.interval[0] <= 0 <= one.interval[1]]
    return min({*equal, top}, key=lambda at: (cost[at], at))


def _resampled(better: Floats, study: Study) -> Floats:
    """[resamples, options]: mean quality over resampled segments."""
    segments = better.shape[1]
    count = min(MOST_RESAMPLES, study.evaluate.resamples)
    blocks = []
    for drawn in draws(segments, count, np.random.default_rng(study.evaluate.seed)):
        tally = np.stack([np.bincount(row, minlength=segments) for row in drawn]).astype(np.float64)
        blocks.append(tally @ better.T / segments)
    return np.concatenate(blocks)


def _held_out(better: Floats, greedy: Floats, study: Study) -> float | None:
    segments = better.shape[1]
    if segments < 2:
        return None
    choosing = halves(segments, study.rules.splits, study.evaluate.seed).astype(np.float64).T
    judging = 1 - choosing
    best = (better @ choosing / choosing.sum(axis=0)).argmax(axis=0)
    gain = ((better - greedy) @ judging / judging.sum(axis=0))[best, np.arange(choosing.shape[1])]
    return float(gain.mean())
