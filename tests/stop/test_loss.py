"""The expected loss against integrals and simulation, and when rules with a threshold look."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from quitmt import stop
from quitmt.errors import UsageError
from quitmt.stop.loss import Loss, expected_shortfall
from quitmt.types import Rivals, Snapshot, StopReason


def against(mean: list[float], error: list[float], top: list[float]) -> Rivals:
    return Rivals(np.array(mean), np.array(error), np.array(top))


def snapshot(size: int, rivals: Rivals) -> Snapshot:
    return Snapshot(size, 0, 0.5, lambda: rivals)


@given(st.floats(-3, 3), st.floats(0.01, 2))
def test_the_shortfall_is_the_integral(mean: float, error: float) -> None:
    integral, _ = quad(lambda d: -d * norm.pdf(d, mean, error), mean - 12 * error, 0) if mean < 12 * error else (0, 0)
    found = expected_shortfall(np.array([mean]), np.array([error]))
    assert found == pytest.approx(max(integral, 0.0), abs=1e-7)


def test_what_is_known_for_sure_is_lost_or_not() -> None:
    assert expected_shortfall(np.array([0.3, -0.2, -0.1]), np.zeros(3)) == pytest.approx(0.3)


def test_both_parts_of_the_loss() -> None:
    rule = Loss(new=0.5, scale=0.25, budget=64)
    rivals = against([0.1], [0.2], [0.8, 0.6])
    seen = expected_shortfall(np.array([0.1]), np.array([0.2 * math.sqrt(0.75)]))  # a quarter of the terms is known
    assert rule.signal(snapshot(16, rivals)) == pytest.approx(0.25 * (seen + 0.5 * 0.1 * math.log(4)))
    assert rule.signal(snapshot(64, rivals)) == 0  # all of them are


def test_the_loss_to_seen_rivals_is_what_sampling_the_rest_would_show() -> None:
    """One rival whose differences are normal: draw the other N − n of them again and again."""
    rng = np.random.default_rng(1)
    n, budget, spread, mean = 32, 128, 0.3, 0.02
    rest = rng.normal(mean, spread / math.sqrt(budget - n), 400_000) * (budget - n)
    # Its mean is not known either: it is where the first n put it, up to their own error.
    rest += rng.normal(0, spread / math.sqrt(n), len(rest)) * (budget - n)
    lost = np.maximum(0, -(n * mean + rest) / budget).mean()
    rivals = against([mean], [spread / math.sqrt(n)], [0.5])
    assert Loss(scale=1, budget=budget).signal(snapshot(n, rivals)) == pytest.approx(lost, rel=0.02)


def test_stops_when_the_loss_is_small_enough() -> None:
    rule = Loss(most=0.01, minimum=16, budget=64)
    sure, unsure = against([0.5], [0.01], [0.7] * 8), against([0.0], [0.2], [0.7] * 8)
    assert rule.observe(snapshot(8, sure)) is None  # too few
    assert rule.observe(snapshot(16, unsure)) is None
    assert rule.observe(snapshot(16, sure)) is StopReason.DECIDED
    assert rule.observe(snapshot(64, sure)) is StopReason.BUDGET
    assert rule.observe(snapshot(16, against([], [], [0.9] * 8))) is StopReason.DECIDED  # all candidates are the same
    assert rule.observe(Snapshot(16, 0, 0.5)) is None  # nothing is known of rivals


@given(st.integers(1, 16), st.integers(1, 100), st.integers(1, 6), st.integers(1, 600))
def test_looks_become_rarer(step: int, minimum: int, often: int, budget: int) -> None:
    rule = stop.load(f"headroom:share=0,minimum={minimum},looks={often}", k=step, n=budget)
    assert isinstance(rule, stop.Threshold)
    looks = list(rule.sizes())
    assert looks[-1] == budget
    for look, following in pairwise(looks):
        assert rule.looks_at(look)
        assert look % step == 0
        assert look >= minimum
        assert following - look <= max(step, look // often)
        assert rule.horizon(look) == following
        assert all(rule.horizon(size) == following for size in range(look, following))
        assert not any(rule.looks_at(size) for size in range(look + 1, min(following, budget - 1)) if size != following)


def test_a_look_at_every_step() -> None:
    rule = stop.load("loss:minimum=16,looks=64", k=8, n=64)
    assert isinstance(rule, stop.Threshold)
    assert list(rule.sizes()) == [16, 24, 32, 40, 48, 56, 64]


def test_another_threshold() -> None:
    rule = stop.load("loss:new=0.2,minimum=24", k=4, n=128)
    assert isinstance(rule, stop.Threshold)
    assert rule.at(0.5) == stop.load("loss:new=0.2,minimum=24,most=0.5", k=4, n=128)
    assert rule.at(0.5).threshold == 0.5


def test_headroom_gives_up_early_where_little_is_left() -> None:
    watch = stop.load("headroom:top=1,share=0.01,minimum=16", k=8, n=64).open()
    assert watch.observe(Snapshot(8, 0, 0.99)) is None
    assert watch.observe(Snapshot(16, 0, 0.9)) is StopReason.DECIDED
    assert watch.observe(Snapshot(16, 0, 0.8)) is None
    assert watch.observe(Snapshot(64, 0, 0.1)) is StopReason.BUDGET


@pytest.mark.parametrize("name", ["k", "minimum", "looks", "n"])
def test_counts_are_whole_numbers_within_bounds(name: str) -> None:
    field = {"k": "step", "n": "budget"}.get(name, name)
    largest: Any = Loss(**{field: 10_000_000})
    assert getattr(largest, field) == 10_000_000
    for bad in (0, True, 1.0, 10_000_001):
        with pytest.raises(UsageError, match=f"^{name} must be "):
            Loss(**{field: bad})  # type: ignore[arg-type]


def test_a_tie_counts_in_proportion_to_its_error_and_a_sure_lead_counts_nothing() -> None:
    mean, error = np.array([0.0, 8.01, -1.0, 1.0]), np.array([2.0, 1.0, 0.0, 0.0])
    assert expected_shortfall(mean[:1], error[:1]) == pytest.approx(2 / math.sqrt(2 * math.pi))
    assert expected_shortfall(mean[1:2], error[1:2]) == 0
    assert expected_shortfall(mean[2:], error[2:]) == 1  # known differences: only the negative one is lost


@pytest.mark.parametrize(("size", "following"), [(0, 16), (15, 16), (16, 24), (31, 32), (32, 48), (63, 64), (64, 96)])
def test_looks_become_rarer_with_each_doubling(size: int, following: int) -> None:
    assert Loss(step=8, minimum=16, looks=2, budget=512).horizon(size) == following


def test_a_budget_ends_a_rule_even_where_its_signal_is_low() -> None:
    rule = Loss(minimum=4, budget=16)
    assert rule.observe(snapshot(16, against([1.0], [0.0], [0.5]))) is StopReason.BUDGET
