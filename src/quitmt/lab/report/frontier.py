"""The rows of the frontier: every rule at equal cost with a fixed size, and at equal quality with QUIT.

Thresholds are chosen on one half of the segments and judged on the other (``replay.frontier``). Paired intervals are of
all segments, on the same resamples for all rules of a reranker. They take the threshold whose mean size on all segments
is nearest the cost, because choosing a threshold by its cost, unlike by its quality, leaves little room for luck.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from quitmt.evaluate.equivalence import Comparison, Pair, compare
from quitmt.lab.frames import Floats, Ints, QualityScores, Trajectories
from quitmt.lab.replay import frontier
from quitmt.lab.replay import rules as replay
from quitmt.lab.replay.frontier import Curve, Halved, HeldOut, Losses, Versus
from quitmt.lab.results import Results


@dataclass(frozen=True, slots=True)
class Line:
    """A curve's means over all segments, as figures show it."""

    rule: str
    thresholds: Floats
    """[T]"""
    size: Floats
    """[T]"""
    lost: Mapping[str, Floats]
    """By measure, [T]"""
    quality: Mapping[str, Floats]
    """By metric, and ``rerank`` for the score on the whole pool, [T]"""

    def places(self, count: int) -> list[int]:
        """Some points, about evenly spaced in the logarithm of the mean size."""
        sizes = np.log(self.size)
        wanted = np.linspace(sizes.min(), sizes.max(), count)
        nearest = np.abs(sizes[:, None] - wanted).argmin(axis=0)
        return sorted(set(nearest.tolist()), key=lambda place: (self.size[place], place))


@dataclass(frozen=True, slots=True)
class CostRow:
    """A rule on the judging halves, beside a fixed size of exactly the same mean cost."""

    reranker: str
    rule: str
    threshold: float | None
    """On all segments; None for QUIT's windows, which have no threshold to choose."""
    cost: float | None
    """The mean size that the threshold was chosen for."""
    size: float
    lost: Mapping[str, Versus]
    """By measure."""
    paired: Mapping[str, Comparison]
    """By measure: the rule − Fixed-N*, on all segments."""


@dataclass(frozen=True, slots=True)
class QuitRow:
    """The cheapest rule that loses no more than QUIT on the choosing half, with its numbers on the judging half."""

    reranker: str
    rule: str
    quit: str
    size: Versus
    lost: Mapping[str, Versus]


@dataclass(frozen=True, slots=True)
class Frontier:
    """The frontiers of all rerankers."""

    measures: tuple[str, ...]
    """``regret``, and the keys of metrics."""
    lines: Mapping[str, tuple[Line, ...]]
    """By reranker: fixed sizes first, then rules with a threshold."""
    costs: tuple[CostRow, ...] = ()
    quits: tuple[QuitRow, ...] = ()
    curves: Mapping[str, tuple[Curve, ...]] = field(default_factory=dict)
    """By reranker, in the order of ``lines``."""


def frontier_of(results: Results, qualities: Mapping[str, QualityScores]) -> Frontier:
    """``qualities`` have the keys that tables use."""
    lines, curves, costs, quits = {}, {}, list[CostRow](), list[QuitRow]()
    for spec in results.trajectories:
        own = RerankerCurves(results, spec, qualities)
        lines[spec] = tuple(own.line(curve) for curve in own.curves)
        curves[spec] = tuple(own.curves)
        if len(own.curves) > 1 and len(own.trajectories.ids) > 1:
            costs += own.at_costs()
            quits += own.against_quit()
    return Frontier((frontier.REGRET, *qualities), lines, tuple(costs), tuple(quits), curves)


class RerankerCurves:
    """The curves of one reranker, on the same segments."""

    def __init__(self, results: Results, spec: str, qualities: Mapping[str, QualityScores]) -> None:
        study = results.study
        self.trajectories: Trajectories = results.trajectories[spec]
        self._study, self._qualities = study, qualities
        self._losses: Losses = frontier.losses(self.trajectories, qualities, study.model.budget)
        self.curves: list[Curve] = [frontier.fixed_curve(self._losses)]
        for name, rule in replay.fitting(study, self.trajectories, study.rules.beyond).items():
            signals = replay.signals(study, self.trajectories, rule)
            if signals is not None:
                self.curves.append(frontier.threshold_curve(name, rule, signals, self._losses))
        self._quits = [self._quit(w) for w in study.rules.alpha_windows]

    def line(self, curve: Curve) -> Line:
        rows = np.arange(curve.size.shape[1])
        # One threshold at a time: the winners of all of them would take as much memory as all losses.
        index = [self.trajectories.best[rows, size - 1] for size in curve.size]
        quality = {"rerank": np.array([self.trajectories.final[rows, one].mean() for one in index])}
        for name, own in self._qualities.items():
            quality[name] = np.array([own.values[rows, one].mean() for one in index])
        lost = {name: of.mean(axis=1, dtype=np.float64) for name, of in zip(self._measures, curve.lost, strict=True)}
        return Line(curve.rule, curve.thresholds, curve.size.mean(axis=1), lost, quality)

    def at_costs(self) -> list[CostRow]:
        """Every rule with a threshold at every cost below the budget, and QUIT's windows at their own cost."""
        study, (fixed, *others) = self._study, self.curves
        budget = study.model.budget
        below = [float(cost) for cost in study.rules.costs if cost < budget] or [budget / 4, budget / 2]
        wanted: list[tuple[Curve, float | None]] = [(curve, None) for curve in self._quits]
        wanted += [(curve, cost) for curve in others for cost in below]
        found = []
        for curve, cost in wanted:
            held = frontier.at_cost(self._halved[curve.rule], self._halved[fixed.rule], cost)
            if held is not None:
                found.append((curve, cost, held, _nearest(curve, cost)))
        paired = self._paired([curve.size[place] for curve, _, _, place in found])
        return [
            CostRow(
                self.trajectories.reranker,
                curve.rule,
                None if cost is None else float(curve.thresholds[place]),
                cost,
                float(held.size.mean()),
                self._lost(held),
                compared,
            )
            for (curve, cost, held, place), compared in zip(found, paired, strict=True)
        ]

    def against_quit(self) -> list[QuitRow]:
        """Every rule, fixed sizes last, against each of QUIT's windows."""
        found = []
        for curve in (*self.curves[1:], self.curves[0]):
            for rival in self._quits:
                held = frontier.at_quality(self._halved[curve.rule], self._halved[rival.rule])
                size = frontier.versus(held.size, held.rival_size)
                found.append(QuitRow(self.trajectories.reranker, curve.rule, rival.rule, size, self._lost(held)))
        return found

    @cached_property
    def _halved(self) -> dict[str, Halved]:
        """All curves on both halves of the same splits, by the rule's name."""
        rules, seed = self._study.rules, self._study.evaluate.seed
        split = frontier.halves(len(self.trajectories.ids), rules.splits, seed)
        return {curve.rule: Halved.of(curve, split) for curve in (*self.curves, *self._quits)}

    def _lost(self, held: HeldOut) -> dict[str, Versus]:
        pairs = zip(self._measures, held.lost, held.rival_lost, strict=True)
        return {name: frontier.versus(own, rival) for name, own, rival in pairs}

    @property
    def _measures(self) -> tuple[str, ...]:
        return tuple(self._losses.tables)

    def _quit(self, w: int) -> Curve:
        rules, budget = self._study.rules, self._study.model.budget
        rule = replay.quit_rule(self.trajectories, k=rules.k, w=w, alpha=rules.alpha, budget=budget)
        return frontier.single(rule.name, rule.size, self._losses, rules.alpha)

    def _paired(self, sizes: list[Ints]) -> list[dict[str, Comparison]]:
        """Rules that use these numbers of candidates − Fixed-N*, by each measure."""
        budget, evaluate = self._study.model.budget, self._study.evaluate
        pairs = []
        for size in sizes:
            rival = replay.matched_fixed(self.trajectories, float(size.mean()), budget)
            for base, other in zip(self._losses.at(rival.size), self._losses.at(size), strict=True):
                pairs.append(Pair(base.astype(np.float64), other.astype(np.float64), lower_is_better=True))
        found = iter(compare(pairs, resamples=evaluate.resamples, rng=evaluate.seed))
        return [{name: next(found) for name in self._measures} for _ in sizes]


def _nearest(curve: Curve, cost: float | None) -> int:
    return 0 if cost is None else int(np.abs(curve.size.mean(axis=1) - cost).argmin())
