"""The frontier's numbers against the same in plain Python, one segment at a time."""

from __future__ import annotations

import math
from statistics import fmean, pstdev

import numpy as np
import pytest

from quitmt import stop
from quitmt.lab.frames import QualityScores, Trajectories
from quitmt.lab.replay.frontier import (
    REGRET,
    Curve,
    Halved,
    Losses,
    at_cost,
    at_quality,
    fixed_curve,
    grid,
    halves,
    losses,
    means,
    single,
    threshold_curve,
    versus,
)
from quitmt.stop.threshold import Threshold
from quitmt.types import Snapshot
from tests.lab.arrays import running_best

BUDGET = 40
SIZES = [48, 40, 40, 9, 40, 33, 40, 17, 40]
"""Some shorter than the budget, one longer."""


@pytest.fixture
def one() -> Trajectories:
    return running_best(np.random.default_rng(2).beta(2, 4, (len(SIZES), 48)).round(2), sizes=SIZES)


@pytest.fixture
def quality() -> QualityScores:
    return QualityScores("Mine", "mine", True, np.random.default_rng(3).normal(5, 2, (len(SIZES), 48)))


@pytest.fixture
def rule() -> Threshold:
    found = stop.load("headroom:top=1,minimum=4", k=4, n=BUDGET)
    assert isinstance(found, Threshold)
    return found


def lost(one: Trajectories, quality: QualityScores, row: int, size: int) -> tuple[float, float]:
    """By regret and by the metric, of a rule that uses so many candidates."""
    whole = one.best[row, min(SIZES[row], BUDGET) - 1]
    chosen = one.best[row, size - 1]
    winners = [one.best[s, min(SIZES[s], BUDGET) - 1] for s in range(len(SIZES))]
    sigma = pstdev(quality.values[s, winner] for s, winner in enumerate(winners))
    apart = abs(quality.values[row, chosen] - quality.values[row, whole]) / sigma
    return one.final[row, whole] - one.final[row, chosen], apart


def signals_of(one: Trajectories, rule: Threshold) -> list[np.ndarray]:
    looks = [n for n in rule.sizes() if n < BUDGET]
    return [
        np.array([rule.signal(Snapshot(n, 0, one.score[row, n - 1])) for n in looks if n <= size])
        for row, size in enumerate(SIZES)
    ]


def stops_at(rule: Threshold, threshold: float, one: Trajectories, row: int) -> int:
    """As the engine would ask it."""
    own = rule.at(max(threshold, 0.0)) if threshold != -math.inf else None
    for size in range(1, min(SIZES[row], BUDGET) + 1):
        if own is not None and own.observe(Snapshot(size, 0, one.score[row, size - 1])):
            return size
    return min(SIZES[row], BUDGET)


def test_losses_of_every_size(one: Trajectories, quality: QualityScores) -> None:
    found = losses(one, {"mine": quality}, BUDGET)
    assert list(found.tables) == [REGRET, "mine"]
    curve = fixed_curve(found)
    assert curve.thresholds.tolist() == list(range(1, BUDGET + 1))
    for row, pool in enumerate(SIZES):
        for n in range(1, BUDGET + 1):
            size = min(n, pool)
            assert curve.size[n - 1, row] == size
            assert curve.lost[:, n - 1, row] == pytest.approx(lost(one, quality, row, size), rel=1e-5, abs=1e-7)
    assert curve.lost[:, -1].max() == 0  # the whole pool loses nothing


def test_winners_that_are_all_alike_have_no_unit(one: Trajectories) -> None:
    alike = QualityScores("Flat", "flat", False, np.full((len(SIZES), 48), 3.0))
    assert losses(one, {"flat": alike}, BUDGET).tables["flat"].max() == 0


def test_a_rule_at_every_threshold(one: Trajectories, quality: QualityScores, rule: Threshold) -> None:
    curve = threshold_curve("headroom", rule, signals_of(one, rule), losses(one, {"mine": quality}, BUDGET), 12)
    assert curve.thresholds[0] == -np.inf and len(curve.thresholds) > 6
    assert (np.diff(curve.size.mean(axis=1)) <= 0).all()
    assert len(set(curve.size.ravel().tolist())) > 4
    for place, threshold in enumerate(curve.thresholds):
        for row in range(len(SIZES)):
            size = stops_at(rule, threshold, one, row)
            assert curve.size[place, row] == size
            assert curve.lost[:, place, row] == pytest.approx(lost(one, quality, row, size), rel=1e-5, abs=1e-7)


def test_thresholds_are_those_that_make_a_difference() -> None:
    found = grid([np.array([5.0, 1.0, 3.0]), np.array([np.inf, 2.0]), np.array([-4.0]), np.array([])], 5)
    assert found.tolist() == [-np.inf, 0.0, 1.0, 2.0, 5.0]  # of 5, 1, 1, 2 and −4, which no rule takes
    assert grid([np.array([np.inf])]).tolist() == [-np.inf]
    assert grid([]).tolist() == [-np.inf]


def test_halves_are_the_same_for_the_same_seed() -> None:
    first = halves(11, 30, 4)
    assert np.array_equal(first, halves(11, 30, 4)) and not np.array_equal(first, halves(11, 30, 5))
    assert (first.sum(axis=1) == 5).all()
    assert len({tuple(row) for row in first.tolist()}) > 20
    assert first.any(axis=0).all() and not first.all(axis=0).any()  # everyone is on both sides at some time


def made_up(segments: int = 15, count: int = 7) -> tuple[Curve, Curve, Curve]:
    """Fixed sizes, a rule with thresholds, and one without."""
    rng = np.random.default_rng(7)
    falling = np.sort(rng.random((2, segments, 30)).astype(np.float32), axis=2)[:, :, ::-1].copy()
    falling[:, :, -1] = 0.0
    own = Losses(np.full(segments, 30), {"a": falling[0], "b": falling[1]})
    sizes = np.sort(rng.integers(1, 31, (count, segments)), axis=0)[::-1]
    sizes[0] = 30
    curve = Curve("rule", np.arange(count, dtype=float), sizes.astype(np.int32), own.at(sizes))
    return fixed_curve(own), curve, single("window", rng.integers(10, 25, segments), own)


def test_means_of_both_halves() -> None:
    _, curve, _ = made_up()
    split = halves(15, 6, 1)
    found = Halved.of(curve, split)
    for half, own in ((split, found.choosing), (~split, found.judging)):
        for number, chosen in enumerate(half):
            rows = np.flatnonzero(chosen)
            for place in range(len(curve.thresholds)):
                assert own.size[place, number] == pytest.approx(fmean(curve.size[place, rows].tolist()))
                for measure in range(2):
                    expected = fmean(curve.lost[measure, place, rows].tolist())
                    assert own.lost[measure, place, number] == pytest.approx(expected, rel=1e-5)


def test_at_cost_in_plain_python() -> None:
    fixed, curve, _ = made_up()
    split = halves(15, 9, 3)
    held = at_cost(Halved.of(curve, split), Halved.of(fixed, split), 15)
    assert held is not None
    for number, chosen in enumerate(split.tolist()):
        choosing = [row for row in range(15) if chosen[row]]
        judging = [row for row in range(15) if not chosen[row]]
        costs = [abs(fmean(sizes[row] for row in choosing) - 15) for sizes in curve.size.tolist()]
        place = costs.index(min(costs))
        size = fmean(curve.size[place, row] for row in judging)
        assert held.size[number] == held.rival_size[number] == pytest.approx(size)
        low = math.floor(size)
        for measure in range(2):
            assert held.lost[measure, number] == pytest.approx(
                fmean(curve.lost[measure, place, row] for row in judging), rel=1e-5
            )
            below, above = (fmean(fixed.lost[measure, min(n, 30) - 1, row] for row in judging) for n in (low, low + 1))
            between = below + (size - low) * (above - below)
            assert held.rival_lost[measure, number] == pytest.approx(between, rel=1e-5)


def test_the_fixed_size_of_the_same_cost_is_exact() -> None:
    """Four segments that lose 30 − n each with n candidates: whatever a rule spends, fixed sizes lose 30 − its mean."""
    table = np.tile(np.arange(29.0, -1.0, -1.0, dtype=np.float32), (4, 1))
    own = Losses(np.full(4, 30), {REGRET: table})
    rule = single("rule", np.array([3, 10, 12, 30]), own)
    split = np.array([[True, True, False, False], [False, True, False, True]])
    held = at_cost(Halved.of(rule, split), Halved.of(fixed_curve(own), split))
    assert held is not None
    assert held.size.tolist() == [21.0, 7.5]
    assert held.lost.tolist() == held.rival_lost.tolist() == [[9.0, 22.5]]


def test_short_pools_are_counted_with_what_they_have() -> None:
    """Two segments, one with two candidates only: a mean of 3 is 2 and 4, not 3 and 3."""
    table = np.array([[4.0, 0.0, 0.0, 0.0], [9.0, 6.0, 1.0, 0.0]], np.float32)
    own = Losses(np.array([2, 4]), {REGRET: table})
    rule = single("rule", np.array([2, 4]), own)
    everyone = np.zeros((1, 2), np.bool_)
    judged = means(rule, ~everyone)
    held = at_cost(Halved("rule", judged, judged), Halved("fixed", judged, means(fixed_curve(own), ~everyone)))
    assert held is not None and held.size.tolist() == [3.0] and held.rival_lost.tolist() == [[0.0]]


def test_a_cost_that_no_threshold_comes_near_is_left_out() -> None:
    fixed, curve, _ = made_up()
    split = halves(15, 9, 3)
    cheapest = curve.size.mean(axis=1).min()
    assert at_cost(Halved.of(curve, split), Halved.of(fixed, split), cheapest / 2) is None
    assert at_cost(Halved.of(curve, split), Halved.of(fixed, split), 60) is None


def test_at_quality_in_plain_python() -> None:
    _, curve, rival = made_up(count=25)
    split = halves(15, 20, 8)
    held = at_quality(Halved.of(curve, split), Halved.of(rival, split))
    taken = set()
    for number, chosen in enumerate(split.tolist()):
        choosing = [row for row in range(15) if chosen[row]]
        judging = [row for row in range(15) if not chosen[row]]
        best, place = math.inf, -1
        for t in range(len(curve.thresholds)):
            pairs = [
                (fmean(curve.lost[m, t, row] for row in choosing), fmean(rival.lost[m, 0, row] for row in choosing))
                for m in range(2)
            ]
            size = fmean(curve.size[t, row] for row in choosing)
            if all(ours <= theirs for ours, theirs in pairs) and size < best:
                best, place = size, t
        taken.add(place)
        assert held.size[number] == pytest.approx(fmean(curve.size[place, row] for row in judging))
        assert held.rival_size[number] == pytest.approx(fmean(rival.size[0, row] for row in judging))
        for m in range(2):
            expected = fmean(curve.lost[m, place, row] for row in judging)
            assert held.lost[m, number] == pytest.approx(expected, rel=1e-5)
            expected = fmean(rival.lost[m, 0, row] for row in judging)
            assert held.rival_lost[m, number] == pytest.approx(expected, rel=1e-5)
    assert len(taken) > 1


def test_versus_a_rival() -> None:
    found = versus(np.array([1.0, 2.0, 3.0, 0.0]), np.array([2.0, 2.0, 2.0, 0.0]))
    assert (found.value, found.rival, found.ratio, found.better) == (1.5, 1.5, 1.0, 0.25)
    assert found.span == pytest.approx(tuple(np.percentile([0.5, 1.0, 1.5, 1.0], [5, 95])))
    nothing = versus(np.array([0.0, 1.0]), np.zeros(2))
    assert (nothing.ratio, nothing.span, nothing.better) == (None, None, 0.0)


@pytest.mark.parametrize("zeros", [30, 60, 94])
def test_a_ratio_lies_in_its_span_also_where_many_rivals_lose_nothing(zeros: int) -> None:
    rng = np.random.default_rng(2)
    rival = np.where(np.arange(100) < zeros, 0.0, rng.uniform(1, 2, 100))
    value = np.where(np.arange(100) < zeros, 9.0, 7 * rival)
    found = versus(value, rival)
    assert found.ratio is not None and found.span is not None
    assert found.span[0] <= found.ratio <= found.span[1] == np.inf
    both = versus(np.where(rival > 0, 0.5 * rival, 0.0), rival)  # neither loses anything there: they are equal
    assert both.ratio == pytest.approx(0.5) and both.span == pytest.approx((0.5, 1.0))
    nearly_all = np.where(np.arange(100) < 97, 0.0, 1.0)
    assert (versus(np.ones(100), nearly_all).ratio, versus(np.ones(100), nearly_all).span) == (None, None)
    few = versus(np.where(np.arange(100) == 0, 9.0, 7 * rival), np.where(np.arange(100) == 0, 0.0, rival + 1e-9))
    assert few.span is not None and np.isfinite(few.span).all()
