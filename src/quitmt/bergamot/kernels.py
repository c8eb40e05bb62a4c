"""The compiled loops of the network. They compute rows one by one, or six at a time with the same result.

Invariant: a row's result depends only on that row's inputs, not on its place in the batch or on the batch's size.
Arrays are C-contiguous float32 unless stated otherwise.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from quitmt.bergamot.microkernel import PANEL, ROWS, product6
from quitmt.compiled import kernel

Floats = npt.NDArray[np.float32]

_FLOAT = 4
_RESIDENT = 1 << 16
"""Number of weights that stay in the second-level cache during a pass over the rows: 256 KB of floats."""
_EPSILON = np.float32(1e-6)
_LOG2_E = np.float32(1.4426950408889634)
_SMALLEST = np.float32(-126.0)
_C1, _C2, _C3 = np.float32(0.6931471806), np.float32(0.2402265070), np.float32(0.0555041087)
_C4, _C5, _C6 = np.float32(0.0096181291), np.float32(0.0013333558), np.float32(0.0001540353)
_ONE, _HALF = np.float32(1.0), np.float32(0.5)
_LOWEST = np.float32(-3e38)  # not -inf: fastmath may assume that there is none


@kernel(inline="always")
def exp(x: np.float32) -> np.float32:
    """e**x for x ≤ 0, with a relative error of about 1e-6. It is a polynomial without branches, so LLVM vectorises it.

    The result is 2**k · 2**f, where k is the nearest integer. The smallest result is 2**-126, which is negligible
    because each sum also contains e**0.
    """
    y = max(x * _LOG2_E, _SMALLEST)
    k = np.floor(y + _HALF)
    f = y - k
    p = (((((_C6 * f + _C5) * f + _C4) * f + _C3) * f + _C2) * f + _C1) * f + _ONE
    power = np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
    value: np.float32 = p * power
    return value


@kernel()
def linear(x: Floats, panels: Floats, bias: Floats, rectify: bool, out: Floats) -> None:
    """out = x · weights + bias, with packed weights; negative results become 0 if ``rectify`` is true."""
    rows, inputs = x.shape
    outputs = out.shape[1]
    floor = np.float32(0) if rectify else _LOWEST
    count = panels.shape[0]
    tile = np.empty((ROWS, PANEL), np.float32)
    rest = np.zeros((ROWS, inputs), np.float32)
    whole = rows // ROWS * ROWS
    for row in range(whole, rows):
        for k in range(inputs):
            rest[row - whole, k] = x[row, k]
    chunk = max(1, _RESIDENT // (inputs * PANEL))
    for start in range(0, count, chunk):
        for row in range(0, rows, ROWS):
            source = x.ctypes.data + row * inputs * _FLOAT if row < whole else rest.ctypes.data
            for panel in range(start, min(count, start + chunk)):
                weights = panels.ctypes.data + panel * inputs * PANEL * _FLOAT
                product6(source, inputs, weights, inputs, tile.ctypes.data, PANEL)
                column = panel * PANEL
                for r in range(min(ROWS, rows - row)):
                    for c in range(min(PANEL, outputs - column)):
                        out[row + r, column + c] = max(tile[r, c] + bias[column + c], floor)


@kernel(fastmath=True)
def normalise(x: Floats, scale: Floats, shift: Floats) -> None:
    """Layer normalisation of each row, in place."""
    width = x.shape[1]
    for row in range(x.shape[0]):
        line = x[row]
        total = np.float32(0)
        for i in range(width):
            total += line[i]
        mean = total / np.float32(width)
        squares = np.float32(0)
        for i in range(width):
            squares += (line[i] - mean) * (line[i] - mean)
        factor = _ONE / np.sqrt(squares / np.float32(width) + _EPSILON)
        for i in range(width):
            line[i] = (line[i] - mean) * factor * scale[i] + shift[i]


@kernel(fastmath=True)
def attend(queries: Floats, keys: Floats, values: Floats, heads: int, out: Floats) -> None:
    """Scaled dot-product attention of each query row over all keys; it needs memory for only one row of scores.

    ``keys`` is (width, length) and ``values`` is (length, width), so that inner loops read adjacent memory.
    """
    width = queries.shape[1] // heads
    length = keys.shape[1]
    scores = np.empty(length, np.float32)
    scale = np.float32(1 / math.sqrt(width))
    for row in range(queries.shape[0]):
        for head in range(heads):
            scores[:] = np.float32(0)
            for i in range(head * width, (head + 1) * width):
                query, line = queries[row, i] * scale, keys[i]
                for j in range(length):
                    scores[j] += query * line[j]
            peak = _LOWEST
            for j in range(length):
                peak = max(peak, scores[j])
            total = np.float32(0)
            for j in range(length):
                scores[j] = exp(scores[j] - peak)
                total += scores[j]
            mixed = out[row, head * width : (head + 1) * width]
            mixed[:] = np.float32(0)
            for j in range(length):
                share, value = scores[j] / total, values[j, head * width : (head + 1) * width]
                for i in range(width):
                    mixed[i] += share * value[i]


@kernel()
def recur(both: Floats, cells: Floats, chained: npt.NDArray[np.bool_], out: Floats) -> None:
    """The SSRU: f = σ(gate), c = f∘c₋₁ + (1−f)∘input, out = relu(c). ``both`` contains the gates, then the inputs.

    ``cells`` contains c₋₁ on entry and c on return. For a chained row, c₋₁ is the c of the row above.
    """
    width = out.shape[1]
    for row in range(out.shape[0]):
        above = row - 1 if chained[row] else row
        for i in range(width):
            magnitude = exp(-abs(both[row, i]))
            gate = (_ONE if both[row, i] >= 0 else magnitude) / (_ONE + magnitude)
            cells[row, i] = gate * cells[above, i] + (_ONE - gate) * both[row, width + i]
            out[row, i] = max(cells[row, i], np.float32(0))
