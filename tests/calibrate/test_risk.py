"""The guarantees: exact tail probabilities, and what they come to over many calibration sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from quitmt.calibrate import risk


@given(st.integers(0, 60), st.integers(1, 60), st.floats(0.001, 0.999))
def test_the_tail_is_the_binomial_one(count: int, segments: int, share: float) -> None:
    assert risk.binomial_tail(count, segments, share) == pytest.approx(binom.cdf(count, segments, share), abs=1e-9)


@given(st.floats(0.01, 0.5), st.floats(0.01, 0.5))
def test_least_segments_is_where_no_loss_at_all_is_proof(share: float, error: float) -> None:
    least = risk.least_segments(share, error)
    assert risk.binomial_tail(0, least, share) <= error * (1 + 1e-9)
    assert least == 1 or risk.binomial_tail(0, least - 1, share) > error


def test_tests_stop_at_the_first_failure() -> None:
    exceeds = np.zeros((4, 100), np.bool_)
    exceeds[1, :30] = True  # fails; that the next one would pass does not help it
    assert risk.learn_then_test(exceeds, 0.1, 0.1) == 1
    exceeds[1] = False
    assert risk.learn_then_test(exceeds, 0.1, 0.1) == 4
    assert risk.learn_then_test(exceeds[:, :20], 0.1, 0.1) == 0  # too few segments for anything


def test_conformal_counts_a_segment_from_the_first_rule_that_exceeds() -> None:
    exceeds = np.zeros((3, 99), np.bool_)
    exceeds[0, :5] = True
    exceeds[1, 5:9] = True
    exceeds[2, 9:20] = True
    assert risk.conformal(exceeds, 0.1) == 2  # 5, 9 and 20 of 99, with one more
    assert risk.conformal(exceeds, 0.05) == 0


def rising(rng: np.random.Generator, segments: int) -> np.ndarray:
    """Whether each of 20 rules exceeds on each segment; the risks of the rules are 0, 0.02, 0.04, …"""
    return np.linspace(0, 0.38, 20)[:, None] > rng.random(segments)


def test_learn_then_test_errs_no_more_often_than_guaranteed() -> None:
    """The risk of the chosen rule is above 0.1 for at most a tenth of 2,000 calibration sets, up to chance."""
    rng = np.random.default_rng(3)
    chosen = [risk.learn_then_test(rising(rng, 100), 0.1, 0.1) for _ in range(2000)]
    wrong = sum(0.02 * (passed - 1) > 0.1 for passed in chosen)
    assert 0 < wrong <= binom.ppf(0.999, 2000, 0.1)
    assert np.mean(chosen) > 2  # and it does choose something


def test_conformal_keeps_the_risk_on_average() -> None:
    rng = np.random.default_rng(4)
    chosen = [risk.conformal(rising(rng, 100), 0.1) for _ in range(2000)]
    mean = np.mean([0.02 * max(passed - 1, 0) for passed in chosen])
    assert 0.07 < mean <= 0.1 + 0.002
