"""Made-up trajectories for the lab's tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quitmt.lab.frames import Floats, Replayed, Trajectories
from quitmt.lab.replay.rules import replayed_sizes


def running_best(
    candidates: Floats, *, sizes: Sequence[int] | None = None, reranker: str = "qe:made-up"
) -> Trajectories:
    """What QE makes of scores, a row a segment: the best so far. ``sizes`` cut pools short."""
    segments, most = candidates.shape
    counts = np.full(segments, most) if sizes is None else np.array(sizes, np.int64)
    present = np.arange(most) < counts[:, None]
    final, own = np.where(present, candidates, np.nan), np.where(present, candidates, -np.inf)
    better = np.diff(np.maximum.accumulate(own, axis=1), prepend=-np.inf) > 0
    best = np.maximum.accumulate(np.where(better, np.arange(most), 0), axis=1)
    score = np.take_along_axis(candidates, best, axis=1)
    ids = tuple(f"s{row}" for row in range(segments))
    seconds = np.arange(1.0, segments + 1)
    return Trajectories(reranker, "made up", ids, counts, best, score, final, seconds, 0.5 * seconds)


def fixed(trajectories: Trajectories, size: int, budget: int, *, name: str = "Fixed") -> Replayed:
    """The first ``size`` candidates of every segment."""
    return replayed_sizes(name, trajectories, np.minimum(trajectories.sizes, size), budget, {"n": size})
