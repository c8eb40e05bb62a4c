"""Fixed-N*: the rival that spends what QUIT spends, and looks at no score (docs/lab.md).

Every segment gets its first N candidates, N chosen so that the mean over segments is QUIT's. QUIT's mean is hardly ever
a whole number, so some segments, drawn by a seed, get N + 1: the sum of candidates is the same to the last one. A pool
with fewer candidates gives all it has, and the others make up for it.

Equal candidates are equal generation. Reranking with MBR costs the square of a segment's candidates, so a rule that
spends unevenly pays more for it than Fixed-N* of the same mean; the estimate in ``runtime`` shows how much.
"""

from __future__ import annotations

import numpy as np

from quitmt.errors import UsageError
from quitmt.lab.frames import Ints, Replayed, Trajectories


def matched_fixed(
    trajectories: Trajectories, target_mean_size: float, budget: int, *, seed: int = 0, name: str = "Fixed-N*"
) -> Replayed:
    """A fixed size whose mean is ``target_mean_size``, exactly if that is the mean of whole numbers."""
    most = np.minimum(trajectories.sizes, budget)
    if not 1 <= target_mean_size <= most.mean():
        raise UsageError(
            f"no fixed size has a mean of {target_mean_size:g} candidates",
            hint=f"these pools and the budget of {budget} allow 1 to {most.mean():g}",
        )
    size = _sizes(most, round(target_mean_size * len(most)), np.random.default_rng(seed))
    rows = np.arange(len(size))
    index = trajectories.best[rows, size - 1]
    score = trajectories.final[rows, index]
    return Replayed(name, trajectories.reranker, size, index, score, size >= budget, {"n": target_mean_size})


def _sizes(most: Ints, total: int, rng: np.random.Generator) -> Ints:
    """N or N + 1 for everyone, less where there are not so many; ``total`` in all."""
    low, high = 1, int(most.max())
    while low < high:  # the largest N that does not cost more than the total
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(most, middle).sum() <= total else (low, middle - 1)
    size = np.minimum(most, low)
    have_more = np.flatnonzero(most > low)
    size[rng.permutation(have_more)[: total - int(size.sum())]] += 1
    return size
