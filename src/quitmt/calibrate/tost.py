"""Whether a rule's mean quality is equivalent to the whole pool's, tested for many rules at once.

d is a segment's difference in quality, rule − whole pool, positive where the rule is better. σ is the standard
deviation of the whole pool's quality over segments. A rule is *not worse* if E d > −mσ, and *equivalent* if E d < mσ
as well. A claim is accepted only if a test rejects its opposite. Both tests of an equivalence (TOST) must reject, and
so must the tests by all metrics, so the largest p-value counts without a correction (an intersection-union test).

The test assumes that the mean difference is about normal. It is Student's t of d ± mσ̂, where σ̂ is estimated from the
same segments. A segment's contribution to σ̂ (its influence, m·(σ̂ + ((q − q̄)² − σ̂²)/2σ̂)) is part of the sum, so the
error of σ̂ counts. A rule that never differed from the whole pool would be proven to be within any margin, however few
the segments. So we add one imagined segment on which the rule is on the wrong side by as much as rules differ where
they do (the root mean square over all rules of the kind). Rare disasters that are far larger break the test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from quitmt.calibrate.observe import Floats

ASSUMPTION = "the mean difference is about normal"


@dataclass(frozen=True, slots=True)
class QualityMargin:
    """The claim to be shown by one metric."""

    sds: float
    """m"""
    both: bool = True
    """True for "equivalent", False for "not worse"."""

    def sides(self, differences: Floats) -> list[Floats]:
        """The differences whose mean must be shown to be above −mσ."""
        return [differences, -differences] if self.both else [differences]


def p_values(differences: Floats, whole: Floats, margin: QualityMargin) -> Floats:
    """[rules], from differences [rules, segments] and the whole pool's quality [segments]."""
    typical = _typical(differences)
    found = [_p_values(side, whole, margin, typical) for side in margin.sides(differences)]
    return np.asarray(np.maximum.reduce(found))


def segments_needed(differences: Floats, whole: Floats, margin: QualityMargin, error: float) -> Floats:
    """[rules]: about how many segments like these the proof needs at that error; infinite if these break the claim."""
    typical = _typical(differences)
    found = [_needed(side, whole, margin, error, typical) for side in margin.sides(differences)]
    return np.asarray(np.maximum.reduce(found))


def _typical(differences: Floats) -> float:
    """The root mean square of the differences that are not 0."""
    there = differences[differences != 0]
    return float(np.sqrt(np.mean(there**2))) if len(there) else 0.0


def _p_values(side: Floats, whole: Floats, margin: QualityMargin, typical: float) -> Floats:
    segments = side.shape[1]
    if segments < 2:
        return np.ones(len(side))
    imagined = np.full((len(side), 1), margin.sds * float(whole.std(ddof=0)) - typical)
    summed = np.concatenate([side + margin.sds * _influence(whole), imagined], axis=1)
    means, errors = summed.mean(axis=1), summed.std(axis=1, ddof=1) / math.sqrt(segments + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(errors > 0, means / errors, np.where(means > 0, np.inf, -np.inf))
    return student_tail(ratios, segments)


def _needed(side: Floats, whole: Floats, margin: QualityMargin, error: float, typical: float) -> Floats:
    summed = side + margin.sds * _influence(whole)
    means, variances = summed.mean(axis=1), summed.var(axis=1, ddof=min(1, side.shape[1] - 1))
    z = NormalDist().inv_cdf(1 - error)
    # n·mean − typical = z·√(n·variance + typical²), which includes the imagined segment; then Student's tail.
    safe = np.maximum(means, 1e-6 * np.sqrt(variances) + 1e-100)
    half = safe * typical + z * z * variances / 2
    least = (half + np.sqrt(half**2 + safe**2 * typical**2 * max(0.0, z * z - 1))) / safe**2
    return np.asarray(np.where(means > 0, np.maximum(np.ceil(least + z * z / 2), 2), np.inf))


def _influence(whole: Floats) -> Floats:
    """[segments]: each segment's contribution to σ̂, which is their mean."""
    spread = float(whole.std(ddof=0))
    if spread == 0:
        return np.zeros(len(whole))
    return np.asarray(spread / 2 + (whole - whole.mean()) ** 2 / (2 * spread))


def student_tail(t: Floats, freedom: int) -> Floats:
    """P(T > t) of Student's distribution.

    >>> student_tail(np.array([0.0, 2.228]), 10).round(4).tolist()
    [0.5, 0.025]
    """
    with np.errstate(under="ignore"):
        half = 0.5 * _beta_share(freedom / (freedom + t * t), freedom / 2, 0.5)
    return np.asarray(np.where(t >= 0, half, 1 - half))


def _beta_share(x: Floats, a: float, b: float) -> Floats:
    """The regularised incomplete beta function."""
    near = x <= (a + 1) / (a + b + 2)  # its continued fraction converges fast here, that of the other tail elsewhere
    found = np.empty_like(x)
    found[near] = _beta_fraction(x[near], a, b)
    found[~near] = 1 - _beta_fraction(1 - x[~near], b, a)
    return found


def _beta_fraction(x: Floats, a: float, b: float) -> Floats:
    """DLMF 8.17.22, evaluated from the innermost fraction."""
    fraction = np.ones_like(x)
    for m in range(200, 0, -1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        fraction = 1 + even / (1 + odd / fraction)
    fraction = 1 - (a + b) * x / (a + 1) / fraction
    with np.errstate(divide="ignore"):
        logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * np.log(x) + b * np.log1p(-x)
    return np.asarray(np.exp(logs) / (a * fraction))
