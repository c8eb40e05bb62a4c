"""Rules of one kind, from the most careful to the cheapest, and the number of candidates each would have used.

The order does not depend on any data, so rules can be tested one after the other until one fails (``risk``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quitmt import names
from quitmt.calibrate.observe import Floats, Ints, Observed
from quitmt.stop.threshold import Threshold


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    specs: tuple[str, ...]
    """The rules as ``--stop`` takes them, the most careful one first."""
    sizes: Ints
    """[rules, segments]: candidates used."""


def fixed(step: int, budget: int, pools: Ints) -> Family:
    """The same number of candidates for every segment; ``pools`` are the pools' sizes."""
    counts = np.array([budget, *range((budget - 1) // step * step, 0, -step)], np.int64)
    return Family("fixed", tuple(f"fixed:{count}" for count in counts), np.minimum(counts[:, None], pools))


def threshold(spec: str, rule: Threshold, thresholds: Floats, signals: Sequence[Floats], pools: Ints) -> Family:
    """``spec`` has the rule's other settings; ``thresholds`` are ascending."""
    colon = "," if names.without_options(spec) != spec else ":"
    specs = tuple(f"{spec}{colon}{rule.limit}={value:.3g}" for value in thresholds)
    exact = np.array([float(f"{value:.3g}") for value in thresholds])  # the replay uses the rounded number in the text
    return Family(names.without_options(spec), specs, stopping_sizes(rule, exact, signals, pools))


def stopping_sizes(rule: Threshold, thresholds: Floats, signals: Sequence[Floats], pools: Ints) -> Ints:
    """[thresholds, segments]: the size at which each threshold would have stopped a segment with these signals."""
    looks = np.array(list(rule.sizes())[:-1], np.int64)
    lowest = np.full((len(signals), len(looks)), np.inf)
    for row, found in enumerate(signals):
        lowest[row, : len(found)] = found
    np.minimum.accumulate(lowest, axis=1, out=lowest)
    ends = np.minimum(pools, rule.budget)
    sizes = np.empty((len(thresholds), len(signals)), np.int64)
    for row, value in enumerate(thresholds):
        passed = (lowest > value).sum(axis=1)  # looks before the one that stops
        sizes[row] = np.where(passed < len(looks), looks[np.minimum(passed, len(looks) - 1)] if len(looks) else 0, ends)
    return np.minimum(sizes, ends)


def losses(observed: Sequence[Observed]) -> Floats:
    """[segments, n]: how much lower the winner among the first n scores on the whole pool than the whole pool's winner.
    A pool that ends before n loses nothing there."""
    longest = max(len(one.best) for one in observed)
    found = np.zeros((len(observed), longest))
    for row, one in enumerate(observed):
        found[row, : len(one.best)] = one.final[one.best[-1]] - one.final[one.best]
    return found


def lost(losses: Floats, sizes: Ints) -> Floats:
    """[rules, segments]"""
    return np.asarray(losses[np.arange(losses.shape[0]), sizes - 1])
