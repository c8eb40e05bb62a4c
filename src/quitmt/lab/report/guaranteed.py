"""What a study proves about quality: the cheapest rule that is equivalent to its own whole pool, and the cheapest
configuration of all, greedy and beam searches among them, that is not worse than the whole pool of ``[model]``.

The same chains and tests as in ``calibrate/quality.py``: thresholds and their order are known before any data, and all
chains that a choice is made from share the error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from quitmt.calibrate import families, quality
from quitmt.calibrate.families import Family
from quitmt.calibrate.quality import SAVES, QualityRequest
from quitmt.calibrate.winners import JudgedRules
from quitmt.evaluate.equivalence import LEAST
from quitmt.lab.frames import Floats, Trajectories
from quitmt.lab.replay import beyond
from quitmt.lab.report.options import Way, way_of
from quitmt.lab.report.tables import Cell, Column, Table, columns_in_use
from quitmt.lab.results import Results
from quitmt.lab.rows import MetricColumn

MARGIN = 0.02


@dataclass(frozen=True, slots=True)
class Chain:
    """Rules from careful to cheap, as ways to translate."""

    ways: Sequence[Way]

    def judged(self, metric: MetricColumn) -> Floats:
        """[rules, segments], the higher the better."""
        values = np.stack([way.quality[metric.name] for way in self.ways])
        return -values if metric.lower_is_better else values


@dataclass(frozen=True, slots=True)
class Proven:
    """The answer to one question, by all metrics."""

    base: Way
    not_worse: bool
    segments: int
    chosen: Way | None
    """The cheapest that is proven, if it saves something."""
    nearest: tuple[Way, int] | None
    """What could be proven with more segments, and about how many."""
    differences: Mapping[str, float]
    """Of the chosen one, by metric: in σ, positive where it is better."""


def proofs(arms: Sequence[Results], options: Sequence[Way], metrics: Sequence[MetricColumn]) -> list[Proven]:
    """Reranker by reranker: each sampling by itself, then everything against the first sampling's whole pool."""
    if not metrics:
        return []
    alone = [Chain([one]) for one in options if one.is_baseline]
    found = []
    for spec in arms[0].trajectories:
        chains = [_chains(arm, spec) for arm in arms]
        bases = [next(one for one in options if _is_whole(one, arm, spec)) for arm in arms]
        found += [
            cheapest_proven(base, own, metrics, QualityRequest(MARGIN)) for base, own in zip(bases, chains, strict=True)
        ]
        everything = [*alone, *(chain for own in chains for chain in own)]
        found.append(cheapest_proven(bases[0], everything, metrics, QualityRequest(MARGIN, not_worse=True)))
    return found


def _is_whole(one: Way, arm: Results, spec: str) -> bool:
    return (one.sampling, one.reranker, one.rule) == (arm.name, spec, f"all {arm.study.model.budget}")


def _chains(results: Results, spec: str) -> list[Chain]:
    study, one = results.study, results.trajectories[spec]
    sizes = np.minimum(one.sizes, study.model.budget)
    found = [families.fixed(study.rules.k, study.model.budget, sizes)]
    request = QualityRequest(MARGIN, step=study.rules.k, budget=study.model.budget, rules=("fixed",))
    for name, rule in beyond.fitting(study, spec, study.rules.beyond).items():
        signals = beyond.signals(study, one, rule)
        if signals is not None:
            found.append(families.threshold(name, rule, request.thresholds(rule), signals, sizes))
    return [_chain(results, one, family) for family in found]


def _chain(results: Results, one: Trajectories, family: Family) -> Chain:
    """Neighbours that use the same candidates everywhere are one rule."""
    kept = [0, *(1 + np.flatnonzero((np.diff(family.sizes, axis=0) != 0).any(axis=1)))]
    return Chain([way_of(results, one, family.specs[place], family.sizes[place]) for place in kept])


def cheapest_proven(
    base: Way, chains: Sequence[Chain], metrics: Sequence[MetricColumn], request: QualityRequest
) -> Proven:
    """The cheapest way of all chains that is proven to be as good as ``base`` by all metrics."""
    request = replace(request, rules=("fixed",) * len(chains))  # as many chains share the error
    judged = []
    for metric in metrics:
        whole = base.quality[metric.name]
        own = tuple(chain.judged(metric) for chain in chains)
        judged.append(JudgedRules(metric.name, "", -whole if metric.lower_is_better else whole, own))
    scored = np.logical_and.reduce(
        [np.isfinite(one.whole) & np.isfinite(np.concatenate(one.chosen)).all(axis=0) for one in judged]
    )
    judged = [
        JudgedRules(one.metric, "", one.whole[scored], tuple(own[:, scored] for own in one.chosen)) for one in judged
    ]
    segments = int(scored.sum())
    if not segments or any(one.whole.std() == 0 for one in judged):
        return Proven(base, request.not_worse, segments, None, None, {})
    tested = quality.tested(judged, [None] * len(judged), request)
    saving = [
        (way, place, rule)
        for place, chain in enumerate(chains)
        for rule, way in enumerate(chain.ways)
        if way.cost <= SAVES * base.cost
    ]
    passed = [one for one in saving if one[2] < tested[one[1]].passed and segments >= LEAST]
    chosen = min(passed, key=lambda one: one[0].cost, default=None)
    known = [(way, int(max(LEAST, tested[place].needed[rule]))) for way, place, rule in saving
             if math.isfinite(tested[place].needed[rule]) and way.cost <= base.cost / 2]  # fmt: skip
    nearest = min(known, key=lambda one: (one[1], one[0].cost), default=None)
    differences = {name: float(of[chosen[2]]) for name, of in tested[chosen[1]].differences.items()} if chosen else {}
    return Proven(base, request.not_worse, segments, chosen[0] if chosen else None, nearest, differences)


def sentences(found: Sequence[Proven]) -> Iterator[str]:
    """The last question of each reranker: what to use in place of its whole pool."""
    for one in found:
        if not one.not_worse:
            continue
        told = f"the whole pool ({one.base.name}) by more than {MARGIN:g}σ, with 95% confidence"
        if one.chosen is not None:
            cost = f"{one.chosen.cost:.1f} of {one.base.cost:.0f} candidates per segment"
            yield f"Cheapest that is proven not to be worse than {told}: {one.chosen.name}, with {cost}{_faster(one)}."
        else:
            yield f"Nothing cheaper is proven not to be worse than {told}{_would_take(one)}."


def _faster(one: Proven) -> str:
    assert one.chosen is not None
    if not one.chosen.estimated or not one.base.estimated:
        return ""
    return f", {one.base.estimated / one.chosen.estimated:.1f} times as fast (estimated)"


def _would_take(one: Proven) -> str:
    if one.nearest is None:
        return ""
    way, needed = one.nearest
    return f": {one.segments} segments are too few; {way.name} would take about {needed:,}"


def table(found: Sequence[Proven], metrics: Sequence[MetricColumn]) -> Table:
    columns = [
        Column("whole_pool", "In place of"),
        Column("guarantee", "Guarantee"),
        Column("use", "Use"),
        Column("candidates", "Candidates", 1, lower_is_better=True),
        *(Column(f"{metric.name}_sd", f"{metric.heading}, σ", 4, signed=True) for metric in metrics),
        Column("speedup_estimated", "Speedup, ×", 1, basis="estimated"),
        Column("segments_needed", "Segments it would take", 0),
    ]
    rows = []
    for one in found:
        use, guarantee = one.chosen, f"{'not worse' if one.not_worse else 'equivalent'} within {MARGIN:g}σ"
        times = one.base.estimated / use.estimated if use and use.estimated and one.base.estimated else None
        lead = [Cell(one.base.name), Cell(guarantee), Cell(use.name if use else "nothing proven")]
        differences = [Cell(one.differences.get(metric.name)) for metric in metrics]
        needed = Cell(one.nearest[1] if one.nearest and use is None else None)
        rows.append((*lead, Cell(use.cost if use else None), *differences, Cell(times), needed))
    used, shown = columns_in_use(columns, rows)
    notes = (
        "The cheapest that is proven, with 95% confidence by all metrics together: rules are tested from careful to "
        "cheap until one fails (TOST), and all kinds of rules share the error. Equivalent: among the rules of the same "
        "sampling. Not worse: among everything, greedy and beam searches too. Speedup: over the whole pool.",
    )
    return Table("guarantees", "What is proven to be as good as the whole pool", tuple(used), tuple(shown), notes)
