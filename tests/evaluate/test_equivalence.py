"""Paired bootstrap TOST: against scipy, against a plain loop, and by its error rates."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from quitmt.errors import InputError, UsageError
from quitmt.evaluate import equivalence
from quitmt.evaluate.equivalence import Comparison, Pair, compare, draws


def scores(segments: int, *, seed: int = 0, shift: float = 0.0, noise: float = 0.3) -> Pair:
    rng = np.random.default_rng(seed)
    base = rng.gamma(3.0, size=segments)
    return Pair(base, base + shift + noise * rng.standard_exponential(segments) - noise)


def only(pair: Pair, **settings: object) -> Comparison:
    (found,) = compare([pair], **settings)  # type: ignore[arg-type]
    return found


def test_a_plain_loop_over_the_same_draws_gives_the_same() -> None:
    pairs = [scores(57, seed=1), scores(57, seed=2, shift=0.1), scores(57, seed=3, noise=0.0)]
    found = compare(pairs, resamples=501, rng=np.random.default_rng(9))
    rows = [row for block in draws(57, 501, np.random.default_rng(9)) for row in block]
    assert len(rows) == 501
    for pair, comparison in zip(pairs, found, strict=True):
        means = sorted(sum((pair.other - pair.base)[index] for index in row) / 57 for row in rows)
        # 501 sorted values: the percentiles fall on the places 12.5, 25, 475 and 487.5.
        assert comparison.tost_interval == pytest.approx((means[25], means[475]), abs=1e-13)
        ends = (means[12] + means[13]) / 2, (means[487] + means[488]) / 2
        assert comparison.interval == pytest.approx(ends, abs=1e-13)
        margin = 0.02 * pair.base.std()
        beyond = max(sum(mean < -margin for mean in means), sum(mean > margin for mean in means))
        assert comparison.p_values[1] == (beyond + 1) / 502


def test_the_interval_is_scipys() -> None:
    pair = scores(100, seed=4, shift=0.05)
    found, theirs = only(pair, resamples=20_000), None
    for level, ours in ((0.95, found.interval), (0.9, found.tost_interval)):
        theirs = stats.bootstrap(
            (pair.base, pair.other),
            lambda base, other, axis: np.mean(other - base, axis=axis),
            paired=True,
            method="percentile",
            n_resamples=20_000 if theirs is None else 0,
            bootstrap_result=theirs,
            confidence_level=level,
            rng=np.random.default_rng(5),
        )
        # A percentile of 20,000 resamples is off by about 2% of the standard error; the difference of two by 3%.
        tolerance = 0.1 * theirs.standard_error
        assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=tolerance)
        assert ours[1] - ours[0] > 2 * tolerance


def test_for_many_segments_it_is_the_tost_of_t() -> None:
    pair = scores(1_000, seed=6, shift=0.033, noise=0.3)
    found = only(pair, margins=(0.02,), resamples=10_000)
    difference, margin = pair.other - pair.base, 0.02 * float(pair.base.std())
    lower = stats.ttest_1samp(difference, -margin, alternative="greater").pvalue
    upper = stats.ttest_1samp(difference, margin, alternative="less").pvalue
    expected = max(lower, upper)
    assert 0.01 < expected < 0.9
    assert found.p_values[0] == pytest.approx(expected, abs=0.015)


def test_at_the_margin_one_in_twenty_is_declared_equivalent() -> None:
    """The size of the test: the true difference is exactly the margin of the true σ."""
    rng, declared, datasets = np.random.default_rng(7), 0, 800
    for _ in range(datasets):
        base = rng.normal(size=200)
        # The margin is of the base's own σ and wavers by 5% of itself; the noise of the difference is far larger.
        pair = Pair(base, base + 0.05 + 0.1 * rng.normal(size=200))
        declared += bool(only(pair, margins=(0.05,), resamples=200, rng=rng).within)
    assert 0.03 < declared / datasets < 0.085  # 5% ± 3 standard errors, and the wavering


def test_no_difference_and_many_segments_is_found_equivalent() -> None:
    rng = np.random.default_rng(8)
    bases = rng.normal(size=(10, 6_000))
    found = [only(Pair(base, base + 0.3 * rng.normal(size=6_000)), resamples=200, rng=rng) for base in bases]
    assert all(comparison.within == (0.05, 0.02) for comparison in found)


def test_a_clear_difference_is_never_equivalent() -> None:
    found = only(scores(500, shift=1.0))
    assert found.within == () and found.p_values == (1.0, 1.0)
    assert found.interval[0] > 0


def test_identical_systems() -> None:
    base = np.random.default_rng(0).normal(size=50)
    same, constant = compare([Pair(base, base.copy()), Pair(np.ones(50), np.ones(50))], resamples=100)
    for found in (same, constant):
        assert (found.difference, found.interval, found.within) == (0.0, (0.0, 0.0), (0.05, 0.02))
        assert (found.wins, found.ties, found.losses) == (0, 50, 0)
        assert found.p_values == (1 / 101, 1 / 101)
    assert constant.sigma == 0.0


def test_one_segment() -> None:
    found = only(Pair(np.array([1.0]), np.array([1.5])), resamples=10)
    assert (found.difference, found.interval, found.sigma, found.within) == (0.5, (0.5, 0.5), 0.0, ())
    assert only(Pair(np.array([1.0]), np.array([1.0])), resamples=10).within == (0.05, 0.02)


def test_sigma_is_that_of_the_base_and_of_these_segments() -> None:
    found = only(Pair(np.array([1.0, 3.0]), np.array([0.0, 100.0])), resamples=10)
    assert found.sigma == 1.0  # ddof 0; 1.41 with ddof 1


def test_a_win_is_the_better_score() -> None:
    base, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 1.0, 3.0, 5.0])
    higher, lower = compare([Pair(base, other), Pair(base, other, lower_is_better=True)], resamples=50)
    assert (higher.wins, higher.ties, higher.losses) == (1, 1, 2)
    assert (lower.wins, lower.ties, lower.losses) == (2, 1, 1)
    assert higher.difference == lower.difference == -0.25 and higher.interval == lower.interval


def test_pairs_share_resamples_and_do_not_touch_each_other() -> None:
    pairs = [scores(100, seed=seed) for seed in range(5)]
    together = compare(pairs, resamples=300)
    assert together == [only(pair, resamples=300) for pair in pairs]
    assert only(pairs[0], resamples=300, rng=1) != together[0]


def test_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(draws(33, 20, np.random.default_rng(0))))
    monkeypatch.setattr(equivalence, "BLOCK_CELLS", 100)
    blocks = list(draws(33, 20, np.random.default_rng(0)))
    assert [len(block) for block in blocks] == [3] * 6 + [2]
    assert np.array_equal(np.concatenate(blocks), whole)
    assert whole.max() == 32 and whole.min() == 0
    monkeypatch.setattr(equivalence, "BLOCK_CELLS", 1)  # more segments than a block has room for
    assert np.array_equal(np.concatenate(list(draws(33, 20, np.random.default_rng(0)))), whole)


def test_segments_without_a_score_are_as_if_they_were_not_there() -> None:
    """For each pair its own: also beside pairs of other sizes, and in their order."""
    whole, first, second = scores(60, seed=1), scores(60, seed=2), scores(60, seed=3, shift=0.4)
    for gaps, indices in ((first.base, [0, 7]), (first.other, [7, 59]), (second.other, [3])):
        gaps[indices] = np.nan
    found = compare([first, whole, second], resamples=300)
    assert [comparison.left_out for comparison in found] == [3, 0, 1]
    for pair, comparison, without in zip((first, second), (found[0], found[2]), ([0, 7, 59], [3]), strict=True):
        rest = Pair(np.delete(pair.base, without), np.delete(pair.other, without))
        assert replace(comparison, left_out=0) == only(rest, resamples=300)
    assert found[1] == only(whole, resamples=300)


def test_pairs_of_one_size_share_resamples_whatever_they_leave_out() -> None:
    difference = np.random.default_rng(0).normal(size=30)
    pairs = []
    for place in (0, 30):
        base = np.insert(np.zeros(30), place, np.nan)
        pairs.append(Pair(base, np.insert(difference, place, 9.0)))
    first, second = compare(pairs, resamples=200, rng=np.random.default_rng(1))
    assert first == second and first.left_out == 1


def test_nothing_in_common() -> None:
    pair = Pair(np.array([np.nan, 1.0]), np.array([1.0, np.nan]))
    with pytest.raises(InputError, match="there is no segment for which both systems have a score"):
        compare([scores(2), pair])


@pytest.mark.parametrize("bad", [np.inf, -np.inf, 1e308, -1.1e100])
def test_what_would_overflow_is_refused(bad: float) -> None:
    good = np.zeros(3)
    with pytest.raises(InputError, match=re.escape(f"the score of segment 2 is {bad}, not a number within ±1e+100")):
        compare([Pair(good, np.array([0.0, bad, 0.0]))])


def test_the_largest_scores_do_not_overflow() -> None:
    found = only(Pair(np.array([1e100, -1e100, 1e100]), np.array([-1e100, 1e100, -1e100])))
    assert np.isfinite([found.difference, found.sigma, *found.interval, *found.tost_interval]).all()


def test_other_bad_input() -> None:
    with pytest.raises(InputError, match="2 segments cannot be compared with 3"):
        compare([Pair(np.zeros(3), np.zeros(2))])
    with pytest.raises(InputError, match="no segments"):
        compare([Pair(np.zeros(0), np.zeros(0))])
    with pytest.raises(UsageError, match="1 to 10,000,000 resamples, not 0"):
        compare([Pair(np.zeros(3), np.zeros(3))], resamples=0)
    with pytest.raises(UsageError, match="1 to 10,000,000 resamples, not 10,000,001"):
        compare([], resamples=10_000_001)
    with pytest.raises(UsageError, match="a margin must be a positive number, not -1"):
        compare([Pair(np.zeros(3), np.zeros(3))], margins=(0.05, -1))
    assert compare([]) == []
