"""Significant differences: who is counted as worse, better or neither, and how often by mistake."""

from __future__ import annotations

import numpy as np
import pytest

from quitmt.evaluate.equivalence import Pair, compare
from quitmt.lab.frames import QualityScores
from quitmt.lab.replay.rules import matched_fixed, quit_rule, unaccelerated
from quitmt.lab.report.assemble import pair_of
from quitmt.lab.rows import direction
from tests.lab.arrays import running_best


def shifted(shift: float, *, lower_is_better: bool = False, segments: int = 300, seed: int = 0) -> Pair:
    rng = np.random.default_rng(seed)
    base = rng.normal(size=segments)
    return Pair(base, base + shift + 0.1 * rng.normal(size=segments), lower_is_better)


def test_the_interval_is_of_95_percent_and_two_sided() -> None:
    """Without a difference, 5% of comparisons come out significant, half of them on either side."""
    rng = np.random.default_rng(2)
    pairs = [Pair(base := rng.normal(size=100), base + rng.normal(size=100)) for _ in range(1_000)]
    # Each with resamples of its own, or all would be wrong together.
    found = [
        direction(compare([pair], resamples=200, rng=seed)[0], lower_is_better=False) for seed, pair in enumerate(pairs)
    ]
    # Percentiles of 200 resamples of 100 segments are a little narrow: nearer 6% in all. Three standard errors.
    assert 0.013 < found.count(-1) / 1_000 < 0.046
    assert 0.013 < found.count(1) / 1_000 < 0.046


def test_direction_is_the_side_of_the_interval() -> None:
    for shift, sign in ((0.3, 1), (-0.3, -1)):
        (found,) = compare([shifted(shift)], resamples=500)
        assert direction(found, lower_is_better=False) == sign
        assert direction(found, lower_is_better=True) == -sign


def test_rules_are_compared_pairwise_by_what_they_chose() -> None:
    rng = np.random.default_rng(3)
    trajectories = running_best(rng.random((60, 32)))
    quality = QualityScores("metricx", "m", True, rng.random((60, 32)))
    base = unaccelerated(trajectories, 32)
    rule = quit_rule(trajectories, k=2, w=2, alpha=0.0, budget=32)
    rival = matched_fixed(trajectories, rule.mean_size, 32)
    found = compare([pair_of(base, one, quality) for one in (rule, rival)], resamples=500)
    for one, comparison in zip((rule, rival), found, strict=True):
        difference = quality.values[np.arange(60), one.index] - quality.values[np.arange(60), base.index]
        assert comparison.difference == pytest.approx(difference.mean())
        assert comparison.losses == (difference > 0).sum() > 0  # lower is better
    (own,) = compare([pair_of(base, rule, None)], resamples=500)
    assert own.difference == pytest.approx((rule.score - base.score).mean())
    assert own.wins == 0 < own.losses  # by its own score, nothing beats the whole pool
