"""BEACON (Wan et al. 2025, arXiv:2510.15945), a rival to compare with: Bayesian search with an unknown normal.

Scores are taken as draws of a normal of which nothing is known before (α₀ = −½, ν₀ = 0). After k of them the next one
is μ + σ·t, with t of Student's distribution with k − 1 degrees of freedom. The best of them, z standard deviations
above μ, may be kept at any time. The *index* h(k, z) is the cost of one more draw, in units of σ, at which going on and
stopping are worth the same when all later choices are made as well as can be, up to n draws in all. The rule stops when
σ·h is at most ``cost``. Scores below the ``ignore`` quantile of what was expected count as μ: a normal has no heavy
lower tail.

From the paper's abstract and its authors' published code: prior, updates, the index and its equation, the quantile
of 0.01. Their tables are for a few tens of draws; this one is our own backward induction over a coarser grid, and their
normal approximation of Student's distribution function is replaced by the real one. With MBR the scores on the present
pool stand for draws, which they are not quite: all of them move as the pool grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from quitmt.compiled import kernel
from quitmt.defaults import BUDGET, STEP
from quitmt.errors import UsageError
from quitmt.protocols import RuleTraits
from quitmt.signature import field as text
from quitmt.stop.threshold import Threshold
from quitmt.types import Snapshot

Floats = npt.NDArray[np.float64]
FIRST = 4
"""Draws after which there is an index: the mean of Student's distribution must exist, and its excess."""
HEIGHTS = np.linspace(0.0, 6.0, 49)
"""z"""
COSTS = np.geomspace(1e-6, 1.0, 44)
DRAWS = np.concatenate((-np.geomspace(8.0, 0.05, 20), [0.0], np.geomspace(0.05, 8.0, 20)))


@dataclass(frozen=True)
class Beacon(Threshold):
    limit: ClassVar[str] = "cost"
    traits: ClassVar[RuleTraits] = RuleTraits(needs_scores=True)

    step: int = STEP
    cost: float = 1e-4
    """Of one candidate, in units of the score."""
    ignore: float = 0.01
    minimum: int = 8
    looks: int = 64
    """At every step: the authors look after every candidate."""
    budget: int = BUDGET
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        self._check(cost=self.cost, ignore=self.ignore)
        if self.minimum < FIRST or self.ignore >= 0.5:
            raise UsageError(f"the beacon rule needs a minimum of {FIRST} or more, and an ignore below 0.5")
        own = f"c:{text(self.cost)}|ignore:{text(self.ignore)}"
        object.__setattr__(self, "signature", f"beacon|k:{self.step}|{own}|{self._shared}")

    def signal(self, snapshot: Snapshot) -> float:
        if snapshot.scores is None:
            return math.inf
        mean, spread = posterior(snapshot.scores(), _normal_quantile(self.ignore) if self.ignore else -math.inf)
        if spread <= 0:
            return 0.0
        heights = indices(self.budget)[snapshot.size]
        return spread * math.exp(np.interp((snapshot.score - mean) / spread, HEIGHTS, heights))


@kernel()
def posterior(scores: Floats, low: float) -> tuple[float, float]:
    """μ and σ of the next score; ``low`` is the normal's quantile below which one counts as μ."""
    mean, squares = 0.0, 0.0
    for count in range(len(scores)):
        score = scores[count]
        if count >= 3:
            freedom = count - 1.0
            tail = low * (1 + (1 + low * low) / (4 * freedom)) if low > -1e300 else low  # Cornish and Fisher's
            if score < mean + tail * math.sqrt(squares / freedom * (1 + 1 / count)):
                score = mean
        step = score - mean
        mean += step / (count + 1)
        squares += step * (score - mean)
    count = len(scores)
    return mean, math.sqrt(squares / max(count - 1, 1) * (1 + 1 / count))


@lru_cache(maxsize=4)
def indices(budget: int) -> Floats:
    """ln h by draws so far and by height."""
    found = np.full((budget + 1, len(HEIGHTS)), math.log(COSTS[0]))
    _induce(budget, HEIGHTS, np.log(COSTS), DRAWS, found)
    return found


@kernel()
def _induce(budget: int, heights: Floats, costs: Floats, draws: Floats, found: Floats) -> None:
    """From the last draw back: ``worth`` is what going on brings, by height and cost, if it is worth anything."""
    worth = np.zeros((len(heights), len(costs)))
    step_z, step_c = heights[1] - heights[0], costs[1] - costs[0]
    for count in range(budget - 1, 3, -1):
        freedom, share = count - 1.0, 1 / (count + 1.0)
        scale = math.lgamma(freedom / 2 + 0.5) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
        chances = _chances(draws, freedom, scale)
        shrinks = np.sqrt((1 - share * share) / count * (freedom + draws * draws))
        going = np.empty_like(worth)
        for i in range(len(heights)):
            once = _excess(heights[i], freedom, scale)
            for j in range(len(costs)):
                going[i, j] = once - math.exp(costs[j])
            for place in range(len(draws)):
                draw, shrink = draws[place], shrinks[place]
                z = min(max((max(heights[i], draw) - draw * share) / shrink / step_z, 0.0), len(heights) - 1.001)
                row, above, moved = int(z), z - int(z), math.log(shrink) / step_c
                for j in range(len(costs)):
                    c = min(max(j - moved, 0.0), len(costs) - 1.001)
                    column, right = int(c), c - int(c)
                    lower = (1 - right) * worth[row, column] + right * worth[row, column + 1]
                    upper = (1 - right) * worth[row + 1, column] + right * worth[row + 1, column + 1]
                    going[i, j] += chances[place] * shrink * ((1 - above) * lower + above * upper)
        for i in range(len(heights)):
            last = len(costs) - 1
            while last >= 0 and going[i, last] <= 0:
                last -= 1
            if last == len(costs) - 1:
                found[count, i] = costs[last]
            elif last >= 0:
                part = going[i, last] / (going[i, last] - going[i, last + 1])
                found[count, i] = costs[last] + part * step_c
            for j in range(len(costs)):
                worth[i, j] = max(going[i, j], 0.0)


@kernel()
def _density(t: float, freedom: float, scale: float) -> float:
    """Student's; ``scale`` is the logarithm of its factor."""
    return math.exp(scale - (freedom + 1) / 2 * math.log1p(t * t / freedom))


@kernel()
def _chances(draws: Floats, freedom: float, scale: float) -> Floats:
    found: Floats = np.empty(len(draws))
    for place in range(len(draws)):
        left, right = draws[max(place - 1, 0)], draws[min(place + 1, len(draws) - 1)]
        found[place] = _density(draws[place], freedom, scale) * (right - left) / 2
    found /= found.sum()
    return found


@kernel()
def _excess(z: float, freedom: float, scale: float) -> float:
    """E[(T − z)⁺] of Student's distribution, by the midpoint rule on z + u/(1 − u)."""
    total, steps = 0.0, 400
    for place in range(steps):
        u = (place + 0.5) / steps
        total += u / (1 - u) * _density(z + u / (1 - u), freedom, scale) / (1 - u) ** 2 / steps
    return total


def _normal_quantile(share: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(share)
