"""PRR, the prediction rejection ratio: does the range of a window rank the risk of stopping there?

An instance is a segment at the end of a window, whether or not the rule would have stopped before. Its uncertainty is
how far the best score moved within the window. Its risk is how far the current translation is from the one at N_max:
|quality(ŷ at the window's end) − quality(ŷ at N_max)|, or the proxy |R_bw − R_end|. Instances are rejected in
descending uncertainty, and the curve is the mean risk of the retained instances, from all of them down to one:

    PRR = (AUC_random − AUC_uncertainty) / (AUC_random − AUC_oracle)

An area is the mean of its curve. Random rejection retains the overall mean throughout; the oracle rejects by risk.
1 equals the oracle, 0 equals chance, and values below 0 are worse than chance.

Invariants:
- Tied uncertainties count at their expected value over all orders of the ties, so the order of instances is irrelevant.
- A window that ends where the segment does is not an instance, because its risk is 0 by definition. Windows with fewer
  than w steps are not instances either.
- If a pool has fewer candidates than the budget, its N_max is its own size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quitmt.lab.frames import Floats, Ints, QualityScores, Trajectories
from quitmt.lab.replay.rules import steps, window_ranges


@dataclass(frozen=True, slots=True)
class Instances:
    """Arrays of one length, with an entry for each segment and window."""

    row: Ints
    """The segment."""
    end: Ints
    """The pool size at the end of the window."""
    last: Ints
    """The pool size at the end of the segment."""
    uncertainty: Floats


def prr(uncertainty: Floats, risk: Floats) -> float | None:
    """The ratio, or None where it is undefined: if all risks are equal, no order is better than another.

    >>> risk = np.array([0.3, 0.0, 0.1])
    >>> prr(risk, risk), prr(np.zeros(3), np.zeros(3))
    (1.0, None)
    """
    if not len(risk) or risk.min() == risk.max():
        return None
    by_chance = float(risk.mean())
    by_risk = _area(np.sort(risk))
    return (by_chance - _area(_expected(uncertainty, risk))) / (by_chance - by_risk)


def window_prr(trajectories: Trajectories, quality: QualityScores | None, k: int, w: int, budget: int) -> float | None:
    """The PRR of one reranker's windows, with the risk in an external metric or, without one, the proxy."""
    found = instances(trajectories, k, w, budget)
    if quality is None:
        score = trajectories.score
        risk = score[found.row, found.end - 1] - score[found.row, found.last - 1]
    else:
        risk = _qualities(trajectories, quality, found.row, found.end)
        risk -= _qualities(trajectories, quality, found.row, found.last)
    return prr(found.uncertainty, np.abs(risk))


def instances(trajectories: Trajectories, k: int, w: int, budget: int) -> Instances:
    parts: list[tuple[Ints, Ints, Ints, Floats]] = []
    for pool in np.unique(trajectories.sizes):
        rows = np.flatnonzero(trajectories.sizes == pool)
        looked = steps(int(pool), k, budget)
        windows = looked[: len(looked) // w * w].reshape(-1, w)
        windows = windows[windows[:, -1] < looked[-1]]
        shape = (len(rows), len(windows))
        ranges = window_ranges(trajectories.score[rows], windows) if len(windows) else np.empty(shape)
        ends = np.broadcast_to(windows[:, -1], shape)
        parts.append((np.repeat(rows, len(windows)), ends.ravel(), np.full(ranges.size, looked[-1]), ranges.ravel()))
    row, end, last, uncertainty = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Instances(row, end, last, uncertainty)


def _expected(uncertainty: Floats, risk: Floats) -> Floats:
    """The risks in ascending uncertainty, each replaced by the mean of its ties.

    The sum over the first m is linear in the risks, and all tied instances are equally likely to be among the first m.
    So the expected value of the sum is the sum with every risk replaced by the mean of its ties.
    """
    _, tie, count = np.unique(uncertainty, return_inverse=True, return_counts=True)
    return np.repeat(np.bincount(tie, risk) / count, count)


def _area(ascending: Floats) -> float:
    """The mean over m of the mean of the first m."""
    return float((np.cumsum(ascending) / np.arange(1, len(ascending) + 1)).mean())


def _qualities(trajectories: Trajectories, quality: QualityScores, row: Ints, size: Ints) -> Floats:
    chosen = trajectories.best[row, size - 1]
    return np.asarray(quality.values[row, chosen])
