"""What each accelerated method makes of anchors, and of samples that are not their own judges: against plain loops."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.cluster.vq import kmeans2
from tests.rerank.tables import Floats, QuickTable, Vectors, filled, judged, noisy, stand

from quitmt.metrics.chrf import Chrf
from quitmt.protocols import Update
from quitmt.rerank.accelerated import Accelerated
from quitmt.rerank.aggregate import Aggregate
from quitmt.rerank.anchors import SAMPLES
from quitmt.rerank.centroid import Centroid
from quitmt.rerank.lowrank import LowRank, ObservedMean
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.prune import Prune
from quitmt.types import Candidate, Segment

ANCHORS = [3, 30, 31, 30]
"""3 is a sample too, the others are none where samples are below 30."""


def drawn_order(seed: int, size: int, texts: int = 30) -> list[int]:
    rng = np.random.default_rng(seed)
    found = rng.choice(texts, size, p=rng.dirichlet(np.full(texts, 0.5)))
    found[size // 2] = 3
    return [int(one) for one in found]


def texts_of(order: Sequence[int]) -> list[int]:
    """In the order of their numbers: anchors, then samples."""
    return list(dict.fromkeys([*ANCHORS, *order]))


def pruned(
    matrix: Floats, order: Sequence[int], anchors: Sequence[int], resamples: int
) -> tuple[int, set[tuple[int, int]]]:
    """The winning text and the utilities that it takes: a row for each text, a column for each sample; the column of a
    text's first copy is not in its row."""
    alive, requested = list(dict.fromkeys([*anchors, *order])), set()

    def columns(text: int, seen: Sequence[int]) -> list[int]:
        """Without the first copy; ``seen`` are indices of samples, some perhaps several times."""
        return [index for index in seen if text not in order or index != order.index(text)]

    def mean(text: int, seen: Sequence[int]) -> float:
        return float(np.mean([matrix[text, order[index]] for index in columns(text, seen)]))

    for seen in (8, 16, 32, 64, len(order)):
        if seen >= len(order) or len(alive) == 1:
            break
        requested |= {(text, judge) for text in alive for judge in order[:seen]}
        best = max(alive, key=lambda text: mean(text, range(seen)))
        drawn = np.random.default_rng([0, zlib.crc32(b"s"), seen]).integers(0, seen, (resamples, seen))
        wins = {text: sum(mean(text, one) >= mean(best, one) for one in drawn.tolist()) for text in alive}
        alive = [text for text in alive if Fraction(wins[text], resamples) > 1 - Fraction("0.99")]
    if len(alive) > 1:
        requested |= {(text, judge) for text in alive for judge in order}
    return max(alive, key=lambda text: mean(text, range(len(order)))), requested


@pytest.mark.parametrize("size", [40, 64, 100])
def test_pruning_against_a_plain_version(size: int) -> None:
    dropped = 0
    for seed in range(3):
        matrix, order = noisy(seed, 32), drawn_order(seed, size)
        text, expected = pruned(matrix, order, ANCHORS, 100)
        utility = QuickTable(matrix)
        found = stand(utility, Prune(resamples=100), order, anchors=ANCHORS, support="others")
        assert (order[found.best] if found.best >= 0 else ANCHORS[-1 - found.best]) == text
        assert set(utility.requested) == expected and set(utility.requested.values()) == {1}
        dropped += len(expected) < len(texts_of(order)) * len(set(order))
    assert dropped


def test_pruning_asks_for_no_utility_with_an_anchor_as_reference() -> None:
    for support in ("all", "others"):
        utility = QuickTable(noisy(1, 32))
        stand(utility, Prune(), drawn_order(1, 50), anchors=ANCHORS, support=support)  # type: ignore[arg-type]
        assert {column for _, column in utility.requested}.isdisjoint({30, 31})
        assert {30, 31} <= {row for row, _ in utility.requested}


@pytest.mark.parametrize("schedule", [(1,), (1, 2, 4), (2,)])
def test_pruning_by_prefixes_so_short_that_a_sample_has_no_judge_there(schedule: tuple[int, ...]) -> None:
    """A resample of 2 samples is one sample twice, every other time: it says nothing of that one."""
    matrix = noisy(1, 32)
    for seed in range(10):
        order = drawn_order(seed, 6)
        found = stand(QuickTable(matrix), Prune(schedule=schedule), order, anchors=[30], support="others")
        assert np.isfinite(found.score)
        alone = stand(QuickTable(matrix), Prune(schedule=schedule), order, support="others")
        assert np.isfinite(alone.score) and alone.best >= 0


# Low rank


def requested(size: int, **settings: Any) -> set[tuple[int, int]]:
    """The cells that are drawn of a pool without duplicates, with two anchors that are not among it."""
    utility = QuickTable(np.ones((size + 2, size + 2)))
    cells = filled(utility, range(size), anchors=[size, size + 1], others=True)
    ObservedMean(**settings).estimate(cells, size)
    return set(utility.requested)


@pytest.mark.parametrize(("size", "reduction"), [(64, 8), (61, 3), (5, 1), (3, 8), (2, 1), (1, 1)])
def test_one_cell_in_so_many_and_none_of_the_diagonal(size: int, reduction: int) -> None:
    found = requested(size, reduction=reduction)
    assert len(found) == max(1, ((size + 2) * size - size) // reduction)
    assert all(row != column and column < size for row, column in found)
    if size > 5:
        assert {row for row, _ in found} >= {size, size + 1}


def test_samples_have_the_cells_that_they_have_without_anchors() -> None:
    """Numbers belong to cells for good: anchors only make a few more or fewer of them be drawn."""
    utility = QuickTable(np.ones((64, 64)))
    ObservedMean().estimate(filled(utility, range(64)), 64)
    before, after = {cell for cell in utility.requested if cell[0] != cell[1]}, requested(64)
    assert len(before & after) > 0.95 * len(before)


def test_a_sample_of_cells_is_averaged_as_often_as_they_were_drawn() -> None:
    matrix, order = noisy(2, 32), drawn_order(2, 70)
    utility, table = QuickTable(matrix), noisy(2, 200)
    # The same pool with a text for each candidate, to see which cells are drawn. Anchors that are no samples are first.
    apart = QuickTable(table)
    ObservedMean().estimate(filled(apart, range(70), anchors=[100, 101], others=True), 70)
    name = {100: 30, 101: 31} | dict(enumerate(order))
    values: dict[int, list[float]] = {}
    for row, column in apart.requested:
        values.setdefault(name[row], []).append(matrix[name[row], name[column]])
    estimates = ObservedMean().estimate(filled(utility, order, anchors=[30, 31], others=True), 70)
    texts = list(dict.fromkeys([30, 31, *order]))
    assert set(values) == {text for text, one in zip(texts, estimates, strict=True) if np.isfinite(one)}
    for text, one in zip(texts, estimates, strict=True):
        assert text not in values or one == pytest.approx(np.mean(values[text]))


@pytest.mark.parametrize("others", [False, True])
def test_a_matrix_of_low_rank_is_recovered(others: bool) -> None:
    rng = np.random.default_rng(1)
    matrix: Floats = rng.random((100, 3)) @ rng.random((3, 100)) / 3
    order = [*range(90), *range(20)]
    method = LowRank(reduction=4, rank=3, penalty=1e-6, tolerance=1e-8)
    found = method.estimate(filled(QuickTable(matrix), order, anchors=[95, 3, 96], others=others), 110)
    texts = list(dict.fromkeys([95, 3, 96, *order]))
    expected = [judged(matrix, order, text) if others else matrix[text, order].mean() for text in texts]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


# Means


def linear(seed: int) -> Vectors:
    return Vectors(np.random.default_rng(seed).standard_normal((32, 5)), seed)


MEANS = [Aggregate(0), Centroid(8, weighted=True), Centroid(40), Centroid(40, weighted=True)]


@pytest.mark.parametrize("method", MEANS)
def test_with_a_utility_that_is_linear_a_mean_without_oneself_is_exact(method: Any) -> None:
    for seed in range(4):
        utility, order = linear(seed), drawn_order(seed, 60)
        texts = texts_of(order)
        found = method.estimate(filled(utility, order, anchors=ANCHORS, others=True), 60)
        np.testing.assert_allclose(found, [judged(utility.matrix, order, text) for text in texts], atol=1e-9)
        found = method.estimate(filled(utility, order, anchors=ANCHORS), 60)
        np.testing.assert_allclose(found, [utility.matrix[text, order].mean() for text in texts], atol=1e-9)


def test_clusters_that_count_alike_are_each_without_oneself() -> None:
    """A cluster of one has nothing to say of its member."""
    lonely = 0
    for seed in range(4):
        utility, order = linear(seed), drawn_order(seed, 60)
        cells = filled(utility, order, anchors=ANCHORS, others=True)
        _, labels = kmeans2(utility.rows[order], 12, iter=10, minit="++", rng=cells.random(0, 60))
        expected = []
        for text in texts_of(order):
            means = []
            for label in set(labels.tolist()):
                judges = [one for one, its in zip(order, labels, strict=True) if its == label]
                if text in judges:
                    judges.remove(text)
                if judges:
                    means.append(np.mean([utility.matrix[text, judge] for judge in judges]))
                lonely += not judges
            expected.append(np.mean(means))
        np.testing.assert_allclose(Centroid(12).estimate(cells, 60), expected, atol=1e-9)
    assert lonely


def test_an_aggregate_costs_one_utility_for_each_text_and_one_for_each_sample() -> None:
    order = drawn_order(1, 60)
    cells = filled(linear(1), order, anchors=ANCHORS, others=True)
    Aggregate(0).estimate(cells, 60)
    assert cells.evaluations == len(texts_of(order)) + len(set(order))


# Short lists


def test_exact_mbr_decides_among_the_top_of_an_aggregate() -> None:
    anchored = 0
    for seed in range(24):
        utility, order = linear(seed), drawn_order(seed, 60)
        texts = texts_of(order)
        coarse = Aggregate(0).estimate(filled(utility, order, anchors=ANCHORS, others=True), 60)
        short = [texts[place] for place in np.argsort(-coarse, kind="stable")[:5]]
        expected = max(short, key=lambda text: judged(utility.matrix, order, text))
        found = stand(linear(seed), Aggregate(5), order, anchors=ANCHORS, support="others")
        assert (order[found.best] if found.best >= 0 else ANCHORS[-1 - found.best]) == expected
        assert found.score == pytest.approx(judged(utility.matrix, order, expected))
        anchored += found.best < 0
    assert anchored


def test_equal_estimates_keep_anchors_then_the_lowest_index() -> None:
    """The anchor 9 is also the ninth sample, so it is kept neither as an anchor nor as one of the first samples."""
    cells = filled(Vectors(np.zeros((20, 2))), range(12), anchors=[9, 15, 16], others=True)
    found = Aggregate(4).estimate(cells, 12)
    kept = [list(cells.number)[place] for place in np.flatnonzero(np.isfinite(found))]
    assert sorted(kept) == ["0", "1", "15", "16"]


@pytest.mark.parametrize("support", SAMPLES)
@pytest.mark.parametrize("method", [Prune(schedule=(1000,)), Aggregate(99)])
def test_with_chrf_and_nothing_left_out_it_is_exact_mbr_bit_for_bit(method: Any, support: Any, make_pool: Any) -> None:
    for seed in range(2):
        pool = [Candidate(text) for text in make_pool(seed, 40)]
        anchors = [Candidate(text) for text in (pool[30].text, "o gato", *make_pool(seed, 2)[1:], "o gato")]
        exact: Any = Mbr(Chrf(), support)
        listed: Any = Accelerated(Chrf(), method, support)
        updates = [Update(one.open(Segment("s")), pool, 1, anchors) for one in (exact, listed)]
        assert listed.extend(updates[1:]) == exact.extend(updates[:1])
