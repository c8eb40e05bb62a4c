"""A steered run's memory of its last segments, and the cost that each threshold would have had on them."""

from __future__ import annotations

import math
import sys

import numpy as np
import numpy.typing as npt

from quitmt.stop.threshold import Counts, Floats, Threshold
from quitmt.types import Outcome, StopReason

WINDOW = 256
"""Segments in memory."""
PRIOR = 2
"""Weight, in segments, of the prior guess of how signals fall."""
TYPICAL = 48
"""Initial weight, in segments, of the typical signals, whose scale alone is learned: a few observed segments say little
about how frequent expensive segments are."""
FADED = 2 / 3
"""Share of a run after which typical signals have no weight: they may be typical of other models and rerankers."""


class Remembered:
    """Arrays with one row per segment, and ``typical`` signals (``Threshold.typical``), if there are any."""

    def __init__(self, looks: Counts, typical: Floats | None) -> None:
        self.count, self._looks, self._typical = 0, looks, np.empty((0, len(looks))) if typical is None else typical
        self._seen, self._scores = np.full((2, WINDOW, len(looks)), np.nan)
        self._size, self._budget, self._anchors, self._price = np.zeros((4, WINDOW))
        self.expect(None)

    def expect(self, length: int | None) -> None:
        """Set the number of segments in the run, if it is known."""
        self._faded = FADED * min(length or WINDOW, WINDOW)

    def add(self, outcome: Outcome, scores: list[float], spent: float) -> None:
        row, seen = self.count % WINDOW, len(outcome.signals)
        self._seen[row], self._scores[row] = np.nan, np.nan
        self._seen[row, :seen], self._scores[row, :seen] = outcome.signals, scores
        self._size[row], self._anchors[row] = outcome.size, outcome.anchors
        ended = outcome.stop is StopReason.EXHAUSTED
        self._budget[row] = outcome.size if ended else outcome.budget or outcome.size
        self._price[row] = spent / outcome.cost
        self.count += 1

    def samples(self, cost: float) -> float:
        """Mean number of samples that this cost buys per segment."""
        count = min(self.count, WINDOW)
        price = self._price[:count].mean() or 1.0  # an engine may not count tokens
        return float(cost / price - self._anchors[:count].mean())

    def threshold(self, rule: Threshold, cost: float) -> float:
        """Return the threshold with which the remembered segments would have had this mean cost."""
        count, looks = min(self.count, WINDOW), self._looks
        size, budget = self._size[:count], self._budget[:count]
        signals = rule.signals_of(self._scores[:count], self._seen[:count], looks)
        signals = _continued(signals, looks, ended=size >= budget)
        typical, weight = self._typical_now()
        signals = np.vstack((signals, typical))
        weight = np.append(np.ones(count), weight)
        price, anchors = (_filled(row[:count], typical, row[:count].mean()) for row in (self._price, self._anchors))
        lowest = np.minimum.accumulate(signals, axis=1)
        ends = np.minimum(np.append(looks, rule.budget), _filled(budget, typical, rule.budget)[:, None])
        # Cost of continuing to the next look, incurred by a threshold below the lowest signal so far.
        more = np.diff(ends, axis=1) * (price * weight)[:, None]
        falling = np.argsort(-lowest, axis=None, kind="stable")
        spent = ((ends[:, 0] + anchors) * price * weight).sum() + np.cumsum(more.ravel()[falling])
        place = int(np.searchsorted(spent, cost * weight.sum()))
        levels = lowest.ravel()[falling]
        if place >= len(levels):
            return 0.0
        above, below = max(0.0, levels[max(0, place - 1)]), max(0.0, levels[place])
        return math.sqrt(above) * math.sqrt(below)

    def _typical_now(self) -> tuple[Floats, Floats]:
        """Return typical signals, scaled to the observed ones, and their weights; empty before any observation."""
        first = self._seen[: self.count, 0]
        seen = first[first < sys.float_info.max]
        signals = self._typical * seen.mean() if len(seen) and self.count < self._faded else self._typical[:0]
        weight = TYPICAL * (1 - self.count / self._faded) / max(1, len(signals))
        return signals, np.full(len(signals), weight)


def _filled(seen: Floats, typical: Floats, value: float) -> Floats:
    """Append the same value for each typical segment."""
    return np.append(seen, np.full(len(typical), value))


def _continued(signals: Floats, looks: Counts, *, ended: npt.NDArray[np.bool_]) -> Floats:
    """Fill in guesses after a segment has stopped: its signal keeps falling as other segments' signals did. A pool that
    has ended has no further signals."""
    missing = np.isnan(signals)
    last = np.maximum((~missing).sum(axis=1) - 1, 0)
    level = np.append(1.0, np.cumprod(_falls(signals, looks)))
    guesses = (signals[np.arange(len(signals)), last] / level[last])[:, None] * level
    guesses[ended | missing[:, 0]] = np.inf
    return np.where(missing, guesses, signals)


def _falls(signals: Floats, looks: Counts) -> Floats:
    """Return the mean factor between a look's signal and the next; 1/candidates is the prior guess."""
    before, after = signals[:, :-1], signals[:, 1:]
    seen = (before > 0) & (after > 0)
    falls = np.log(np.where(seen, after, 1.0) / np.where(seen, before, 1.0)).sum(axis=0)
    found: Floats = np.exp((falls + PRIOR * np.log(looks[:-1] / looks[1:])) / (seen.sum(axis=0) + PRIOR))
    return found
