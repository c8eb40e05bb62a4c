"""PRR against its definition: averages over all orders of ties, and a plain loop over segments and windows."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quitmt.lab.frames import QualityScores, Trajectories
from quitmt.lab.replay.prr import instances, prr, window_prr
from tests.lab.arrays import running_best


def area(kept_first: list[float]) -> float:
    """Retain all, all but one, …, one; those kept longest come first."""
    curve = [sum(kept_first[:kept]) / kept for kept in range(len(kept_first), 0, -1)]
    return sum(curve) / len(curve)


def by_definition(uncertainty: list[float], risk: list[float]) -> float | None:
    """The mean area over all orders that descend in uncertainty."""
    blocks = [[r for u, r in zip(uncertainty, risk, strict=True) if u == level] for level in sorted(set(uncertainty))]
    orders = product(*(permutations(block) for block in blocks))
    areas = [area([r for block in order for r in block]) for order in orders]
    chance, oracle = sum(risk) / len(risk), area(sorted(risk))
    return None if oracle == chance else (chance - sum(areas) / len(areas)) / (chance - oracle)


levels = st.sampled_from([0.0, 0.25, 0.5])
cases = st.lists(st.tuples(levels, st.sampled_from([0.0, 0.125, 1.0, 3.0])), min_size=1, max_size=7)


@given(cases)
def test_ties_count_at_their_mean_over_all_orders(instances: list[tuple[float, float]]) -> None:
    uncertainty, risk = map(list, zip(*instances, strict=True))
    expected = by_definition(uncertainty, risk)
    found = prr(np.array(uncertainty), np.array(risk))
    if len(set(risk)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(expected, abs=1e-12)


def test_the_oracles_order_is_1_and_its_reverse_is_negative() -> None:
    risk = np.random.default_rng(0).exponential(size=200)
    assert prr(risk, risk) == 1.0
    assert prr(np.exp(risk), risk) == 1.0  # only the order counts
    reverse = prr(-risk, risk)
    assert reverse is not None and reverse < -0.5


def test_a_random_order_is_0_in_expectation() -> None:
    rng = np.random.default_rng(1)
    risk = rng.exponential(size=60)
    found = np.array([prr(rng.permutation(60).astype(float), risk) for _ in range(4_000)], float)
    error = found.std() / np.sqrt(len(found))
    assert abs(found.mean()) < 4 * error < 0.05


def test_the_order_of_instances_is_irrelevant() -> None:
    rng = np.random.default_rng(2)
    uncertainty, risk = rng.integers(5, size=400).astype(float), rng.exponential(size=400)
    expected = prr(uncertainty, risk)
    assert expected != 0
    for _ in range(10):
        order = rng.permutation(400)
        assert prr(uncertainty[order], risk[order]) == pytest.approx(expected, abs=1e-12)


def test_all_tied_is_0() -> None:
    assert prr(np.zeros(50), np.random.default_rng(3).random(50)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("risk", [[], [2.0], [0.0, 0.0, 0.0], [0.7, 0.7]])
def test_undefined_is_none(risk: list[float]) -> None:
    assert prr(np.arange(len(risk), dtype=float), np.array(risk)) is None


def drifting(
    rows: int, size: int, *, sizes: list[int] | None = None, seed: int = 4
) -> tuple[Trajectories, QualityScores]:
    rng = np.random.default_rng(seed)
    trajectories = running_best(rng.random((rows, size)).round(2), sizes=sizes)
    return trajectories, QualityScores("xcomet", "x", False, rng.random((rows, size)))


def windows_by_definition(
    trajectories: Trajectories, quality: QualityScores | None, k: int, w: int, budget: int
) -> float | None:
    uncertainty, risk = [], []
    for row, pool in enumerate(trajectories.sizes):
        end, window, size = min(int(pool), budget), list[float](), 0
        while size < end:
            size = min(size + k, end)
            window.append(trajectories.score[row, size - 1])
            if len(window) == w:
                if size < end:
                    now, then = (trajectories.best[row, n - 1] for n in (size, end))
                    source = trajectories.final if quality is None else quality.values
                    risk.append(abs(source[row, now] - source[row, then]))
                    uncertainty.append(max(window) - min(window))
                window = []
    return prr(np.array(uncertainty), np.array(risk))


@pytest.mark.parametrize(("k", "w", "budget"), [(2, 3, 24), (3, 2, 24), (1, 4, 22), (5, 2, 23), (4, 2, 100)])
@pytest.mark.parametrize("sizes", [None, [24] * 10 + [7] * 5 + [1] * 5 + [18] * 10])
def test_windows_are_those_of_the_definition(k: int, w: int, budget: int, sizes: list[int] | None) -> None:
    trajectories, quality = drifting(30, 24, sizes=sizes)
    for metric in (quality, None):  # by QE, the score at a window's end is the winner's own
        expected = windows_by_definition(trajectories, metric, k, w, budget)
        assert expected is not None
        assert window_prr(trajectories, metric, k, w, budget) == pytest.approx(expected, abs=1e-12)


def test_no_window_but_the_last_is_undefined() -> None:
    trajectories, quality = drifting(5, 16)
    assert window_prr(trajectories, quality, 4, 4, 16) is None
    assert window_prr(trajectories, quality, 4, 5, 16) is None
    assert window_prr(trajectories, None, 4, 3, 16) is not None


def test_only_winners_at_the_ends_of_windows_are_needed() -> None:
    trajectories, quality = drifting(4, 24)
    found = instances(trajectories, 2, 3, 24)
    needed = np.zeros(trajectories.best.shape, np.bool_)
    for size in (found.end, found.last):
        needed[found.row, trajectories.best[found.row, size - 1]] = True
    only_needed = QualityScores("xcomet", "x", False, np.where(needed, quality.values, np.nan))
    expected = window_prr(trajectories, quality, 2, 3, 24)
    assert window_prr(trajectories, only_needed, 2, 3, 24) == expected is not None
