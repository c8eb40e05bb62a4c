"""Guarantees about quality from a study: the cheapest rule that is equivalent to its own whole pool, and the cheapest
option of all, including greedy and beam searches, that is not worse than the whole pool of ``[model]``.

The chains and tests are those of ``calibrate/quality.py``: thresholds and their order are fixed before any data are
seen, and all chains that a choice is made from share the error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from quitmt.calibrate import families, quality
from quitmt.calibrate.quality import SAVES, QualityRequest
from quitmt.calibrate.winners import JudgedRules
from quitmt.evaluate.equivalence import LEAST
from quitmt.lab.replay import rules as replay
from quitmt.lab.report.configurations import Configuration, configuration_of
from quitmt.lab.report.formats import Cell, Column, Table, columns_in_use
from quitmt.lab.results import Results
from quitmt.lab.rows import MetricColumn

MARGIN = 0.02

Chain = Sequence[Configuration]
"""Rules from careful to cheap."""


@dataclass(frozen=True, slots=True)
class Proven:
    """The answer to one question, by all metrics."""

    base: Configuration
    not_worse: bool
    segments: int
    chosen: Configuration | None
    """The cheapest that is proven, if it saves something."""
    nearest: tuple[Configuration, int] | None
    """What could be proven with more segments, and with about how many."""
    differences: Mapping[str, float]
    """For the chosen one, by metric: in σ, positive where it is better."""


def proofs(arms: Sequence[Results], options: Sequence[Configuration], metrics: Sequence[MetricColumn]) -> list[Proven]:
    """For each reranker: each sampling by itself, then everything against the first sampling's whole pool."""
    if not metrics:
        return []
    baselines = [[one] for one in options if one.is_baseline]
    found = []
    for spec in arms[0].trajectories:
        chains = [_chains(arm, spec) for arm in arms]
        bases = [next(one for one in options if _is_whole(one, arm, spec)) for arm in arms]
        for base, own in zip(bases, chains, strict=True):
            found.append(cheapest_proven(base, own, metrics, QualityRequest(MARGIN)))
        everything = [*baselines, *(chain for own in chains for chain in own)]
        found.append(cheapest_proven(bases[0], everything, metrics, QualityRequest(MARGIN, not_worse=True)))
    return found


def _is_whole(one: Configuration, arm: Results, spec: str) -> bool:
    return (one.sampling, one.reranker, one.rule) == (arm.name, spec, f"all {arm.study.model.budget}")


def _chains(results: Results, spec: str) -> list[Chain]:
    """One chain per kind of rule. Neighbours that use the same candidates everywhere count as one rule."""
    study, one = results.study, results.trajectories[spec]
    sizes = np.minimum(one.sizes, study.model.budget)
    found = [families.fixed(study.rules.k, study.model.budget, sizes)]
    request = QualityRequest(MARGIN, step=study.rules.k, budget=study.model.budget, rules=("fixed",))
    for name, rule in replay.fitting(study, one, study.rules.beyond).items():
        signals = replay.signals(study, one, rule)
        if signals is not None:
            found.append(families.threshold(name, rule, request.thresholds(rule), signals, sizes))
    chains = list[Chain]()
    for family in found:
        kept = [0, *(1 + np.flatnonzero((np.diff(family.sizes, axis=0) != 0).any(axis=1)))]
        chains.append([configuration_of(results, one, family.specs[place], family.sizes[place]) for place in kept])
    return chains


def cheapest_proven(
    base: Configuration, chains: Sequence[Chain], metrics: Sequence[MetricColumn], request: QualityRequest
) -> Proven:
    """The cheapest configuration of all chains that is proven to be as good as ``base`` by all metrics."""
    request = replace(request, rules=("fixed",) * len(chains))  # all chains share the error
    judged = [_judged(base, chains, metric) for metric in metrics]
    scored = np.logical_and.reduce(
        [np.isfinite(one.whole) & np.isfinite(np.concatenate(one.chosen)).all(axis=0) for one in judged]
    )
    judged = [one.of_segments(scored) for one in judged]
    segments = int(scored.sum())
    if not segments or any(one.whole.std() == 0 for one in judged):
        return Proven(base, request.not_worse, segments, None, None, {})
    tested = quality.tested(judged, request)
    saving = [
        (one, tested[place], rule)
        for place, chain in enumerate(chains)
        for rule, one in enumerate(chain)
        if one.cost <= SAVES * base.cost
    ]
    passed = [each for each in saving if each[2] < each[1].passed and segments >= LEAST]
    chosen = min(passed, key=lambda each: each[0].cost, default=None)
    reachable = [
        (one, int(max(LEAST, test.needed[rule])))
        for one, test, rule in saving
        if math.isfinite(test.needed[rule]) and one.cost <= base.cost / 2
    ]
    nearest = min(reachable, key=lambda each: (each[1], each[0].cost), default=None)
    if chosen is None:
        return Proven(base, request.not_worse, segments, None, nearest, {})
    differences = {name: float(of[chosen[2]]) for name, of in chosen[1].differences.items()}
    return Proven(base, request.not_worse, segments, chosen[0], nearest, differences)


def _judged(base: Configuration, chains: Sequence[Chain], metric: MetricColumn) -> JudgedRules:
    """All chains by one metric; the higher the better."""
    sign = -1 if metric.lower_is_better else 1
    chosen = tuple(sign * np.stack([one.quality[metric.name] for one in chain]) for chain in chains)
    return JudgedRules(metric.name, "", sign * base.quality[metric.name], chosen)


def sentences(found: Sequence[Proven]) -> Iterator[str]:
    """The last question of each reranker: what to use instead of its whole pool."""
    for one in found:
        if not one.not_worse:
            continue
        claim = f"the whole pool ({one.base.name}) by more than {MARGIN:g}σ, with 95% confidence"
        if one.chosen is None:
            yield f"No cheaper option is proven not to be worse than {claim}{_needs(one)}."
            continue
        cost = f"{one.chosen.cost:.1f} of {one.base.cost:.0f} candidates per segment"
        speedup = _speedup(one)
        faster = f", {speedup:.1f} times as fast (estimated)" if speedup else ""
        yield f"Cheapest option that is proven not to be worse than {claim}: {one.chosen.name}, with {cost}{faster}."


def _speedup(one: Proven) -> float | None:
    if one.chosen is None or not one.chosen.estimated or not one.base.estimated:
        return None
    return one.base.estimated / one.chosen.estimated


def _needs(one: Proven) -> str:
    if one.nearest is None:
        return ""
    nearest, needed = one.nearest
    return f": {one.segments} segments are too few; {nearest.name} would need about {needed:,}"


def table(found: Sequence[Proven], metrics: Sequence[MetricColumn]) -> Table:
    columns = [
        Column("whole_pool", "Instead of"),
        Column("guarantee", "Guarantee"),
        Column("use", "Use"),
        Column("candidates", "Candidates", 1, lower_is_better=True),
        *(Column(f"{metric.name}_sd", f"{metric.heading}, σ", 4, signed=True) for metric in metrics),
        Column("speedup_estimated", "Speedup, ×", 1, basis="estimated"),
        Column("segments_needed", "Segments needed", 0),
    ]
    rows = []
    for one in found:
        use, guarantee = one.chosen, f"{'not worse' if one.not_worse else 'equivalent'} within {MARGIN:g}σ"
        lead = [Cell(one.base.name), Cell(guarantee), Cell(use.name if use else "nothing proven")]
        differences = [Cell(one.differences.get(metric.name)) for metric in metrics]
        needed = Cell(one.nearest[1] if one.nearest and use is None else None)
        rows.append((*lead, Cell(use.cost if use else None), *differences, Cell(_speedup(one)), needed))
    used, shown = columns_in_use(columns, rows)
    notes = (
        "The cheapest option that is proven, with 95% confidence by all metrics together. Rules are tested from "
        "careful to cheap until one fails (TOST), and all kinds of rules share the error. Equivalent: among the rules "
        "of the same sampling. Not worse: among all options, including greedy and beam searches. Speedup: over the "
        "whole pool.",
    )
    return Table("guarantees", "What is proven to be as good as the whole pool", tuple(used), tuple(shown), notes)
