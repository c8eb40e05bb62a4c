"""The output layer: turns the decoder's vector into the distribution of the next token, without storing all of it.

The product with the embeddings of the whole vocabulary is most of the work of a small model. So the layer handles
blocks of ``BLOCK`` tokens, small enough for weights and logits to stay in the caches, and reduces each block
immediately to its mass, the sum of its exponentials. A token is then chosen in two stages: first a block by the masses,
then a token by the logits of that block, which are computed a second time. Both times give the same bits, because a
product doesn't depend on where it is computed. Weights that the file stores as int8 stay int8, which needs a quarter of
the memory bandwidth.

Invariants: a mass is the sum of e**((logit − peak)/T) over the block's kept tokens; the suppressed token and the
padding of the last block have no mass.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from quitmt.bergamot.architecture import Architecture
from quitmt.bergamot.kernels import exp
from quitmt.bergamot.microkernel import PANEL, ROWS, Floats, pack, product1, product6
from quitmt.bergamot.network import Weights
from quitmt.compiled import kernel
from quitmt.cores import threads

BLOCK = 256
"""Tokens per block."""
_PANELS = BLOCK // PANEL
_FLOAT = 4
_NEVER = np.float32(-1e9)
"""The logit of suppressed tokens."""
_LOWEST = np.float32(-3e38)

Integers = npt.NDArray[np.integer]


@kernel(fastmath=True)
def _unpack(packed: npt.NDArray[np.generic], out: Floats) -> None:
    """Convert the weights of one block to floats, in an array that stays in the cache."""
    for i in range(out.shape[0]):
        out[i] = np.float32(packed[i])


@kernel(fastmath=True)
def _reduce(logits: Floats, bias: Floats, rate: np.float32) -> tuple[np.float32, np.float32, np.float32]:
    """Add the bias to a block's logits. Return the largest, and the sums of exponentials at temperature 1 and
    1/rate."""
    peak = _LOWEST
    for i in range(BLOCK):
        logits[i] += bias[i]
        peak = max(peak, logits[i])
    plain = np.float32(0)
    if rate == np.float32(1):
        for i in range(BLOCK):
            plain += exp(logits[i] - peak)
        return peak, plain, plain
    tempered = np.float32(0)
    for i in range(BLOCK):
        plain += exp(logits[i] - peak)
        tempered += exp((logits[i] - peak) * rate)
    return peak, plain, tempered


@kernel()
def summarise(
    x: Floats,
    panels: npt.NDArray[np.generic],
    bias: Floats,
    rate: np.float32,
    blocks: tuple[int, int],
    sums: Floats,
    logits: Floats,
) -> None:
    """sums[row, block] = (largest logit, sum at temperature 1, sum at temperature 1/rate), for a range of blocks.

    The number of rows of x is a multiple of ROWS. The logits are stored only if ``logits`` has rows.
    """
    rows, inputs = x.shape
    weights = np.empty(inputs * BLOCK, np.float32)
    tile = np.empty((ROWS, BLOCK), np.float32)
    for block in range(blocks[0], blocks[1]):
        _unpack(panels[block], weights)
        for row in range(0, rows, ROWS):
            source = x.ctypes.data + row * inputs * _FLOAT
            for panel in range(_PANELS):
                place = weights.ctypes.data + panel * inputs * PANEL * _FLOAT
                product6(source, inputs, place, inputs, tile.ctypes.data + panel * PANEL * _FLOAT, BLOCK)
            for r in range(ROWS):
                peak, plain, tempered = _reduce(tile[r], bias[block], rate)
                sums[row + r, block, 0] = peak
                sums[row + r, block, 1] = plain
                sums[row + r, block, 2] = tempered
                for i in range(BLOCK if logits.shape[0] else 0):
                    logits[row + r, block, i] = tile[r, i]


@kernel()
def _pick(
    x: Floats,
    panels: npt.NDArray[np.generic],
    bias: Floats,
    rate: np.float32,
    rows: Integers,
    blocks: Integers,
    targets: npt.NDArray[np.float64],
    order: Integers,
    peaks: Floats,
    floors: Floats,
    tokens: Integers,
    chosen: Floats,
) -> None:
    """Stage two: in each choice's block, the token at which the running mass passes the target, and its logit.

    ``order`` sorts the choices by block and row, so that shared weights and logits are computed once.
    """
    inputs = x.shape[1]
    weights = np.empty(inputs * BLOCK, np.float32)
    logits, masses = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    block, row = -1, -1
    for choice in order:
        if blocks[choice] != block:
            block, row = blocks[choice], -1
            _unpack(panels[block], weights)
        if rows[choice] != row:
            row = rows[choice]
            source = x.ctypes.data + row * inputs * _FLOAT
            for panel in range(_PANELS):
                place = weights.ctypes.data + panel * inputs * PANEL * _FLOAT
                product1(source, inputs, place, inputs, logits.ctypes.data + panel * PANEL * _FLOAT, BLOCK)
            for i in range(BLOCK):
                logits[i] += bias[block, i]
                masses[i] = exp((logits[i] - peaks[row]) * rate) if logits[i] >= floors[row] else np.float32(0)
        running = np.float64(0)
        best, token = 0, -1
        for i in range(BLOCK):
            running += np.float64(masses[i])
            if masses[i] > masses[best]:
                best = i
            if running > targets[choice]:
                token = i
                break
        if token < 0:  # by rounding, the target is beyond the block's total
            token = best
        tokens[choice] = block * BLOCK + token
        chosen[choice] = logits[token]


@kernel()
def _open(
    x: Floats,
    panels: npt.NDArray[np.generic],
    bias: Floats,
    rows: Integers,
    blocks: Integers,
    order: Integers,
    logits: Floats,
) -> None:
    """The logits of pairs of row and block. ``order`` sorts the pairs by block, so that weights are converted once."""
    inputs = x.shape[1]
    weights = np.empty(inputs * BLOCK, np.float32)
    block = -1
    for choice in order:
        if blocks[choice] != block:
            block = blocks[choice]
            _unpack(panels[block], weights)
        source = x.ctypes.data + rows[choice] * inputs * _FLOAT
        for panel in range(_PANELS):
            place = weights.ctypes.data + panel * inputs * PANEL * _FLOAT
            out = logits.ctypes.data + (choice * BLOCK + panel * PANEL) * _FLOAT
            product1(source, inputs, place, inputs, out, BLOCK)
        for i in range(BLOCK):
            logits[choice, i] += bias[block, i]


class OutputLayer:
    """The embeddings of the target vocabulary as an output layer; ``suppressed`` is a token that is never generated."""

    def __init__(self, weights: Weights, architecture: Architecture, suppressed: int | None) -> None:
        width, self.vocabulary = architecture.width, architecture.target_vocabulary
        name, shape = "decoder_ff_logit_out_W", (width, self.vocabulary)
        if architecture.tied_output:
            name, shape = architecture.target_embedding, shape[::-1]
        elif not weights.has(name):
            name, shape = f"{name}t", shape[::-1]
        tensor = weights.tensor(name, *shape)
        matrix = tensor.values if shape[0] == width and name.endswith("_W") else tensor.values.T
        self.blocks = -(-self.vocabulary // BLOCK)
        self.scale = np.float32(tensor.scale)
        kind = np.int8 if matrix.dtype == np.int8 else np.float32
        padded = np.zeros((width, self.blocks * BLOCK), np.float32)
        padded[:, : self.vocabulary] = matrix
        self.panels = pack(padded).astype(kind).reshape(self.blocks, -1)
        bias = np.full(self.blocks * BLOCK, _NEVER, np.float32)
        has_bias = architecture.output_bias
        bias[: self.vocabulary] = weights.row("decoder_ff_logit_out_b", self.vocabulary) if has_bias else 0
        if suppressed is not None:
            bias[suppressed] = _NEVER
        self.bias = bias.reshape(self.blocks, BLOCK)

    def prepare(self, x: Floats) -> Floats:
        """The decoder's vectors times the scale of the weights, as the other methods expect them."""
        return x * self.scale

    def summarise(self, x: Floats, rate: float, *, logits: bool = False) -> tuple[Floats, Floats]:
        """(largest logit, sum, sum at 1/rate) for each block of prepared rows; and the logits, if requested.

        Each thread computes a part of the vocabulary; the number of threads doesn't change the result.
        """
        rows = len(x)
        padded = -(-rows // ROWS) * ROWS
        if padded > rows:
            x = np.concatenate([x, np.zeros((padded - rows, x.shape[1]), np.float32)])
        sums = np.empty((padded, self.blocks, 3), np.float32)
        whole = np.empty((padded if logits else 0, self.blocks, BLOCK), np.float32)
        parts = min(_threads(), self.blocks)
        edges = [self.blocks * part // parts for part in range(parts + 1)]
        work = [(x, self.panels, self.bias, np.float32(rate), span, sums, whole) for span in pairwise(edges)]
        others = [_pool().submit(summarise, *part) for part in work[1:]]
        summarise(*work[0])
        for other in others:
            other.result()
        return sums[:rows], whole[:rows]

    def logits(self, x: Floats, tokens: Integers) -> npt.NDArray[np.float64]:
        """The logit of one token per prepared row."""
        panels = self.panels.reshape(-1, x.shape[1], PANEL)
        columns = panels[tokens // PANEL, :, tokens % PANEL].astype(np.float64)
        return np.asarray((x.astype(np.float64) * columns).sum(axis=1) + self.bias.reshape(-1)[tokens])

    def open(self, x: Floats, rows: Integers, blocks: Integers) -> Floats:
        """(pairs, BLOCK): the logits for each pair of a prepared row and a block."""
        logits = np.empty((len(rows), BLOCK), np.float32)
        order = np.argsort(blocks, kind="stable")
        _open(np.ascontiguousarray(x), self.panels, self.bias, rows, blocks, order, logits)
        return logits

    def pick(
        self,
        x: Floats,
        rate: float,
        rows: Integers,
        blocks: Integers,
        targets: npt.NDArray[np.float64],
        peaks: Floats,
        floors: Floats,
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """For each choice (a row of x, a block, a target mass within it), the token and its logit."""
        tokens, chosen = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
        order = np.lexsort((rows, blocks))
        _pick(x, self.panels, self.bias, np.float32(rate), rows, blocks, targets, order, peaks, floors, tokens, chosen)
        return tokens, chosen


@cache
def _threads() -> int:
    return threads()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), "quitmt-output")


if hasattr(os, "register_at_fork"):  # threads don't survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)


def log_normalisers(sums: Floats) -> npt.NDArray[np.float64]:
    """log Σ e**logit of each row, from its blocks."""
    peaks = sums[:, :, 0].astype(np.float64)
    top = peaks.max(axis=1)
    return np.asarray(top + np.log((sums[:, :, 1] * np.exp(peaks - top[:, None])).sum(axis=1)))
