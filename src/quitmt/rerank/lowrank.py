"""PMBR (Trabelsi et al. 2024): compute a part of the utility matrix, and complete the rest as a product of rank r.

Of the n² cells of the first n candidates, the n²/``reduction`` with the lowest random numbers are computed. A cell
keeps its random number, so most cells of a smaller pool are cells of the larger one, too. Alternating least squares
minimise Σ (u − x·y)² + λ(|x|² + |y|²) over the computed cells. They end when a sweep lowers this sum by less than the
share ``tolerance``: an absolute test would stop after one sweep on another scale, and the first term alone may rise
while the sum still falls. Computed cells keep their value.

Invariant: every sum in the least squares has a fixed order, so scores don't depend on threads or processors, bit for
bit; products by BLAS would add in as many orders as it has kernels and threads.

Duplicates share their cells, so more than 1/``reduction`` of the n² may be known at the same cost.

Anchors are rows of the matrix without a column, unless they are among the samples. Where a sample doesn't judge itself,
the n cells of the diagonal are neither drawn nor counted in a mean. Two copies of a text still judge each other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.compiled import kernel
from quitmt.errors import UsageError
from quitmt.protocols import Utility
from quitmt.rerank.cells import Cells, Floats, Ints, checked_seed
from quitmt.signature import field

SWEEPS = 50


class LowRank:
    def __init__(
        self, reduction: int = 8, rank: int = 10, penalty: float = 0.1, tolerance: float = 1e-4, seed: int = 0
    ) -> None:
        if reduction < 1:
            raise UsageError(f"the reduction of low-rank MBR must be 1 or more, not {reduction}")
        if rank < 1:
            raise UsageError(f"the rank of low-rank MBR must be 1 or more, not {rank}")
        if not (0 < penalty < math.inf and 0 < tolerance < 1):
            raise UsageError("the penalty of low-rank MBR must be positive and its tolerance between 0 and 1")
        self.reduction, self.rank, self.penalty, self.tolerance = reduction, rank, penalty, tolerance
        self.seed = checked_seed(seed)
        settings = f"rank:{rank},l:{field(penalty)},tol:{field(tolerance)}"
        self.signature = f"lowrank,{settings},1/{reduction},seed:{seed}"

    def check(self, utility: Utility[Any]) -> None:
        """Accept any utility."""

    def estimate(self, cells: Cells[Any], size: int) -> Floats:
        drawn = self._drawn(cells, size)
        rows, columns = np.nonzero(drawn)
        known = np.zeros(drawn.shape)
        known[rows, columns] = cells.pairs(rows, columns)
        # The score of a row without cells is unknown.
        return np.where(drawn.any(axis=1), self._means(cells, size, known, drawn), -np.inf)

    def _means(self, cells: Cells[Any], size: int, known: Floats, drawn: Ints) -> Floats:
        """Return each row's mean over its known cells and the completed rest."""
        return cells.mean(np.where(drawn > 0, known, self._completed(known, drawn > 0, cells)), size)

    def _drawn(self, cells: Cells[Any], size: int) -> Ints:
        """Count how often each cell of distinct texts was drawn; duplicates may draw it several times."""
        counts = cells.counts(size)
        texts, order = len(counts), np.array(cells.order[:size])
        (anchors,) = np.nonzero(counts == 0)
        rows = np.concatenate((np.array(cells.first)[anchors], np.arange(size)))
        numbers = self._random_numbers(cells, rows, size).ravel()
        there = np.flatnonzero((rows[:, None] != np.arange(size)).ravel()) if cells.others else np.arange(len(numbers))
        if not len(there):  # a single sample
            return np.zeros((texts, texts), np.int64)
        wanted = max(1, len(there) // self.reduction)
        chosen = there[np.argpartition(numbers[there], wanted - 1)[:wanted]]
        cell = np.concatenate((anchors, order))[chosen // size] * texts + order[chosen % size]
        return np.bincount(cell, minlength=texts * texts).reshape(texts, texts)

    def _random_numbers(self, cells: Cells[Any], rows: Ints, size: int) -> npt.NDArray[np.uint64]:
        """Return one number per cell, which depends only on (seed, segment, row, column); rows have candidates."""
        key = cells.random(self.seed).integers(0, 1 << 62, dtype=np.uint64)
        columns = np.arange(size, dtype=np.uint64)
        return _mixed(_mixed(rows.astype(np.uint64) + key)[:, None] ^ (columns + (key >> np.uint64(7)))[None])

    def _completed(self, known: Floats, observed: npt.NDArray[np.bool_], cells: Cells[Any]) -> Floats:
        rows, columns = _Rows(known, observed), _Rows(known.T, observed.T)
        right = cells.random(self.seed, 1).standard_normal((known.shape[1], self.rank)) / np.sqrt(self.rank)
        before = np.inf
        for _ in range(SWEEPS):
            left = _solved(rows, right, self.penalty)
            right = _solved(columns, left, self.penalty)
            loss = squared_errors(rows.starts, rows.places, rows.values, left, right)
            loss += self.penalty * float((left**2).sum() + (right**2).sum())
            if loss >= (1 - self.tolerance) * before:
                break
            before = loss
        completed = np.empty(known.shape)
        products(np.ascontiguousarray(left.T), np.ascontiguousarray(right.T), completed)
        return completed


class ObservedMean(LowRank):
    """The mean of the computed cells: the simplest rival of PMBR, which the lab always shows beside it."""

    def __init__(self, reduction: int = 8, seed: int = 0) -> None:
        super().__init__(reduction, seed=seed)
        self.signature = f"sample,1/{reduction},seed:{seed}"

    def _means(self, cells: Cells[Any], size: int, known: Floats, drawn: Ints) -> Floats:
        return np.asarray((known * drawn).sum(axis=1) / np.maximum(drawn.sum(axis=1), 1))


class _Rows:
    """The known cells of each row, in the kernels' format."""

    def __init__(self, known: Floats, observed: npt.NDArray[np.bool_]) -> None:
        lines, self.places = np.nonzero(observed)
        self.starts = np.searchsorted(lines, np.arange(len(known) + 1))
        self.values = known[lines, self.places]


def _solved(lines: _Rows, factors: Floats, penalty: float) -> Floats:
    """Solve each row, for the factors of the columns."""
    found = np.empty((len(lines.starts) - 1, factors.shape[1]))
    solve_rows(lines.starts, lines.places, lines.values, factors, penalty, found)
    return found


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble 64 bits (the finaliser of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@kernel()
def solve_rows(starts: Ints, columns: Ints, values: Floats, factors: Floats, penalty: float, solved: Floats) -> None:
    """solved[row] = the x that minimises Σ (value − x·factors[column])² + penalty·|x|² over the row's known cells.

    The row's cells are at ``starts[row]`` to ``starts[row + 1]`` in ``columns`` and ``values``.
    """
    rank = factors.shape[1]
    system = np.empty((rank, rank))
    for row in range(len(starts) - 1):
        x = solved[row]
        for i in range(rank):
            x[i] = 0.0
            for j in range(i + 1):
                system[i, j] = 0.0
            system[i, i] = penalty
        for place in range(starts[row], starts[row + 1]):
            factor, value = factors[columns[place]], values[place]
            for i in range(rank):
                weight = factor[i]
                x[i] += value * weight
                for j in range(i + 1):
                    system[i, j] += weight * factor[j]
        _solve(system, penalty, x)


@kernel()
def _solve(system: Floats, least: float, x: Floats) -> None:
    """Replace the lower triangle of a symmetric system by L and D of L·D·Lᵀ, and x by its solution.

    ``least`` is the smallest possible eigenvalue, so only rounding can make an element of D smaller.
    """
    rank = len(x)
    for i in range(rank):
        for j in range(i):
            entry = system[i, j]
            for k in range(j):
                entry -= system[i, k] * system[j, k] * system[k, k]
            system[i, j] = entry / system[j, j]
        pivot = system[i, i]
        for k in range(i):
            pivot -= system[i, k] * system[i, k] * system[k, k]
        system[i, i] = max(pivot, least)
    for i in range(rank):
        for k in range(i):
            x[i] -= system[i, k] * x[k]
    for i in range(rank):
        x[i] /= system[i, i]
    for i in range(rank - 1, -1, -1):
        for k in range(i + 1, rank):
            x[i] -= system[k, i] * x[k]


@kernel()
def squared_errors(starts: Ints, columns: Ints, values: Floats, left: Floats, right: Floats) -> float:
    """Σ (value − left[row]·right[column])² over the known cells."""
    total = 0.0
    for row in range(len(starts) - 1):
        for place in range(starts[row], starts[row + 1]):
            error, other = values[place], right[columns[place]]
            for i in range(left.shape[1]):
                error -= left[row, i] * other[i]
            total += error * error
    return total


@kernel()
def products(left: Floats, right: Floats, found: Floats) -> None:
    """found[row, column] = left[:, row]·right[:, column]: both are transposed, so that columns are contiguous."""
    for row in range(found.shape[0]):
        for column in range(found.shape[1]):
            found[row, column] = 0.0
        for i in range(left.shape[0]):
            weight, other = left[i, row], right[i]
            for column in range(found.shape[1]):
                found[row, column] += weight * other[column]
