"""Low-rank MBR: which cells it computes, what it makes of them, and when the least squares end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2
from tests.rerank.tables import Floats, QuickTable, filled, noisy, stand

from quitmt.errors import RerankError, UsageError
from quitmt.rerank import lowrank
from quitmt.rerank.lowrank import LowRank, ObservedMean


def drawn(size: int, source: str = "s", **settings: Any) -> set[tuple[int, int]]:
    """The cells that are computed of a pool without duplicates."""
    utility = QuickTable(np.ones((size, size)))
    ObservedMean(**settings).estimate(filled(utility, range(size), source), size)
    assert set(utility.requested.values()) == {1}
    return set(utility.requested)


@pytest.mark.parametrize(("size", "reduction"), [(64, 8), (100, 8), (61, 3), (512, 8), (5, 1), (3, 8), (1, 8)])
def test_one_cell_in_so_many(size: int, reduction: int) -> None:
    assert len(drawn(size, reduction=reduction)) == max(1, size**2 // reduction)


def test_all_cells_are_alike() -> None:
    size, segments = 64, 120
    counts = np.zeros((size, size))
    for segment in range(segments):
        for cell in drawn(size, str(segment)):
            counts[cell] += 1
    diagonals = np.add.outer(np.arange(size), np.arange(size)) % size
    expected = segments * size / 8
    for totals in (counts.sum(axis=0), counts.sum(axis=1), np.bincount(diagonals.ravel(), counts.ravel())):
        # drawn without replacement: the variance is 7/8 of that of counts
        found = ((totals - expected) ** 2).sum() / (expected * 7 / 8)
        assert chi2.ppf(0.001, size - 1) < found < chi2.ppf(0.999, size - 1)
    found = ((counts - segments / 8) ** 2).sum() / (segments / 8 * 7 / 8)
    assert chi2.ppf(0.001, size**2) < found < chi2.ppf(0.999, size**2)


def test_segments_and_seeds_have_cells_of_their_own() -> None:
    cells = drawn(64)
    assert cells == drawn(64)
    for others in (drawn(64, "t"), drawn(64, seed=1)):
        assert len(cells & others) == pytest.approx(512 / 8, abs=30)


@pytest.mark.parametrize(
    ("size", "larger", "kept"), [(64, 72, 0.85), (256, 264, 0.95), (504, 512, 0.97), (256, 512, 0.9)]
)
def test_most_cells_of_a_pool_serve_the_larger_one(size: int, larger: int, kept: float) -> None:
    before, after = drawn(size), drawn(larger)
    assert len(before & after) / len(before) > kept


def test_growing_computes_hardly_more_than_the_whole_at_once() -> None:
    utility, method = QuickTable(noisy(1, 256)), ObservedMean()
    cells = filled(utility, range(256))
    for size in range(8, 257, 8):
        method.estimate(cells, size)
    assert 256**2 / 8 <= cells.evaluations < 1.25 * 256**2 / 8
    assert set(utility.requested.values()) == {1}


# What it makes of them


def truly_low(seed: int, size: int, rank: int) -> Floats:
    rng = np.random.default_rng(seed)
    found: Floats = rng.random((size, rank)) @ rng.random((rank, size)) / rank
    return found


@pytest.mark.parametrize("scale", [1, 100])
def test_a_matrix_of_low_rank_is_recovered(scale: float) -> None:
    table = scale * truly_low(2, 150, 3)
    method = LowRank(reduction=4, rank=3, penalty=1e-6 * scale, tolerance=1e-8)
    estimates = method.estimate(filled(QuickTable(table), range(150)), 150)
    np.testing.assert_allclose(estimates, table.mean(axis=1), rtol=1e-4)
    sampled = ObservedMean(reduction=4).estimate(filled(QuickTable(table), range(150)), 150)
    assert abs(sampled / table.mean(axis=1) - 1).max() > 0.01  # which took more than averaging


def test_what_was_computed_keeps_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    table, size = noisy(4, 60), 60
    monkeypatch.setattr(LowRank, "_completed", lambda self, known, observed, cells: np.full(known.shape, 7.0))
    filled_in = np.full((size, size), 7.0)
    for cell in drawn(size):
        filled_in[cell] = table[cell]
    estimates = LowRank().estimate(filled(QuickTable(table), range(size)), size)
    np.testing.assert_allclose(estimates, filled_in.mean(axis=1), rtol=1e-12)


def test_with_all_cells_it_is_exact() -> None:
    table = noisy(4, 60)
    estimates = LowRank(reduction=1, rank=1).estimate(filled(QuickTable(table), range(60)), 60)
    np.testing.assert_allclose(estimates, table.mean(axis=1), rtol=1e-12)


def test_the_support_counts_duplicates() -> None:
    order = [0, 1, 0, 2, 0, 1]
    table = noisy(4, 3)
    estimates = LowRank(reduction=1).estimate(filled(QuickTable(table), order), 6)
    np.testing.assert_allclose(estimates, table[:, order].mean(axis=1), rtol=1e-12)


def test_a_sample_is_the_mean_of_its_cells_as_often_as_they_were_drawn() -> None:
    size = 80
    table, order = noisy(3, 30), np.random.default_rng(3).integers(0, 30, size)
    texts = list(dict.fromkeys(order.tolist()))
    values: dict[int, list[float]] = {text: [] for text in texts}
    for row, column in drawn(size):
        values[order[row]].append(table[order[row], order[column]])
    estimates = ObservedMean().estimate(filled(QuickTable(table), order), size)
    np.testing.assert_allclose(estimates, [np.mean(values[text]) for text in texts], rtol=1e-12)


def test_duplicates_share_their_cells() -> None:
    order = np.random.default_rng(5).integers(0, 20, 100)
    utility = QuickTable(noisy(5, 20))
    cells = filled(utility, order)
    LowRank().estimate(cells, 100)
    expected = {(order[row], order[column]) for row, column in drawn(100)}
    assert set(utility.requested) == expected and set(utility.requested.values()) == {1}
    assert cells.evaluations == len(expected) < 100**2 // 8


@pytest.mark.parametrize("method", [LowRank(), ObservedMean()])
def test_a_candidate_without_cells_does_not_win(method: LowRank) -> None:
    # Utilities below zero: what nothing is known of would be completed as zero, the best of all.
    for segment in map(str, range(20)):
        seen = {row for row, _ in drawn(8, segment)}
        assert len(seen) < 8
        assert stand(QuickTable(noisy(1, 8) - 5), method, range(8), segment).best in seen


def test_it_finds_a_good_one() -> None:
    for seed in range(3):
        table = noisy(seed, 150, 0.02)
        expected = table.mean(axis=1)
        best = stand(QuickTable(table), LowRank(), range(150)).best
        assert expected.max() - expected[best] < 0.3 * expected.std()


ESTIMATES = """
import hashlib, sys
from tests.rerank.tables import QuickTable, filled, noisy
from quitmt.rerank.lowrank import LowRank, ObservedMean
for size in map(int, sys.argv[1:]):
    table = QuickTable(noisy(1, size))
    found = LowRank().estimate(filled(table, range(size)), size)
    print(size, hashlib.sha256(found.tobytes()).hexdigest())
"""


def test_scores_do_not_depend_on_the_threads_of_blas() -> None:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), *filter(None, sys.path)])
    said = set()
    for threads in ("1", "4"):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, threads), "PYTHONPATH": path}
        command = [sys.executable, "-c", ESTIMATES, "9", "36", "257"]
        said.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(said) == 1 and len(said.pop().splitlines()) == 3


# When it ends


def estimated(
    table: Floats, monkeypatch: pytest.MonkeyPatch, sweeps: int = lowrank.SWEEPS, **settings: float
) -> Floats:
    """With so many sweeps of the least squares at most."""
    monkeypatch.setattr(lowrank, "SWEEPS", sweeps)
    return LowRank(**settings).estimate(filled(QuickTable(table), range(len(table))), len(table))  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [0.01, 100])
def test_the_least_squares_converge_on_any_scale(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """mbrs stops after one sweep on the scale from 0 to 100, for its test of convergence is absolute."""
    table = scale * truly_low(1, 120, 4)
    penalty = 0.1 * scale  # as strong as it is on the scale from 0 to 1: both terms grow alike
    found = estimated(table, monkeypatch, penalty=penalty)
    np.testing.assert_array_equal(found, estimated(table, monkeypatch, 3000, penalty=penalty))  # it ended by itself
    converged = estimated(table, monkeypatch, 3000, penalty=penalty, tolerance=1e-9)
    assert 0 < abs(found - converged).max() < 0.05 * converged.std()
    early = estimated(table, monkeypatch, 1, penalty=penalty)
    assert abs(early - converged).max() > 0.5 * converged.std()  # so more than one sweep is needed


def test_the_defaults_take_more_than_a_few_sweeps_on_both_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (noisy(1, 100), 100 * noisy(1, 100)):
        assert (estimated(table, monkeypatch) != estimated(table, monkeypatch, 3)).any()


def test_nothing_but_zeros_is_estimated_as_zeros() -> None:
    assert not LowRank().estimate(filled(QuickTable(np.zeros((30, 30))), range(30)), 30).any()


# What is refused


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_no_number_is_refused(bad: float) -> None:
    row, column = min(drawn(30))
    table = noisy(1, 30)
    table[row, column] = bad
    with pytest.raises(RerankError, match=f"segment s: the utility of candidates {row} and {column} is {bad}"):
        stand(QuickTable(table), LowRank(), range(30))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reduction": 0}, "must be 1 or more, not 0"),
        ({"rank": 0}, "rank of low-rank MBR must be 1 or more, not 0"),
        ({"penalty": 0.0}, "penalty of low-rank MBR must be positive"),
        ({"penalty": float("nan")}, "penalty of low-rank MBR must be positive"),
        ({"penalty": float("inf")}, "penalty of low-rank MBR must be positive"),
        ({"tolerance": 1.0}, "tolerance between 0 and 1"),
        ({"tolerance": float("nan")}, "tolerance between 0 and 1"),
        ({"seed": -3}, "a seed must be 0 or more, not -3"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LowRank(**settings)


def test_a_signature_has_all_that_changes_results() -> None:
    for settings in ({"reduction": 4}, {"rank": 3}, {"penalty": 0.2}, {"tolerance": 1e-3}, {"seed": 1}):
        assert LowRank(**settings).signature != LowRank().signature  # type: ignore[arg-type]
