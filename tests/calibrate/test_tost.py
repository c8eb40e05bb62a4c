"""Tests of equivalence: against scipy, on the edge of the margin, and with rare disasters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from quitmt.calibrate.tost import QualityMargin, p_values, segments_needed, student_tail

SEGMENTS, SETS = 120, 2000
EDGE = QualityMargin(0.02)


def world(seed: int = 0) -> tuple[np.ndarray, np.random.Generator]:
    """The whole pool's quality, with a standard deviation of 15 or so, and random numbers."""
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(55, 15, SEGMENTS), 0, 100), rng


@pytest.mark.parametrize("freedom", [1, 2, 9, 119, 5000])
def test_students_distribution(freedom: int) -> None:
    at = np.array([-np.inf, -30.0, -2.0, -0.1, 0.0, 0.3, 1.9, 5.0, 40.0, np.inf])
    assert student_tail(at, freedom) == pytest.approx(student.sf(at, freedom), rel=1e-6, abs=1e-12)


def test_on_the_edge_five_of_a_hundred_are_wrong() -> None:
    whole, rng = world()
    edge = -0.02 * whole.std()
    for margin in (replace(EDGE, both=False), EDGE):
        wrong = (p_values(rng.normal(edge, 1.5, (SETS, SEGMENTS)), whole, margin) <= 0.05).mean()
        assert wrong == pytest.approx(0.05, abs=0.015) if not margin.both else wrong <= 0.065


def test_what_is_better_is_not_worse_and_not_equivalent() -> None:
    whole, rng = world()
    better = rng.normal(0.05 * whole.std(), 0.5, (1, SEGMENTS))
    assert p_values(better, whole, EDGE)[0] > 0.9
    assert p_values(better, whole, replace(EDGE, both=False))[0] < 0.001
    assert p_values(-better, whole, replace(EDGE, both=False))[0] > 0.9


def test_the_scale_makes_no_difference() -> None:
    whole, rng = world()
    apart = rng.normal(0, 1, (3, SEGMENTS))
    assert p_values(apart / 50, whole / 50, EDGE) == pytest.approx(p_values(apart, whole, EDGE))


def test_the_error_of_sigma_counts() -> None:
    """A rule that never differs is only as sure as σ is known: one segment that makes up all of it proves nothing."""
    even, lone = np.tile([40.0, 60.0], 10), np.array([100.0] + [50.0] * 19)
    never = np.zeros((1, 20))
    assert p_values(never, even, EDGE)[0] < 1e-9
    assert p_values(never, lone, EDGE)[0] > 0.01


def test_nothing_is_proven_by_a_few_segments_that_do_not_differ() -> None:
    """The first rule never differs, and the others do by 5 or so: what did not happen in 120 segments may yet happen in
    one of 120."""
    whole, rng = world()
    apart = np.concatenate([np.zeros((1, SEGMENTS)), rng.normal(0, 5, (4, SEGMENTS))])
    assert p_values(apart, whole, EDGE)[0] < 0.025
    assert p_values(apart, whole, QualityMargin(0.0001))[0] > 0.5
    assert segments_needed(apart, whole, QualityMargin(0.0001), 0.025)[0] > 3 * 5 / (0.0001 * 15)


def test_rare_disasters_break_the_test() -> None:
    """One segment of a hundred loses 31 points, the others nothing: the mean loss is the margin. Many sets of 120 have
    no such segment, and Student's t is then sure of what is not so."""
    whole, rng = world()
    rare = 31.0 / (0.02 * whole.std())
    disasters = -31.0 * (rng.random((300, 1, SEGMENTS)) < 1 / rare)
    margin = replace(EDGE, both=False)
    assert np.mean([p_values(one, whole, margin)[0] <= 0.05 for one in disasters]) > 0.2
    # Where the set has such a segment, at whichever rule, the imagined one keeps the others from being proven.
    assert (
        p_values(np.concatenate([disasters[0] * 0, disasters.max(axis=0) - 31 * np.eye(1, SEGMENTS)]), whole, margin)[0]
        > 0.05
    )


def test_how_many_segments_it_takes() -> None:
    """So many copies of these segments prove it, and far fewer do not."""
    whole, rng = world()
    apart = rng.normal(0.1, 3.0, (1, SEGMENTS))
    [needed] = segments_needed(apart, whole, EDGE, 0.025)

    def proven(count: float) -> bool:
        rows = np.arange(int(count)) % SEGMENTS
        return bool(p_values(apart[:, rows], whole[rows], EDGE)[0] <= 0.025)

    assert proven(1.3 * needed) and not proven(0.5 * needed)
    assert segments_needed(np.full((1, SEGMENTS), -9.0), whole, EDGE, 0.025)[0] == np.inf
