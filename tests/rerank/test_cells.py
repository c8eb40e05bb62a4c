"""Cells on demand: none is computed twice, all are counted, and what goes wrong stays in its segment."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.comet.folders import make_folder
from tests.rerank.tables import QuickTable, Table, Vectors, filled, noisy

from quitmt import rerank
from quitmt.errors import QuitmtError, RerankError
from quitmt.metrics.chrf import Chrf
from quitmt.metrics.comet import Comet, CometUtility
from quitmt.metrics.devices import Hardware
from quitmt.protocols import Update, UtilityTraits
from quitmt.rerank import variants
from quitmt.rerank.accelerated import Accelerated
from quitmt.rerank.cells import Cells
from quitmt.rerank.lowrank import LowRank, ObservedMean
from quitmt.rerank.prune import Prune
from quitmt.types import Candidate, Effort, Segment, Snapshot

Pool = Callable[[int, int], list[str]]
Request = tuple[list[int], list[int]] | tuple[list[int], range]
numbers = st.integers(0, 11)
blocks = st.tuples(
    st.lists(numbers, min_size=1, unique=True), st.tuples(numbers, numbers).map(lambda s: range(min(s), max(s) + 1))
)
pairs = st.lists(st.tuples(numbers, numbers), min_size=1).map(lambda some: tuple(map(list, zip(*some, strict=True))))


@given(st.lists(blocks | pairs, min_size=1, max_size=8))
def test_whatever_is_asked_no_cell_is_computed_twice(requests: list[Request]) -> None:
    utility = QuickTable(noisy(1, 12))
    cells, wanted = filled(utility, range(12)), set()
    for rows, columns in requests:
        down = np.array(rows)
        if isinstance(columns, range):
            np.testing.assert_array_equal(cells.block(down, columns), utility.matrix[np.ix_(down, columns)])
            wanted |= {(row, column) for row in rows for column in columns}
        else:
            np.testing.assert_array_equal(cells.pairs(down, np.array(columns)), utility.matrix[down, columns])
            wanted |= set(zip(rows, columns, strict=True))
        assert set(utility.requested) == wanted and set(utility.requested.values()) == {1}
        assert cells.evaluations == len(wanted)


def test_rows_that_lack_the_same_go_together() -> None:
    calls = []

    class Grouping(QuickTable):
        def block(self, arena: list[int], rows: Any, columns: range) -> Any:
            calls.append((rows.tolist(), columns))
            return super().block(arena, rows, columns)

        def pairs(self, arena: list[int], rows: Any, columns: Any) -> Any:
            calls.append((rows.tolist(), columns.tolist()))
            return super().pairs(arena, rows, columns)

    cells = filled(Grouping(noisy(1, 9)), range(9))
    cells.block(np.array([0, 1, 2]), range(4))
    cells.block(np.array([5]), range(4, 6))
    cells.pairs(np.array([6]), np.array([3]))
    calls.clear()
    cells.block(np.array([0, 2, 3, 5, 6]), range(6))
    assert calls == [([5], range(4)), ([3], range(6)), ([0, 2], range(4, 6)), ([6] * 5, [0, 1, 2, 4, 5])]


def test_cells_stay_when_the_pool_grows() -> None:
    utility = QuickTable(noisy(2, 40))
    cells = filled(utility, range(5))
    cells.block(np.arange(5), range(5))
    cells.extend([Candidate(str(number)) for number in range(40)])
    utility.encode([(cells.arena, cells.new)])
    cells.make_room()
    assert (cells.size, cells.encoded, cells.evaluations) == (45, 40, 25)
    np.testing.assert_array_equal(cells.block(np.arange(40), range(40)), utility.matrix)
    assert set(utility.requested.values()) == {1} and cells.evaluations == 1600


def test_counts_are_those_of_a_prefix() -> None:
    cells = filled(QuickTable(noisy(2, 4)), [2, 0, 2, 1, 0, 2])
    assert [cells.counts(size).tolist() for size in (1, 3, 6)] == [[1], [2, 1], [3, 2, 1]]
    assert cells.first == [0, 1, 3]


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
def test_a_mean_is_added_up_in_the_order_of_the_pool(rows: int) -> None:
    order = np.random.default_rng(1).integers(0, 30, 200)
    cells, table = filled(QuickTable(noisy(1, 30)), order), np.random.default_rng(2).random((rows, 30))
    numbers = np.array(cells.order)
    means = cells.mean(table[:, : numbers.max() + 1], 200, np.arange(rows) % 30)
    np.testing.assert_allclose(means, table[:, numbers].mean(axis=1), rtol=1e-12)
    if rows > 1:
        np.testing.assert_array_equal(means, table[:, numbers].cumsum(axis=1)[:, -1] / 200)


class PairsAlone(Table):
    pairs = QuickTable.pairs


@pytest.mark.parametrize("kind", [Table, PairsAlone, QuickTable])
def test_a_utility_without_ways_of_its_own_gives_the_same(kind: type[Table]) -> None:
    utility = kind(noisy(3, 20))
    cells = filled(utility, range(20))
    rows, columns = np.array([3, 3, 19, 0]), np.array([4, 0, 19, 7])
    np.testing.assert_array_equal(cells.pairs(rows, columns), utility.matrix[rows, columns])
    np.testing.assert_array_equal(cells.block(np.array([7, 3, 1]), range(2, 15)), utility.matrix[[7, 3, 1], 2:15])
    assert set(utility.requested.values()) == {1} and cells.evaluations == len(utility.requested)


def test_effort(make_pool: Pool) -> None:
    texts = make_pool(4, 100)
    distinct = len(set(texts))
    for variant, evaluations in (("exact", distinct**2), ("aggregate:top=0", distinct)):
        reranker: Any = rerank.load("mbr:chrf", variant=variant)
        state = reranker.open(Segment("s"))
        assert reranker.effort(state) == Effort(0, 0, 0)
        reranker.extend([Update(state, [Candidate(text) for text in texts], 100)])
        assert reranker.effort(state) == Effort(evaluations, 100**2, distinct)


# What goes wrong


def extend(reranker: Any, pools: dict[str, list[str]]) -> list[list[Snapshot] | QuitmtError]:
    found = reranker.extend(
        [Update(reranker.open(Segment(name)), [Candidate(text) for text in texts], 99) for name, texts in pools.items()]
    )
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("method", [Prune(), LowRank(), ObservedMean()])
def test_a_utility_that_raises_fails_its_own_segment_only(method: Any) -> None:
    class Broken(QuickTable):
        def block(self, arena: list[int], rows: Any, columns: range) -> Any:
            return self._checked(arena) or super().block(arena, rows, columns)

        def pairs(self, arena: list[int], rows: Any, columns: Any) -> Any:
            return self._checked(arena) or super().pairs(arena, rows, columns)

        def _checked(self, arena: list[int]) -> None:
            if 7 in arena:
                raise ZeroDivisionError("by seven")

    reranker = Accelerated(Broken(noisy(1, 30)), method)
    before = [*map(str, range(7))]
    fine, broken, other = extend(reranker, {"fine": before, "broken": [*before, "7"], "other": before[:2]})
    assert isinstance(fine, list) and isinstance(other, list) and len(fine) == len(other) == 1
    assert isinstance(broken, RerankError)
    assert str(broken).startswith("segment broken: the utility failed: ZeroDivisionError: by seven (test_cells.py, ")


def test_an_encoder_that_fails_fails_all_of_the_call() -> None:
    class Broken(QuickTable):
        fails = True

        def encode(self, batch: Any) -> None:
            if self.fails:
                raise MemoryError("too much")
            super().encode(batch)

    utility = Broken(noisy(1, 9))
    reranker = Accelerated(utility, Prune())
    errors = extend(reranker, {"a": ["1"], "b": ["2", "3"]})
    told = [str(error).partition(" (")[0] for error in errors]
    assert told == [f"segment {name}: the utility failed: MemoryError: too much" for name in "ab"]
    utility.fails = False
    assert extend(reranker, {"a": ["1"]}) == [[Snapshot(1, 0, 1.0)]]


@pytest.mark.parametrize("variant", ["prune", "lowrank", "aggregate", "aggregate:top=2", "centroid"])
def test_a_text_that_cannot_be_encoded_fails_its_own_segment_only(variant: str) -> None:
    class Picky(Vectors):
        traits = UtilityTraits(encodes_whole=True)
        picky = True

        def encode(self, batch: Any) -> None:
            if self.picky and any("7" in texts for _, texts in batch):
                raise ZeroDivisionError("by seven")
            super().encode(batch)

    utility = Picky(noisy(1, 30))
    reranker: Any = Accelerated(utility, variants.load(variant))
    fine, broken = (reranker.open(Segment(name)) for name in ("fine", "broken"))
    first, second = reranker.extend([Update(fine, numbered(1, 2), 2), Update(broken, numbered(5, 6), 2)])
    assert isinstance(first, list) and isinstance(second, list)
    first, second = reranker.extend([Update(fine, numbered(3, 4), 2), Update(broken, numbered(6, 7), 2)])
    alone = reranker.open(Segment("fine"))
    assert first == reranker.extend([Update(alone, numbered(1, 2, 3, 4), 4)])[0]
    assert str(second).startswith("segment broken: the utility failed: ZeroDivisionError: by seven (test_cells.py, ")
    utility.picky = False
    [found] = reranker.extend([Update(broken, numbered(8), 1)])
    assert [snapshot.size for snapshot in found] == [5]


def numbered(*numbers: int) -> list[Candidate]:
    return [Candidate(str(number)) for number in numbers]


def test_an_error_of_ours_is_told_as_it_is() -> None:
    class Refusing(QuickTable):
        def encode(self, batch: Any) -> None:
            raise RerankError("segment x: not this")

    assert [str(error) for error in extend(Accelerated(Refusing(noisy(1, 3)), Prune()), {"a": ["1"]})] == [
        "segment x: not this"
    ]


# What utilities offer


def test_chrf_s_blocks_and_pairs_are_compare_bit_for_bit(make_pool: Pool) -> None:
    rng, utility = random.Random(1), Chrf()
    texts = ["", "a", "猫", *dict.fromkeys(make_pool(1, 80)), "ab c", "abc"]
    arena = utility.open(Segment("s"))
    utility.encode([(arena, texts)])
    whole, _ = utility.compare(arena, range(len(texts)), range(len(texts)))
    for _ in range(60):
        rows = np.array(rng.choices(range(len(texts)), k=rng.randrange(0, 40)), np.int64)
        columns = range(*sorted(rng.sample(range(len(texts) + 1), 2)))
        np.testing.assert_array_equal(utility.block(arena, rows, columns), whole[rows][:, columns.start : columns.stop])
        across = np.array(rng.choices(range(len(texts)), k=len(rows)), np.int64)
        np.testing.assert_array_equal(utility.pairs(arena, rows, across), whole[rows, across])
    with pytest.raises(IndexError):
        utility.block(arena, np.array([0]), range(len(texts) + 1))


@pytest.mark.parametrize("checkpoint", ["regression", "regression-norm"])
def test_comet_s_blocks_and_pairs_are_compare(checkpoint: str, tmp_path: Any, make_pool: Pool) -> None:
    rng = random.Random(2)
    utility = CometUtility(Comet(str(make_folder(tmp_path, checkpoint)), Hardware(device="cpu")))
    texts = ["", *dict.fromkeys(make_pool(1, 60))]
    arena = utility.open(Segment("s", "The old cat slept near the house."))
    utility.encode([(arena, texts)])
    whole, _ = utility.compare(arena, range(len(texts)), range(len(texts)))
    assert abs(whole - whole.T).max() > 0.001
    for _ in range(12):
        rows = np.array(rng.choices(range(len(texts)), k=rng.randrange(1, 50)), np.int64)
        columns = range(*sorted(rng.sample(range(len(texts) + 1), 2)))
        expected = whole[rows][:, columns.start : columns.stop]
        np.testing.assert_allclose(utility.block(arena, rows, columns), expected, rtol=0, atol=1e-5)
        across = np.array(rng.choices(range(len(texts)), k=len(rows)), np.int64)
        np.testing.assert_allclose(utility.pairs(arena, rows, across), whole[rows, across], rtol=0, atol=1e-5)


def test_cells_without_a_segment_s_text_have_their_own_random_numbers() -> None:
    utility = QuickTable(noisy(1, 3))
    one, other = Cells(Segment("a"), utility), Cells(Segment("b"), utility)
    assert one.random(0).integers(1 << 60) == Cells(Segment("a"), utility).random(0).integers(1 << 60)
    draws = {stream.integers(1 << 60) for stream in (one.random(0), other.random(0), one.random(1), one.random(0, 1))}
    assert len(draws) == 4
