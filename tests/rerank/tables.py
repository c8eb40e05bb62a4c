"""A utility that is a matrix, for tests of methods that do without most of it: text "7" is row and column 7."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError
from quitmt.protocols import Update
from quitmt.rerank.accelerated import Accelerated, Method
from quitmt.rerank.anchors import Support
from quitmt.rerank.cells import Cells
from quitmt.types import Candidate, Segment, Snapshot

Floats = npt.NDArray[np.float64]


class Table:
    """Has what every utility has; ``asked`` counts the cells that were wanted, by row and column."""

    signature = "table"

    def __init__(self, matrix: npt.ArrayLike) -> None:
        self.matrix: Floats = np.array(matrix, np.float64)
        self.requested: Counter[tuple[int, int]] = Counter()

    def open(self, segment: Segment) -> list[int]:
        return []

    def encode(self, batch: Sequence[tuple[list[int], Sequence[str]]]) -> None:
        for arena, texts in batch:
            arena.extend(map(int, texts))

    def compare(self, arena: list[int], rows: range, columns: range) -> tuple[Floats, Floats]:
        down, across = arena[rows.start : rows.stop], arena[columns.start : columns.stop]
        self.requested.update((row, column) for row in down for column in across)
        return self.matrix[np.ix_(down, across)], self.matrix[np.ix_(across, down)].T


class QuickTable(Table):
    """Has ways of its own for some cells, too."""

    def block(self, arena: list[int], rows: npt.NDArray[np.int64], columns: range) -> Floats:
        down, across = [arena[row] for row in rows], arena[columns.start : columns.stop]
        self.requested.update((row, column) for row in down for column in across)
        return self.matrix[np.ix_(down, across)]

    def pairs(self, arena: list[int], rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]) -> Floats:
        down, across = np.array(arena)[rows], np.array(arena)[columns]
        self.requested.update(zip(down.tolist(), across.tolist(), strict=True))
        return self.matrix[down, across]


class Vectors(QuickTable):
    """Texts are vectors, and u(h, r) = h·A·r is linear in the reference: that of a mean is the mean of utilities."""

    signature = "vectors"

    def __init__(self, vectors: npt.ArrayLike, seed: int = 0) -> None:
        self.rows: Floats = np.array(vectors, np.float64)
        width = self.rows.shape[1]
        self.form = np.random.default_rng(seed).standard_normal((width, width))
        super().__init__(self.rows @ self.form @ self.rows.T)

    def vectors(self, arena: list[int]) -> Floats:
        return self.rows[arena]

    def against(self, arena: list[int], rows: range, weights: Floats) -> Floats:
        texts = self.rows[arena]
        return texts[rows.start : rows.stop] @ self.form @ (weights @ texts[: weights.shape[1]]).T


def filled(
    utility: Any, order: Iterable[int], source: str = "s", *, anchors: Iterable[int] = (), others: bool = False
) -> Cells[Any]:
    """The cells of a pool whose candidates are rows of a table; random numbers follow the source."""
    cells: Cells[Any] = Cells(Segment("s", source), utility, others=others)
    cells.extend([Candidate(str(number)) for number in order], [Candidate(str(number)) for number in anchors])
    utility.encode([(cells.arena, cells.new)])
    cells.make_room()
    return cells


def stand(
    utility: Any,
    method: Method,
    texts: Iterable[object],
    source: str = "s",
    *,
    anchors: Iterable[object] = (),
    support: Support = "all",
) -> Snapshot:
    """Where a method stands after a whole pool."""
    reranker: Accelerated[Any] = Accelerated(utility, method, support)
    pool, first = ([Candidate(str(text)) for text in some] for some in (texts, anchors))
    [result] = reranker.extend([Update(reranker.open(Segment("s", source)), pool, len(pool), first)])
    if isinstance(result, QuitmtError):
        raise result
    [snapshot] = result
    return snapshot


def judged(matrix: Floats, order: Sequence[int], text: int) -> float:
    """What the samples say of a text, a sample without one copy of itself."""
    judges = list(order)
    if text in judges:
        judges.remove(text)
    return float(np.mean([matrix[text, judge] for judge in judges]))


def noisy(seed: int, size: int, noise: float = 0.1) -> Floats:
    """Utilities of candidates of unequal quality, with noise: between 0 and 1, and no two of them equal."""
    rng = np.random.default_rng(seed)
    quality, ease = rng.beta(5, 3, size), rng.normal(0, 0.1, size)
    found: Floats = 1 / (1 + np.exp(-(2 * quality[:, None] + ease + noise * 10 * rng.standard_normal((size, size)))))
    np.fill_diagonal(found, 1.0)
    return found
