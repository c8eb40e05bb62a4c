"""Regularised least squares over the known cells of a matrix, row by row.

Invariant: every sum has a fixed order, so the last digit depends on neither threads nor processors; products by BLAS
have as many orders as it has kernels and threads.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from quitmt.compiled import kernel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@kernel()
def solve_rows(starts: Ints, columns: Ints, values: Floats, factors: Floats, penalty: float, solved: Floats) -> None:
    """solved[row] = the x that minimises Σ (value − x·factors[column])² + penalty·|x|² over the row's known cells.

    ``starts[row]`` to ``starts[row + 1]`` are its places in ``columns`` and ``values``.
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
            own, value = factors[columns[place]], values[place]
            for i in range(rank):
                weight = own[i]
                x[i] += value * weight
                for j in range(i + 1):
                    system[i, j] += weight * own[j]
        _solve(system, penalty, x)


@kernel()
def _solve(system: Floats, least: float, x: Floats) -> None:
    """The lower triangle of a symmetric system becomes L and D of L·D·Lᵀ, and x its solution.

    No element of D is less than ``least``, the smallest eigenvalue there can be, except by rounding.
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
    """found[row, column] = left[:, row]·right[:, column]: transposed, so that the columns lie side by side."""
    for row in range(found.shape[0]):
        for column in range(found.shape[1]):
            found[row, column] = 0.0
        for i in range(left.shape[0]):
            weight, other = left[i, row], right[i]
            for column in range(found.shape[1]):
                found[row, column] += weight * other[column]
