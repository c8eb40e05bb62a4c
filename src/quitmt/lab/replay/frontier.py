"""All rules on one frontier: how much they lose at which cost, on segments that did not choose their thresholds.

Rules that differ only in their threshold form a *curve*, and so do fixed sizes. Losses are measured against the whole
pool's winner: *regret*, its score on the whole pool minus that of the rule's choice; and for each external metric the
difference between the two choices, in units of σ, the standard deviation of the winners' quality over segments.

A threshold that is chosen and judged on the same segments looks better than it is. So segments are split into random
halves many times: one half chooses, and the other judges, beside a rival on the same segments.

- A rule's decision on one segment does not depend on other segments, so a half's means are sums over its segments, and
  all splits at once are the product of two matrices, one of them of 0 and 1.
- The rival at equal cost is the fixed size with exactly the same mean: N for some segments and N + 1 for the others, in
  expectation over which segments get more, which means linear between whole sizes.
- Halves of different splits share segments. So the spread over splits shows how much depends on the split; it is not a
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
"""Half the memory, and still more digits than a mean over segments has."""
Halves = npt.NDArray[np.bool_]
"""[splits, segments]: True for the segments that choose; the others judge."""

REGRET = "regret"
FIXED = "Fixed N"
GRID = 160
"""Thresholds of a curve: neighbours differ by few candidates."""
RANGE = (5.0, 95.0)
"""Percentiles over splits."""
REACHED = 0.1
"""The nearest threshold counts as one of a cost if its mean differs from the cost by at most this share of it."""


@dataclass(frozen=True, slots=True)
class Losses:
    """The loss of the winner among the first n candidates by each measure: ``regret``, and one per metric."""

    sizes: Ints
    """[S]: the number of candidates in each pool, up to the budget."""
    tables: Mapping[str, Singles]
    """By measure, [S, N]; 0 where a pool ends before n."""

    def at(self, sizes: npt.NDArray[np.integer]) -> Singles:
        """[measures, …, S]: the losses of rules that use these numbers of candidates, [..., S]."""
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
    """The means of a curve over one half of the segments, one column per split."""

    size: Floats
    """[T, R]"""
    lost: Floats
    """[measures, T, R]"""


@dataclass(frozen=True, slots=True)
class Halved:
    """A curve on both halves of every split."""

    rule: str
    choosing: Means
    judging: Means

    @classmethod
    def of(cls, curve: Curve, split: Halves) -> Halved:
        return cls(curve.rule, means(curve, split), means(curve, ~split))


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A rule and its rival on the judging halves, one entry per split."""

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
    """The 5th and 95th percentile of the ratio over all splits; None where there is no ratio."""
    better: float
    """The share of splits in which the rule's number is smaller."""

    @property
    def ratio(self) -> float | None:
        """None if the rival is 0, or is 0 in nearly all splits in which the rule's value is not."""
        return self.value / self.rival if self.span is not None else None


def losses(one: Trajectories, qualities: Mapping[str, QualityScores], budget: int) -> Losses:
    """The regret, and the loss by each of these metrics."""
    sizes = np.minimum(one.sizes, budget)
    rows = np.arange(len(sizes))
    best = one.best[:, : int(sizes.max())]
    winners = best[rows, sizes - 1]
    regret = one.final[rows, winners][:, None] - np.take_along_axis(one.final, best, axis=1)
    tables = {REGRET: regret.astype(np.float32)}
    for name, quality in qualities.items():
        of_winners = quality.values[rows, winners]
        sigma = float(of_winners.std(ddof=0)) or 1.0  # if all are equal, the metric's own unit has to do
        difference = np.abs(np.take_along_axis(quality.values, best, axis=1) - of_winners[:, None]) / sigma
        tables[name] = difference.astype(np.float32)
    return Losses(sizes, tables)


def fixed_curve(losses: Losses) -> Curve:
    """Every size, for every segment."""
    counts = np.arange(1, int(losses.sizes.max()) + 1)
    size = np.minimum(counts[:, None], losses.sizes).astype(np.int32)
    # The transposed tables: where a pool has ended, they repeat its last winner.
    return Curve(FIXED, counts.astype(np.float64), size, np.stack([table.T for table in losses.tables.values()]))


def threshold_curve(spec: str, rule: Threshold, signals: Sequence[Floats], losses: Losses, count: int = GRID) -> Curve:
    """A rule at every threshold that makes a difference, the most careful one first."""
    thresholds = grid(signals, count)
    size = stopping_sizes(rule, thresholds, signals, losses.sizes)
    return Curve(spec, thresholds, size.astype(np.int32), losses.at(size))


def single(name: str, size: Ints, losses: Losses, threshold: float = np.nan) -> Curve:
    """One rule without a choice of thresholds, as a curve of one point."""
    return Curve(name, np.array([threshold]), size[None].astype(np.int32), losses.at(size[None]))


def grid(signals: Sequence[Floats], count: int = GRID) -> Floats:
    """−∞, which never stops, and quantiles of the lowest signal so far, at each look of each segment.

    There are equally many looks per doubling of the pool, so mean sizes are spaced about evenly on a logarithmic scale.
    Thresholds below 0 are left out, because rules do not take them. Signals say nothing about losses, so no information
    leaks from the judging half.
    """
    never = np.array([-np.inf])
    lowest = np.concatenate([np.minimum.accumulate(one) for one in signals]) if len(signals) else never
    decide = lowest[np.isfinite(lowest)]
    if not len(decide):
        return never
    return np.concatenate((never, np.unique(np.maximum(np.quantile(decide, np.linspace(0, 1, count)), 0.0))))


def halves(segments: int, splits: int, seed: int) -> Halves:
    """Random halves; with an odd number of segments the judging half has one more."""
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


def at_cost(curve: Halved, fixed: Halved, cost: float | None = None) -> HeldOut | None:
    """The threshold whose mean size is nearest a cost, beside the fixed size with the same mean; None if no threshold
    comes near. Without a cost the curve's first rule is taken."""
    chosen = np.zeros(curve.choosing.size.shape[1], np.int64)
    if cost is not None:
        chosen = np.abs(curve.choosing.size - cost).argmin(axis=0)
        reached = _chosen(curve.choosing.size, chosen).mean()
        if abs(reached - cost) > REACHED * cost:
            return None
    size, lost = _chosen(curve.judging.size, chosen), _chosen(curve.judging.lost, chosen)
    rival = np.empty_like(lost)
    for split, own in enumerate(size):
        for measure, of_fixed in enumerate(fixed.judging.lost):
            rival[measure, split] = np.interp(own, fixed.judging.size[:, split], of_fixed[:, split])
    return HeldOut(size, lost, size, rival)


def at_quality(curve: Halved, rival: Halved) -> HeldOut:
    """The cheapest threshold that loses no more than a rival by any measure, beside that rival, a curve of one point.

    There is always one: the whole pool loses nothing.
    """
    kept = (curve.choosing.lost <= rival.choosing.lost).all(axis=0)
    chosen = np.where(kept, curve.choosing.size, np.inf).argmin(axis=0)
    return HeldOut(
        _chosen(curve.judging.size, chosen),
        _chosen(curve.judging.lost, chosen),
        rival.judging.size[0],
        rival.judging.lost[:, 0],
    )


def versus(value: Floats, rival: Floats) -> Versus:
    """Compare over splits. The ratio is of means.

    Where the rival is 0, a split's ratio is infinite if the rule's value is not 0, and 1 if it is. So the upper end of
    the span may be infinite; if the lower end is infinite too, there is no ratio.
    """
    span = None
    if rival.mean() > 0:
        ratios = np.where(value > 0, np.inf, 1.0)
        np.divide(value, rival, out=ratios, where=rival > 0)
        # Linear interpolation is impossible between infinities.
        method: Literal["linear", "nearest"] = "linear" if np.isfinite(ratios).all() else "nearest"
        low, high = np.percentile(ratios, RANGE, method=method).tolist()
        span = (low, high) if np.isfinite(low) else None
    return Versus(float(value.mean()), float(rival.mean()), span, float((value < rival).mean()))


def _chosen(found: Floats, chosen: Ints) -> Floats:
    """[…, R]: the chosen entry of each split, out of [… , T, R]."""
    return np.asarray(found[..., chosen, np.arange(len(chosen))])
