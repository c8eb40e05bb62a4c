"""PruneMBR: against a plain version of the paper's that knows nothing of duplicates, its edges, and its guarantee."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom
from tests.rerank.tables import Floats, QuickTable, Table, noisy, stand

from quitmt.errors import RerankError, UsageError
from quitmt.rerank.lowrank import LowRank
from quitmt.rerank.prune import Prune


def plain(utilities: Floats, confidence: str = "0.99", seed: int = 0, resamples: int = 500) -> tuple[int, list[int]]:
    """The winner's index, and how many candidates were left after each prefix; a row and a column for each candidate,
    duplicates or not."""
    size, alive, left = len(utilities), list(range(len(utilities))), []
    for seen in [8, 16, 32, 64, 128, 256, 512, 1024, size]:
        if seen >= size or len(alive) == 1:
            break
        means = [utilities[row, :seen].mean() for row in alive]
        drawn = np.random.default_rng([seed, zlib.crc32(b"s"), seen]).integers(0, seen, (resamples, seen))
        resampled = np.array([utilities[row][drawn].mean(axis=1) for row in alive])
        times = (resampled >= resampled[int(np.argmax(means))]).sum(axis=1)
        share = [Fraction(int(wins), resamples) for wins in times]
        alive = [row for row, wins in zip(alive, share, strict=True) if wins > 1 - Fraction(confidence)]
        left.append(len(alive))
    return max(alive, key=lambda row: (utilities[row].mean(), -row)), left


@pytest.mark.parametrize("scale", [1, 100])
@pytest.mark.parametrize("size", [100, 128, 200, 256, 700, 1100])
def test_against_a_plain_version(size: int, scale: int) -> None:
    rounds = set()
    for seed in range(4 if size < 1000 else 2):
        utility = QuickTable(scale * noisy(seed, size, 0.1 if size < 1000 else 0.3))
        expected, left = plain(utility.matrix)
        assert stand(utility, Prune(), range(size)).best == expected
        assert sum(utility.requested.values()) == evaluations(size, left)
        rounds.add(len({size, *left}))
    assert max(rounds) > 3  # candidates were dropped more than once
    assert size < 1000 or len(left) == 8  # and the schedule went on beyond its end


def evaluations(size: int, left: list[int]) -> int:
    """The cells of the rows that were left, over the columns that came."""
    ends = [8 << step for step in range(9) if 8 << step < size][: len(left)]
    rows, columns = [size, *left], [*ends, size]
    if left[-1] == 1:
        rows, columns = rows[:-1], columns[:-1]
    new = [stop - start for start, stop in zip([0, *columns], columns, strict=False)]
    return sum(one * other for one, other in zip(rows, new, strict=True))


@pytest.mark.parametrize("confidence", ["0.9", "0.7", "0.5"])
def test_a_share_that_is_just_the_threshold_is_not_enough(confidence: str) -> None:
    # In floating point 1 − 0.9 is less than a tenth, which would then be more.
    for seed in range(10):
        utility = QuickTable(noisy(seed, 100))
        expected, left = plain(utility.matrix, confidence, resamples=10)
        assert stand(utility, Prune(float(confidence), resamples=10), range(100)).best == expected
        assert sum(utility.requested.values()) == evaluations(100, left)


@pytest.mark.parametrize("size", [100, 128, 700])
def test_duplicates_are_as_good_as_candidates_of_their_own(size: int) -> None:
    for seed in range(6):
        utility, rng = QuickTable(noisy(seed, size)), np.random.default_rng(seed)
        order = rng.choice(size, size, p=rng.dirichlet(np.full(size, 0.4)))
        expected, _ = plain(utility.matrix[np.ix_(order, order)])
        found = stand(utility, Prune(), order)
        assert found.best == expected
        assert max(utility.requested.values()) == 1


def test_another_scale_has_the_same_winner() -> None:
    for seed in range(10):
        winners = [stand(QuickTable(scale * noisy(seed, 150)), Prune(), range(150)) for scale in (1, 100, 1e-4)]
        assert len({one.best for one in winners}) == 1


def test_confidence_seed_and_schedule_matter() -> None:
    tables = [noisy(seed, 128) for seed in range(12)]

    def winners(method: Prune) -> list[int]:
        return [stand(QuickTable(table), method, range(128)).best for table in tables]

    assert winners(Prune(confidence=0.9)) == [plain(table, "0.9")[0] for table in tables] != winners(Prune())
    assert winners(Prune(seed=5)) == [plain(table, seed=5)[0] for table in tables]
    assert winners(Prune(confidence=0.5, schedule=(4,))) != winners(Prune(confidence=0.5, schedule=(64,)))
    assert winners(Prune(schedule=(128,))) == [int(table.mean(axis=1).argmax()) for table in tables]


# Edges


@pytest.mark.parametrize("size", [1, 2, 7, 8])
def test_a_pool_no_larger_than_the_first_prefix_is_compared_whole(size: int) -> None:
    utility = QuickTable(noisy(3, size))
    found = stand(utility, Prune(), range(size))
    assert found.best == int(utility.matrix.mean(axis=1).argmax())
    assert found.score == pytest.approx(utility.matrix.mean(axis=1).max())
    assert len(utility.requested) == size**2


def test_all_equal() -> None:
    utility = QuickTable(np.full((100, 100), 0.3))
    found = stand(utility, Prune(), range(100))
    assert (found.best, found.score) == (0, pytest.approx(0.3))
    assert len(utility.requested) == 100**2  # nobody is unlikely to win


def test_one_far_above_the_others_is_found_after_the_first_prefix() -> None:
    table = noisy(1, 128) / 2
    table[77] += 1
    utility = QuickTable(table)
    found = stand(utility, Prune(), range(128))
    assert (found.best, found.score) == (77, pytest.approx(table[77, :8].mean()))
    assert len(utility.requested) == 128 * 8


def test_one_far_below_the_others_is_dropped_and_nobody_else() -> None:
    table = np.full((64, 64), 0.5)
    table[5] = 0.1
    utility = QuickTable(table)
    assert stand(utility, Prune(), range(64)).best == 0
    assert len(utility.requested) == 64 * 8 + 63 * 56


@pytest.mark.parametrize("size", [9, 131])
def test_equal_rows_tie_to_the_bit(size: int) -> None:
    # A product of matrices rounds equal rows unequally; the lowest index must win all the same.
    for method in (Prune(), Prune(schedule=(1000,)), LowRank(reduction=1)):
        for seed in range(5):
            table = np.random.default_rng(seed).random((size, size)) / 2
            table[size // 3 :] = table[size // 3] + 0.5
            assert stand(QuickTable(table), method, range(size)).best == size // 3


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("kind", [Table, QuickTable])
def test_no_number_is_refused(kind: type[Table], bad: float) -> None:
    table = noisy(1, 40)
    table[23, 5] = bad
    with pytest.raises(RerankError, match=f"^segment s: the utility of candidates 24 and 6 is {bad}, not a finite"):
        stand(kind(table), Prune(), [0, *range(40)])  # the first text comes twice, so indices are one more


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"confidence": 1.0}, "must lie between 0 and 1, not at 1"),
        ({"confidence": float("nan")}, "must lie between 0 and 1"),
        ({"resamples": 0}, "at least 1 resample, not 0"),
        ({"schedule": ()}, "increasing sizes"),
        ({"schedule": (8, 8)}, "increasing sizes"),
        ({"schedule": (0, 8)}, "increasing sizes"),
        ({"seed": -1}, "a seed must be 0 or more, not -1"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Prune(**settings)  # type: ignore[arg-type]


# What it guarantees


def lost(tables: Sequence[Floats], confidence: float) -> tuple[int, list[float]]:
    """How often the true winner is not found, and the expected utility that costs, in standard deviations."""
    regrets = []
    for seed, table in enumerate(tables):
        expected = table.mean(axis=1)
        best = stand(QuickTable(table), Prune(confidence, seed=seed), range(len(table))).best
        regrets.append(float((expected.max() - expected[best]) / expected.std()))
    return sum(regret > 0 for regret in regrets), regrets


@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_the_better_of_two_is_dropped_as_seldom_as_guaranteed(confidence: float) -> None:
    """Two rivals that are equal but for chance, the rest far below: each of the four rounds may err once in
    1/(1 − confidence). The bound would fail one right program in a thousand, if the seeds were not fixed."""
    tables = []
    for seed in range(150):
        rng = np.random.default_rng([seed, 1])
        table = rng.normal(0.2, 0.01, (128, 128))
        table[:2] += 0.5 + rng.normal(0, 0.1, (2, 128))
        tables.append(table)
    times, _ = lost(tables, confidence)
    assert 0 < times <= binom.ppf(0.999, len(tables), 4 * (1 - confidence))


def test_of_many_near_the_top_the_best_is_lost_more_often_but_little_with_it() -> None:
    """The confidence is that of one comparison, not that of the whole: the luckiest of many rivals is hard to beat."""
    tables = [noisy(seed, 128, 0.05) for seed in range(60)]
    (seldom, little), (often, more) = lost(tables, 0.99), lost(tables, 0.9)
    assert 0 < seldom < often
    assert np.mean(little) < 0.03 < np.mean(more) < 0.15
