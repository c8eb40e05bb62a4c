"""What to use, in words and in two tables: the opening of the report.

The best of many options looks better than it is on the segments that chose it. So each choice says in how many
resamples of the segments it is the best again, and how much choosing gains on segments that had no part in it: one
random half chooses, the other judges, many times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from quitmt.evaluate.equivalence import Comparison, Pair, compare, draws
from quitmt.lab.frames import Floats
from quitmt.lab.replay.frontier import halves
from quitmt.lab.report.assemble import GREEDY
from quitmt.lab.report.configurations import Configuration
from quitmt.lab.report.formats import Cell, Column, Table, columns_in_use
from quitmt.lab.report.tables import GREEDY_NOTE
from quitmt.lab.report.text import difference, number
from quitmt.lab.rows import MetricColumn, direction
from quitmt.lab.study import Study

MOST_RESAMPLES = 2000
"""Enough to say in which share of resamples an option is the best, to a hundredth."""
FEW = 100
"""With fewer segments, intervals say little about other texts."""
MANY = 3
"""A sentence about more whole pools than this only names them."""
COST_NOTE = "Candidates: samples and anchors per segment; for a beam search its hypotheses."
SECONDS_NOTE = (
    "Seconds per segment. Estimated: from a replay of the whole pools. Live: measured in a run of the rule. Greedy and "
    "beam searches are measured while they are decoded."
)


@dataclass(frozen=True, slots=True)
class BestAtCost:
    """The best option among those that cost no more than a limit."""

    limit: float
    """Candidates per segment; infinite for any cost."""
    option: Configuration
    value: float
    greedy: Comparison | None
    """Against greedy; None if that is unknown, or is the choice itself."""
    best_again: float
    """The share of resamples in which it is the best of these options."""
    held_out: float | None
    """How much better than greedy a choice by one half of the segments is on the other half."""


@dataclass(frozen=True, slots=True)
class Overview:
    """All options by all metrics, and the choices by the first metric."""

    metrics: tuple[MetricColumn, ...]
    segments: int
    options: tuple[Configuration, ...]
    against: tuple[Mapping[str, Comparison], ...]
    """For each option, by metric: against greedy. Empty for greedy itself, and where greedy is unknown."""
    choices: tuple[BestAtCost, ...]
    """From the cheapest; the last one is the best of all."""
    cheapest: BestAtCost
    """The cheapest option that isn't significantly worse than the best of all."""
    greedy: Configuration | None

    @property
    def judged(self) -> MetricColumn:
        return self.metrics[0]


def overview(options: Sequence[Configuration], metrics: Sequence[MetricColumn], study: Study) -> Overview | None:
    """None if there is no metric to judge by."""
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

    limits = [2.0**power for power in range(20) if cost.min() <= 2.0**power < cost.max()]
    found = [choice(limit) for limit in (*limits, np.inf)]
    kept = [one for at, one in enumerate(found) if at == 0 or one.option is not found[at - 1].option]
    top = usable.index(kept[-1].option)
    cheapest = choice(np.inf, _cheapest(values, cost, top, study))
    return Overview(tuple(metrics), values.shape[1], tuple(options), tuple(against), tuple(kept), cheapest, greedy)


def _against(
    options: Sequence[Configuration], greedy: Configuration | None, metrics: Sequence[MetricColumn], study: Study
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
    """The cheapest option whose difference to the best has an interval that includes 0; the best itself qualifies."""
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


def sentences(found: Overview | None) -> Iterator[str]:
    if found is None:
        yield "No metric judges the translations, so nothing can be recommended: name one in [evaluate]."
        return
    yield from _is_worth_it(found)
    best = found.choices[-1]
    again = f"It is the best in {100 * best.best_again:.0f}% of resamples of the segments."
    yield f"Best of all: {_choice(best, found)} {again}"
    if found.segments < FEW:
        yield (
            f"The study has {found.segments} segments. Fewer than {FEW} say little about other texts: take the order "
            f"as a hint, and run more segments before you decide."
        )
    if found.cheapest.option is not best.option:
        yield f"Cheapest option that isn't significantly worse than the best: {_choice(found.cheapest, found)}"
    if best.held_out is not None:
        gain = number(best.held_out, found.judged, signed=True)
        yield (
            f"The best of many options looks better than it is. If one half of the segments chooses and the other half "
            f"judges, the best of all is {gain} {found.judged.heading} from greedy."
        )
    yield from _pools(found)


def _is_worth_it(found: Overview) -> Iterator[str]:
    """Is reranking worth it at all? Says nothing without greedy."""
    best, judged = found.choices[-1], found.judged
    if found.greedy is None:
        return
    if not best.option.reranker or best.greedy is None:
        yield f"Is reranking worth it here? No: {best.option.name} is the best of all, without reranking."
        return
    gain = f"{difference(best.greedy, judged)} {judged.heading}, for {best.option.cost:.1f} candidates per segment"
    answer = "Yes: the best is significantly better than greedy decoding"
    if direction(best.greedy, lower_is_better=judged.lower_is_better) <= 0:
        answer = "Not shown: no option is significantly better than greedy decoding"
    yield f"Is reranking worth it here? {answer} ({gain})."


def _pools(found: Overview) -> Iterator[str]:
    """Which whole pools are better than greedy, and which are not."""
    if found.greedy is None:
        yield (
            'There is no greedy decoding to compare with: set anchors = "greedy,beam:4" in [baselines], or record it '
            "with the pools."
        )
        return
    groups: dict[int, list[tuple[Configuration, str]]] = {-1: [], 0: [], 1: []}
    for option, against in zip(found.options, found.against, strict=True):
        if option.rule.startswith("all ") and against:
            compared = against[found.judged.name]
            sign = direction(compared, lower_is_better=found.judged.lower_is_better)
            groups[sign].append((option, difference(compared, found.judged)))
    heads = {-1: "Worse than greedy", 0: "Not shown to be better than greedy", 1: "Better than greedy"}
    for sign, pools in groups.items():
        if len(pools) > MANY:
            yield f"{heads[sign]} with the whole pool (the table of all options has the numbers): {_grouped(pools)}."
        elif pools:
            yield f"{heads[sign]} with the whole pool: {'; '.join(f'{one.name} ({by})' for one, by in pools)}."


def _grouped(pools: Sequence[tuple[Configuration, str]]) -> str:
    """Samplings by reranker."""
    samplings: dict[str, list[str]] = {}
    for one, _ in pools:
        samplings.setdefault(one.reranker, []).append(one.sampling or "samples")
    return "; ".join(f"{reranker} ({' · '.join(names)})" for reranker, names in samplings.items())


def _choice(one: BestAtCost, found: Overview) -> str:
    option, judged = one.option, found.judged
    cost = f"{option.cost:.1f} candidates per segment" if option.cost != 1 else "1 candidate per segment"
    said = f"{option.name}, with {cost}{_seconds(option)}: {judged.heading} {number(one.value, judged)}"
    if one.greedy is not None:
        sign = direction(one.greedy, lower_is_better=judged.lower_is_better)
        said += f", against greedy {difference(one.greedy, judged)}{'; no difference shows' if sign == 0 else ''}"
    return f"{said}."


def _seconds(option: Configuration) -> str:
    seconds = option.live.seconds if option.live is not None else option.estimated
    if seconds is None:
        return ""
    shown = f"{seconds:.3f}" if seconds < 1 else f"{seconds:.1f}"
    return f" and {shown} s, {'measured live' if option.live is not None else 'estimated'}"


def choices_table(found: Overview) -> Table:
    """One row per limit of cost."""
    judged = found.judged
    columns = [
        Column("at_most", "Candidates, at most"),
        Column("use", "Use"),
        Column("quality", judged.heading, judged.decimals, judged.lower_is_better),
        Column("minus_greedy", "− greedy", judged.decimals, judged.lower_is_better, signed=True),
        Column("best_again_percent", "Best again, %", 0),
        *_cost_columns(),
    ]
    rows = []
    for one in found.choices:
        limit = "any" if math.isinf(one.limit) else f"{one.limit:.0f}"
        if one is found.choices[-1] and not math.isinf(one.limit):
            limit += ", or any"
        lead = [Cell(limit), Cell(one.option.name), Cell(one.value), _difference(one.greedy)]
        rows.append((*lead, Cell(100 * one.best_again), *_cost(one.option)))
    used, shown = columns_in_use(columns, rows)
    notes = (
        "The best by the first metric among all that cost no more. Best again: the share of resamples of the segments "
        "in which it is the best of these too; options that are equally good share it.",
        GREEDY_NOTE,
        COST_NOTE,
        SECONDS_NOTE,
    )
    return Table("choices", "The best at each cost", tuple(used), tuple(shown), notes)


def options_table(found: Overview) -> Table:
    """One row per option: greedy and beam searches first, then sampling by sampling."""
    columns = [Column("sampling", "Sampling"), Column("reranker", "Reranker"), Column("rule", "Rule")]
    for metric in found.metrics:
        columns += [
            Column(metric.name, metric.heading, metric.decimals, metric.lower_is_better),
            Column(f"{metric.name}_minus_greedy", "− greedy", metric.decimals, metric.lower_is_better, signed=True),
        ]
    columns += _cost_columns()
    rows = []
    for option, against in zip(found.options, found.against, strict=True):
        if option.in_table:
            cells = [Cell(option.sampling or None), Cell(option.reranker or None), Cell(option.rule)]
            for metric in found.metrics:
                mean = float(option.quality[metric.name].mean())
                cells += [Cell(mean), _difference(against.get(metric.name))]
            rows.append((*cells, *_cost(option)))
    used, shown = columns_in_use(columns, rows)
    title = "Greedy, beam search, and every sampling, reranker and rule"
    return Table("options", title, tuple(used), tuple(shown), (GREEDY_NOTE, COST_NOTE, SECONDS_NOTE))


def _cost_columns() -> list[Column]:
    return [
        Column("mean_n", "Samples", 1, lower_is_better=True),
        Column("candidates", "Candidates", 1, lower_is_better=True),
        Column("seconds_estimated", "Seconds", 4, lower_is_better=True, basis="estimated"),
        Column("seconds_live", "Seconds", 4, lower_is_better=True, basis="live"),
    ]


def _cost(option: Configuration) -> list[Cell]:
    live = option.live.seconds if option.live is not None else None
    return [Cell(option.size), Cell(option.cost), Cell(option.estimated), Cell(live)]


def _difference(compared: Comparison | None) -> Cell:
    return Cell(compared.difference, interval=compared.interval) if compared is not None else Cell(None)
