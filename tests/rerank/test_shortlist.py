"""Two methods in a row: the second decides among those that the first likes best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.rerank.tables import Floats, QuickTable, Vectors, filled, noisy, stand

from quitmt.errors import UsageError
from quitmt.metrics.chrf import Chrf
from quitmt.protocols import Update
from quitmt.rerank import variants
from quitmt.rerank.accelerated import Accelerated, Method
from quitmt.rerank.cells import Cells
from quitmt.rerank.centroid import Centroid
from quitmt.rerank.lowrank import LowRank
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.prune import Prune
from quitmt.rerank.shortlist import Exact, Shortlist
from quitmt.types import Candidate, Segment

FIRST = ["lowrank", "sample", "centroid:centroids=8", "aggregate"]


def vectors(seed: int, size: int = 90) -> Vectors:
    rng = np.random.default_rng(seed)
    return Vectors(rng.normal(0, 1, (6, 5))[rng.integers(0, 6, size)] + rng.normal(0, 0.3, (size, 5)), seed)


def method(spec: str) -> Method:
    found = variants.load(spec)
    assert found
    return found


def with_top(first: str, top: int, second: str) -> Method:
    return method(f"{first}{',' if ':' in first else ':'}top={top}{second}")


@pytest.mark.parametrize("first", FIRST)
def test_the_second_decides_among_the_top_of_the_first(first: str) -> None:
    decided = 0
    for seed in range(6):
        order = np.random.default_rng(seed).integers(0, 90, 120)
        utility = vectors(seed)
        texts = list(dict.fromkeys(order.tolist()))
        exact = utility.matrix[np.ix_(texts, order)].mean(axis=1)
        coarse = method(first if first != "aggregate" else "aggregate:top=0").estimate(filled(utility, order), 120)
        short = sorted(np.argsort(-coarse, kind="stable")[:6].tolist())
        best = max(short, key=lambda number: exact[number])
        found = stand(vectors(seed), with_top(first, 6, "+exact"), order)
        assert order[found.best] == texts[best] and found.score == pytest.approx(exact[best])
        assert found == stand(vectors(seed), with_top(first, 6, ""), order)
        pruned = Prune().among(filled(utility, order), 120, np.array(short))
        assert order[stand(vectors(seed), with_top(first, 6, "+prune"), order).best] == texts[int(pruned.argmax())]
        decided += int(coarse.argmax() != best)
    assert decided or first in ("aggregate",)  # a mean loses nothing with this utility


@pytest.mark.parametrize("first", FIRST)
def test_with_a_long_enough_list_it_is_the_second(first: str) -> None:
    for seed in range(4):
        order = np.random.default_rng(seed).integers(0, 90, 120)
        assert stand(vectors(seed), with_top(first, 90, "+prune"), order) == stand(vectors(seed), Prune(), order)


@pytest.mark.parametrize("first", ["lowrank", "sample", "aggregate"])
def test_with_a_long_enough_list_exact_is_exact_to_the_bit(first: str, make_pool: Any) -> None:
    for seed in range(3):
        pool = [Candidate(text) for text in make_pool(seed, 70)]
        exact, listed = Mbr(Chrf()), Accelerated(Chrf(), with_top(first, 70, "+exact"))
        [expected] = exact.extend([Update(exact.open(Segment("s")), pool, 7)])
        [found] = listed.extend([Update(listed.open(Segment("s")), pool, 7)])
        assert found == expected


def test_the_first_s_cells_are_not_computed_again() -> None:
    for second in (Exact(), Prune()):
        utility = QuickTable(noisy(1, 120))
        cells: Cells[Any] = filled(utility, range(120))
        Shortlist(LowRank(), second, 20).estimate(cells, 120)
        assert set(utility.requested.values()) == {1}
        assert cells.evaluations == len(utility.requested)


def test_equal_estimates_keep_the_lower_index() -> None:
    class Indifferent:
        signature = "indifferent"

        def check(self, utility: object) -> None: ...

        def estimate(self, cells: Cells[Any], size: int) -> Floats:
            return np.zeros(len(cells.counts(size)))

    utility = QuickTable(noisy(2, 50))
    found = stand(utility, Shortlist(Indifferent(), Exact(), 10), range(50))
    assert {row for row, _ in utility.requested} == set(range(10))
    assert found.best == int(utility.matrix[:10].mean(axis=1).argmax())


def test_a_list_of_none_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1 candidate, not 0"):
        Shortlist(Centroid(), Exact(), 0)


def test_what_the_first_needs_is_checked() -> None:
    with pytest.raises(UsageError):
        Accelerated(Chrf(), method("centroid+prune"))
