"""When QUIT stops on scores that say nothing: the law of its stopping size with QE, without any data.

With QE the best score is a running maximum. A window stays within alpha = 0 if and only if none of its candidates after
its first step is a new maximum, that is, if the best of the first b (all up to the window's last candidate) is among
the first a (all up to the end of its first step). If scores are independent and continuous, every place is as likely to
hold the best, so the window passes with probability a / b: with full steps 1 − (w − 1) / (w·b′) for window b′. Whether
a candidate is a new maximum is independent from candidate to candidate, whatever the scores' distribution, and windows
do not share candidates: they pass independently.

So the stopping size has one law for all segments, easy or hard: a fixed size with noise. Ties (a maximum that is
reached again has not moved) and alpha > 0 only make windows pass more often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quitmt.lab.frames import Floats, Ints
from quitmt.lab.replay.rules import steps
from quitmt.stop.window import check_count


@dataclass(frozen=True, slots=True)
class StoppingLaw:
    """The distribution of the stopping size."""

    sizes: Ints
    """Where it can stop, ascending; the last is the budget."""
    probability: Floats
    """Of stopping at each."""

    @property
    def mean(self) -> float:
        return float(self.sizes @ self.probability)

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return float(np.sqrt((self.sizes - self.mean) ** 2 @ self.probability))

    @property
    def full(self) -> float:
        """The probability that the whole budget is used."""
        return float(self.probability[-1])


def qe_stopping(k: int, w: int, budget: int) -> StoppingLaw:
    """The law for independent continuous scores and alpha = 0.

    >>> [round(qe_stopping(8, w, 512).mean, 1) for w in (4, 8, 16)]
    [67.7, 153.5, 321.8]
    """
    for name, value in (("k", k), ("w", w), ("n", budget)):
        check_count(name, value)
    looked = steps(budget, k, budget)
    windows = looked[: len(looked) // w * w].reshape(-1, w)
    passes = windows[:, 0] / windows[:, -1]
    reaches = np.concatenate([[1.0], np.cumprod(1 - passes)])
    stops = np.append(reaches[:-1] * passes, reaches[-1])
    sizes = np.append(windows[:, -1], looked[-1])
    if len(windows) and sizes[-2] == sizes[-1]:  # at the budget it stops anyway, stable or not
        return StoppingLaw(sizes[:-1], np.append(stops[:-2], stops[-2] + stops[-1]))
    return StoppingLaw(sizes, stops)
