"""All rules on one frontier: what they lose at which cost, on segments that their thresholds were not chosen on.

Rules that differ in their threshold alone are a *curve*, and so are fixed sizes. What is lost is against the whole
pool's winner: *regret*, its score on the whole pool less that of the rule's choice; and for each external metric how
far the two choices are apart, in units of σ, the standard deviation of the winners' quality over segments.

A threshold that is chosen and judged on the same segments looks better than it is. So segments are split into random
halves, many times: one half chooses, the other judges, beside a rival on the very same segments.

- What a rule does on one segment does not depend on the others, so a half's means are sums over its segments, and all
  splits at once are the product of two matrices, one of them of 0 and 1.
- The rival at equal cost is the fixed size of exactly the same mean: N for some segments and N + 1 for the others, in
  expectation over who they are, that is linear between whole sizes.
- Halves of different splits share segments: the spread over splits says how much depends on the split, and is no
  confidence interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from quitmt.calibrate.families import stopping_sizes
from quitmt.lab.frames import Floats, Ints, QualityScores, Trajectories
from quitmt.stop.threshold import Threshold

Singles = npt.NDArray[np.float32]
"""Half the memory, and more digits than a mean over segments has."""
Halves = npt.NDArray[np.bool_]
"""[splits, segments]: who chooses; the others judge."""

REGRET = "regret"
GRID = 160
"""Thresholds of a curve: neighbours differ by few candidates."""
RANGE = (5.0, 95.0)
"""Percentiles over splits."""
REACHED = 0.1
"""How far from a cost, as a share of it, the nearest threshold may be to count as one of that cost."""


@dataclass(frozen=True, slots=True)
class Losses:
    """What the winner among the first n candidates loses, by each measure: ``regret``, and one a metric."""

    sizes: Ints
    """[S]: how many candidates each pool has, up to the budget."""
    tables: Mapping[str, Singles]
    """By measure, [S, N]; nothing where a pool ends before n."""

    def at(self, sizes: npt.NDArray[np.integer]) -> Singles:
        """[measures, …, S]: of rules that use these many candidates, [..., S]."""
        rows = np.arange(len(self.sizes))
        return np.stack([table[rows, sizes - 1] for table in self.tables.values()])


@dataclass(frozen=True, slots=True)
class Curve:
    """Rules of one kind on all segments."""

    rule: str
    thresholds: Floats
    """[T]; of fixed sizes, the sizes."""
    size: npt.NDArray[np.int32]
    """[T, S]: candidates used."""
    lost: Singles
    """[measures, T, S]"""


@dataclass(frozen=True, slots=True)
class Means:
    """Of a curve over one half of the segments, a column a split."""

    size: Floats
    """[T, R]"""
    lost: Floats
    """[measures, T, R]"""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A rule and its rival on the judging halves, an entry a split."""

    size: Floats
    lost: Floats
    """[measures, R]"""
    rival_size: Floats
    rival_lost: Floats


@dataclass(frozen=True, slots=True)
class Versus:
    """One number of a rule beside its rival's: means over splits."""

    value: float
    rival: float
    span: tuple[float, float] | None
    """Of the ratio: its 5th and 95th percentile over all splits; nothing where there is no ratio."""
    better: float
    """The share of splits in which the rule's is smaller."""

    @property
    def ratio(self) -> float | None:
        """Nothing if the rival is 0, or is so in nearly all splits in which the rule's value is not."""
        return self.value / self.rival if self.span is not None else None


def losses(one: Trajectories, qualities: Mapping[str, QualityScores], budget: int) -> Losses:
    """By regret, and by each of these metrics."""
    sizes = np.minimum(one.sizes, budget)
    rows = np.arange(len(sizes))
    best = one.best[:, : int(sizes.max())]
    tables = {REGRET: _regret(one.final, best, sizes)}
    for name, quality in qualities.items():
        of_winners = quality.values[rows, best[rows, sizes - 1]]
        sigma = float(of_winners.std(ddof=0)) or 1.0  # all alike: there is no unit, and the metric's own will do
        apart = np.abs(np.take_along_axis(quality.values, best, axis=1) - of_winners[:, None]) / sigma
        tables[name] = apart.astype(np.float32)
    return Losses(sizes, tables)


def _regret(final: Floats, best: Ints, sizes: Ints) -> Singles:
    rows = np.arange(len(sizes))
    winners = final[rows, best[rows, sizes - 1]]
    return (winners[:, None] - np.take_along_axis(final, best, axis=1)).astype(np.float32)


def fixed_curve(losses: Losses, name: str = "Fixed N") -> Curve:
    """Every size, for every segment."""
    counts = np.arange(1, int(losses.sizes.max()) + 1)
    size = np.minimum(counts[:, None], losses.sizes).astype(np.int32)
    # The tables themselves, turned: where a pool has ended, they have its last winner.
    return Curve(name, counts.astype(np.float64), size, np.stack([table.T for table in losses.tables.values()]))


def threshold_curve(spec: str, rule: Threshold, signals: Sequence[Floats], losses: Losses, count: int = GRID) -> Curve:
    """A rule at every threshold that makes a difference, the most careful one first."""
    thresholds = grid(signals, count)
    size = stopping_sizes(rule, thresholds, signals, losses.sizes)
    return Curve(spec, thresholds, size.astype(np.int32), losses.at(size))


def single(name: str, size: Ints, losses: Losses, threshold: float = np.nan) -> Curve:
    """One rule that has no threshold to choose, as a curve of one point."""
    return Curve(name, np.array([threshold]), size[None].astype(np.int32), losses.at(size[None]))


def grid(signals: Sequence[Floats], count: int = GRID) -> Floats:
    """−∞, which never stops, and quantiles of what decides: the lowest signal so far, at each look of each segment.

    Looks are as many for each doubling of the pool, so mean sizes come out about evenly spaced on a logarithmic scale.
    Thresholds below 0 are none that a rule takes. Signals know nothing of what is lost, so nothing leaks from the half
    that judges.
    """
    never = np.array([-np.inf])
    lowest = np.concatenate([np.minimum.accumulate(one) for one in signals]) if len(signals) else never
    decide = lowest[np.isfinite(lowest)]
    if not len(decide):
        return never
    return np.concatenate((never, np.unique(np.maximum(np.quantile(decide, np.linspace(0, 1, count)), 0.0))))


def halves(segments: int, splits: int, seed: int) -> Halves:
    """Random halves; of an odd number of segments the judging half has one more."""
    choosing = np.zeros((splits, segments), np.bool_)
    choosing[:, : segments // 2] = True
    return np.asarray(np.random.default_rng(seed).permuted(choosing, axis=1))


def means(curve: Curve, half: Halves) -> Means:
    weights = half.T.astype(np.float32)
    count = half.sum(axis=1)
    return Means(
        (curve.size.astype(np.float32) @ weights).astype(np.float64) / count,
        np.stack([(own @ weights).astype(np.float64) / count for own in curve.lost]),
    )


@dataclass(frozen=True, slots=True)
class Halved:
    """A curve on both halves of every split."""

    rule: str
    choosing: Means
    judging: Means

    @classmethod
    def of(cls, curve: Curve, split: Halves) -> Halved:
        return cls(curve.rule, means(curve, split), means(curve, ~split))


def at_cost(curve: Halved, fixed: Halved, cost: float | None = None) -> HeldOut | None:
    """The threshold whose mean size is nearest a cost, beside the fixed size of the same mean; nothing if no threshold
    comes near. Without a cost the curve's first rule is taken as it is."""
    chosen = np.zeros(curve.choosing.size.shape[1], np.int64)
    if cost is not None:
        chosen = np.abs(curve.choosing.size - cost).argmin(axis=0)
        reached = _taken(curve.choosing.size, chosen).mean()
        if abs(reached - cost) > REACHED * cost:
            return None
    size, lost = _taken(curve.judging.size, chosen), _taken(curve.judging.lost, chosen)
    rival = np.empty_like(lost)
    for split, own in enumerate(size):
        for measure, of_fixed in enumerate(fixed.judging.lost):
            rival[measure, split] = np.interp(own, fixed.judging.size[:, split], of_fixed[:, split])
    return HeldOut(size, lost, size, rival)


def at_quality(curve: Halved, rival: Halved) -> HeldOut:
    """The cheapest threshold that loses no more than a rival by any measure, beside that rival, a curve of one point.

    There always is one: the whole pool loses nothing.
    """
    kept = (curve.choosing.lost <= rival.choosing.lost).all(axis=0)
    chosen = np.where(kept, curve.choosing.size, np.inf).argmin(axis=0)
    return HeldOut(
        _taken(curve.judging.size, chosen),
        _taken(curve.judging.lost, chosen),
        rival.judging.size[0],
        rival.judging.lost[:, 0],
    )


def versus(value: Floats, rival: Floats) -> Versus:
    """Over splits.

    Both the ratio, which is of means, and its span are of all splits. Where the rival is 0, a split's ratio is infinite
    if the rule's value is not 0, and 1 if it is: they are equal. So the upper end of the span may be infinite; if the
    lower one is too, there is no ratio.
    """
    span = None
    if rival.mean() > 0:
        ratios = np.where(value > 0, np.inf, 1.0)
        np.divide(value, rival, out=ratios, where=rival > 0)
        # One cannot interpolate between infinities.
        method: Literal["linear", "nearest"] = "linear" if np.isfinite(ratios).all() else "nearest"
        low, high = np.percentile(ratios, RANGE, method=method).tolist()
        span = (low, high) if np.isfinite(low) else None
    return Versus(float(value.mean()), float(rival.mean()), span, float((value < rival).mean()))


def _taken(found: Floats, chosen: Ints) -> Floats:
    """[…, R]: of [… , T, R], the chosen one of each split."""
    return np.asarray(found[..., chosen, np.arange(len(chosen))])
