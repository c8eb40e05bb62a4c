"""Rules on recorded trajectories, all segments at once.

The same as a live run of the rule on the same pools, segment by segment: the window rule and the fixed size look at
nothing but the best score after each step, and those are here.
"""

from __future__ import annotations

import numpy as np

from quitmt.lab.frames import Floats, Ints, Replayed, Trajectories


def steps(pool: int, k: int, budget: int) -> Ints:
    """The pool sizes at which a rule looks: multiples of k, and the last, shorter step that reaches the budget."""
    most = min(pool, budget)
    return np.array([*range(k, most, k), most], np.int64)


def unaccelerated(trajectories: Trajectories, budget: int) -> Replayed:
    size = np.minimum(trajectories.sizes, budget)
    return _replayed("Unaccelerated", trajectories, size, size >= budget, {"n": budget})


def quit_rule(trajectories: Trajectories, *, k: int, w: int, alpha: float, budget: int) -> Replayed:
    """QUIT's window rule (docs/method.md, "QUIT")."""
    size = np.empty(len(trajectories.ids), np.int64)
    full = np.empty(len(size), np.bool_)
    for pool in np.unique(trajectories.sizes):
        rows = np.flatnonzero(trajectories.sizes == pool)
        looked = steps(int(pool), k, budget)
        windows = looked[: len(looked) // w * w].reshape(-1, w)
        if len(windows):
            stable = window_ranges(trajectories.score[rows], windows) <= alpha
            stops = windows[stable.argmax(axis=1), -1]
            decided = stable.any(axis=1)
        else:
            stops, decided = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        size[rows] = np.where(decided, stops, looked[-1])
        full[rows] = size[rows] >= budget
    name = f"QUIT w={w}"
    return _replayed(name, trajectories, size, full, {"k": k, "w": w, "alpha": alpha, "n": budget})


def window_ranges(score: Floats, windows: Ints) -> Floats:
    """How far the best score moves within each window, [segments, windows]; ``windows`` are pool sizes, w a row."""
    found = score[:, windows - 1]
    return np.asarray(found.max(axis=2) - found.min(axis=2))


def replayed_sizes(
    name: str, trajectories: Trajectories, size: Ints, budget: int, settings: dict[str, float]
) -> Replayed:
    """A rule of which only is known how many candidates it used."""
    return _replayed(name, trajectories, size, size >= budget, settings)


def _replayed(
    name: str, trajectories: Trajectories, size: Ints, full: np.ndarray, settings: dict[str, float]
) -> Replayed:
    rows = np.arange(len(size))
    index = trajectories.best[rows, size - 1]
    return Replayed(name, trajectories.reranker, size, index, trajectories.final[rows, index], full, settings)
