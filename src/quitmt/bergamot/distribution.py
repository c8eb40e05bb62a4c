"""Chooses the next token: the cut-offs, and the first of the two stages of a choice.

The cut-offs are those of ``quitmt.sampling``; each applies to the renormalised result of the one before. The most
probable token always stays, and tokens of equal probability stay or go together. So each cut-off is a lower limit for
logits (``floors``), and a node stores this limit and the blocks' masses rather than tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quitmt.bergamot.microkernel import Floats
from quitmt.bergamot.output import OutputLayer, log_normalisers
from quitmt.sampling import Sampling

NO_FLOOR = np.float32(-3e38)


@dataclass(frozen=True, slots=True)
class Shape:
    """The distributions of some rows, in the form that nodes store."""

    peaks: Floats
    """The largest logit."""
    floors: Floats
    """The smallest logit that may be chosen."""
    normalisers: npt.NDArray[np.float64]
    """log Σ e**logit, at temperature 1 and without cut-offs."""
    masses: Floats
    """(rows, blocks): Σ e**((logit − peak)·rate) over the tokens that may be chosen."""


def shape(output: OutputLayer, x: Floats, sampling: Sampling) -> Shape:
    """The distributions after prepared rows."""
    sums, logits = output.summarise(x, sampling.rate, logits=sampling.cut and not sampling.greedy)
    peaks = sums[:, :, 0].max(axis=1)
    floors = np.full(len(x), NO_FLOOR)
    if sampling.greedy:  # the choice is the first token of the first block that reaches the peak
        floors, masses = peaks, (sums[:, :, 0] == peaks[:, None]).astype(np.float32)
    elif sampling.cut:
        masses = np.empty(sums.shape[:2], np.float32)
        for row, line in enumerate(logits):
            scaled = (line.astype(np.float64) - peaks[row]) * sampling.rate
            floors[row] = floor(line.reshape(-1), scaled.reshape(-1), sampling)
            masses[row] = np.where(line >= floors[row], np.exp(scaled), 0).sum(axis=1)
    else:
        masses = sums[:, :, 2] * np.exp((sums[:, :, 0] - peaks[:, None]) * np.float32(sampling.rate))
    return Shape(peaks, floors, log_normalisers(sums), masses)


def floor(logits: Floats, scaled: npt.NDArray[np.float64], sampling: Sampling) -> np.float32:
    """The smallest logit that the cut-offs keep. ``scaled`` are the logits minus the largest, times the rate."""
    lowest = NO_FLOOR
    if sampling.top_k is not None and sampling.top_k < len(logits):
        lowest = np.partition(logits, len(logits) - sampling.top_k)[len(logits) - sampling.top_k]
    if sampling.top_p is not None and sampling.top_p < 1:
        kept = np.flatnonzero(logits >= lowest)
        masses = np.exp(scaled[kept])
        total = masses.sum()
        # Tokens below this share have less than 1 - top_p in total, so they need not be sorted.
        kept = kept[masses >= (1 - sampling.top_p) * total / len(masses)]
        kept = kept[np.argsort(-logits[kept], kind="stable")]
        running = np.cumsum(np.exp(scaled[kept]))
        lowest = logits[kept[min(len(kept) - 1, int(np.searchsorted(running, sampling.top_p * total)))]]
    if sampling.min_p:
        lowest = max(lowest, logits[np.exp(scaled) >= sampling.min_p].min())
    if sampling.epsilon:
        kept = np.flatnonzero(logits >= lowest)
        probabilities = np.exp(scaled[kept])
        enough = probabilities >= sampling.epsilon * probabilities.sum()
        lowest = logits[kept[enough]].min() if enough.any() else logits.max()
    return np.float32(lowest)


def stage_one(
    masses: Floats, uniforms: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """For each choice, the block that its uniform number falls into, and the mass to pass within that block."""
    running = np.cumsum(masses, axis=1, dtype=np.float64)
    targets = uniforms * running[:, -1]
    blocks = np.minimum((running <= targets[:, None]).sum(axis=1), masses.shape[1] - 1)
    each = np.arange(len(blocks))
    blocks = np.where(masses[each, blocks] > 0, blocks, masses.argmax(axis=1))
    before = np.where(blocks > 0, running[each, np.maximum(blocks - 1, 0)], 0.0)
    return blocks, targets - before
