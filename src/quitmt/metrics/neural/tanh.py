"""tanh on CPUs, computed in one pass with the sums of its arguments.

The head needs a billion of them for 512 candidates, and torch's tanh costs a quarter as much as the matrix products.
This one is a quotient of two polynomials (fitted to tanh(x)/x on 0…9 with the smallest maximum error), which compiles
to vector instructions: 12 times faster, and within 4e-7 of the true value everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from quitmt.compiled import kernel

Floats = npt.NDArray[np.float32]

F = np.float32
BOUND = F(9.0)
N0, N1, N2, N3, N4 = (
    F(0.9999999063846514),
    F(0.1337320372446102),
    F(3.486588877326657e-3),
    F(2.047193829518854e-5),
    F(1.318435915906953e-8),
)
D1, D2, D3, D4 = F(0.4670650059722757), F(2.584200621585686e-2), F(3.271396502433671e-4), F(7.702721861122953e-7)
ONE = F(1.0)

# Neither infinite nor NaN: the encoder sees to that.
_fast = {"contract", "arcp", "nsz"}


@kernel(fastmath=_fast)
def _tanh(x: Any) -> Any:
    z = min(max(x, -BOUND), BOUND)
    t = z * z
    numerator = (((N4 * t + N3) * t + N2) * t + N1) * t + N0
    denominator = (((D4 * t + D3) * t + D2) * t + D1) * t + ONE
    return z * numerator / denominator


@kernel(fastmath=_fast)
def _of(values: Floats) -> None:
    for i in range(len(values)):
        values[i] = _tanh(values[i])


@kernel(fastmath=_fast)
def of_sums(
    pair: Floats,
    row_parts: tuple[Floats, Floats],
    column_parts: tuple[Floats, Floats],
    forward: Floats,
    backward: Floats,
) -> None:
    """tanh of pair + row part 0 + column part 1, and of pair + column part 0 + row part 1, for all rows × columns."""
    columns = len(column_parts[0])
    for i in range(len(row_parts[0])):
        for j in range(columns):
            at = i * columns + j
            own, one, other = pair[at], forward[at], backward[at]
            a, b, c, d = row_parts[0][i], column_parts[1][j], column_parts[0][j], row_parts[1][i]
            for k in range(len(own)):
                one[k] = _tanh(own[k] + (a[k] + b[k]))
                other[k] = _tanh(own[k] + (c[k] + d[k]))


class FastTanh(nn.Module):
    """Replaces nn.Tanh for float32 on a CPU; overwrites its input."""

    def forward(self, values: Tensor) -> Tensor:
        _of(values.view(-1).numpy())
        return values
