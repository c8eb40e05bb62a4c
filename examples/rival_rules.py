"""Three stopping rules that win nowhere on our pools (docs/findings/rules.md), kept to compare with and as examples.

    cd examples; quitmt rerank pools.jsonl --stop rival_rules:Race:epsilon=0.01
    python benchmarks/rivals.py POOLS.jsonl            # compares them with the built-in rules

``Race`` stops when no candidate of exact MBR can be much better than the leader. ``Pandora`` and ``Beacon`` follow
published rules: they stop when one more candidate costs more than it is expected to bring. Each class has its formula
and sources. A rule with a threshold is a subclass of ``quitmt.stop.threshold.Threshold`` (docs/extending.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from quitmt.compiled import kernel
from quitmt.errors import UsageError
from quitmt.protocols import RuleTraits
from quitmt.signature import field as text
from quitmt.stop.threshold import Threshold
from quitmt.types import Snapshot

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Race(Threshold):
    """Stop when no candidate of exact MBR can be better than the leader by more than ``epsilon``.

    With leader b and support S, each rival j has paired differences d = u(b, h) − u(j, h) over h in S without b and j.
    The leader may be worse than j by −mean(d), and by z standard errors more. When that is at most ``epsilon`` for
    every rival, the whole budget could gain at most ``epsilon`` of expected utility, apart from chance and candidates
    that have not been sampled yet. The best score drifts with the pool's size; the differences don't.
    """

    limit: ClassVar[str] = "epsilon"
    traits: ClassVar[RuleTraits] = RuleTraits(needs_rivals=True)

    step: int = 8
    z: float = 2.5
    epsilon: float = 3e-3
    minimum: int = 32
    looks: int = 2
    budget: int = 512
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        self._check(z=self.z, epsilon=self.epsilon)
        name = f"race|k:{self.step}|z:{text(self.z)}|e:{text(self.epsilon)}|{self._shared}"
        object.__setattr__(self, "signature", name)

    def signal(self, snapshot: Snapshot) -> float:
        if snapshot.rivals is None:
            return math.inf
        rivals = snapshot.rivals()
        return float((self.z * rivals.error - rivals.mean).max(initial=-math.inf))


SHARE = 5
"""M is the reward that one in five pools of the whole budget is expected to reach."""
LEAST = 1e-4
"""Smallest mean of the exponential, as in the authors' code."""
NODES, WEIGHTS = np.polynomial.laguerre.laggauss(32)


@dataclass(frozen=True)
class Pandora(Threshold):
    """UCB Pandora's box (Kalayci, Raman & Dughmi 2025, arXiv:2510.01394).

    Each candidate is a box that costs something to open. If the distribution of the boxes' values is known, Weitzman's
    rule is optimal: stop when one more box is expected to add less than it costs. Here the distribution is learned.
    Scores r become rewards e^r, as in a Bradley–Terry model; the value of a candidate is v/(v + M), the chance that its
    reward v wins against M, the best reward there can be. Rewards above their median m are modelled as m + an
    exponential of mean s, estimated with a margin of √(ln n · ln(1/δ)/n): up for the distribution, down for
    M = m + s·ln(N/5). The rule stops when the expected gain of one more, E[(X/(X + M) − v/(v + M))⁺], is at most
    ``cost``.

    The transformation, the median, the margin, N/5 and the 20 boxes that are opened first come from the paper's
    abstract and its authors' published experiments; we could not read the full text. Their last experiment has s
    without the margin in the expectation; ``margin=0`` leaves it out here. They compare v with a threshold, which is
    equivalent. Their rewards are logits; scores from 0 to 1 are nearly linear under e^r, so ``scale`` multiplies them.
    """

    limit: ClassVar[str] = "cost"
    traits: ClassVar[RuleTraits] = RuleTraits(needs_scores=True)

    step: int = 8
    cost: float = 1e-3
    """Cost of one candidate, in units of the chance to win."""
    scale: float = 1.0
    margin: float = 0.05
    """δ, the chance that the bounds are wrong; 0 means no bounds."""
    minimum: int = 20
    looks: int = 64
    """Every step: the authors look after every candidate."""
    budget: int = 512
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        self._check(cost=self.cost, scale=self.scale, margin=self.margin)
        own = f"c:{text(self.cost)}|scale:{text(self.scale)}|d:{text(self.margin)}"
        object.__setattr__(self, "signature", f"pandora|k:{self.step}|{own}|{self._shared}")

    def signal(self, snapshot: Snapshot) -> float:
        if snapshot.scores is None:
            return math.inf
        scores = self.scale * snapshot.scores()
        # Shifting all scores divides all rewards by one number and changes no chance; it keeps e^r from overflowing.
        best = self.scale * snapshot.score
        return expected_gain(np.exp(scores - best), self.budget, self.margin)


def expected_gain(rewards: Floats, budget: int, margin: float) -> float:
    """Expected gain of one more reward, in chance to win; rewards are scaled so that the best one is 1."""
    count = len(rewards)
    median = float(np.partition(rewards, count // 2)[count // 2])
    mean = max(float(rewards[rewards >= median].mean()) - median, LEAST)
    width = math.sqrt(math.log(max(count, 2)) * math.log(1 / margin) / count) if 0 < margin < 1 else 0.0
    most = median + math.log(max(budget / SHARE, 1.0)) * mean * max(1 - width, 0.0)
    spread = mean * (1 + width)
    above = math.exp(-max(1 - median, 0.0) / spread)  # the chance that one more is better than the best
    lifted = 1 + spread * NODES  # what it is then
    return float(above * (WEIGHTS * (lifted / (lifted + most) - 1 / (1 + most))).sum())


FIRST = 4
"""Smallest number of draws with an index: the mean of Student's distribution and its excess must exist."""
HEIGHTS = np.linspace(0.0, 6.0, 49)
"""Grid of z."""
COSTS = np.geomspace(1e-6, 1.0, 44)
DRAWS = np.concatenate((-np.geomspace(8.0, 0.05, 20), [0.0], np.geomspace(0.05, 8.0, 20)))


@dataclass(frozen=True)
class Beacon(Threshold):
    """BEACON (Wan et al. 2025, arXiv:2510.15945): Bayesian search with an unknown normal distribution.

    Scores are draws of a normal with an uninformative prior (α₀ = −½, ν₀ = 0). After k of them the next one is μ + σ·t,
    where t has Student's distribution with k − 1 degrees of freedom. The best draw so far, z standard deviations above
    μ, may be kept at any time. The *index* h(k, z) is the cost of one more draw, in units of σ, at which continuing and
    stopping are worth the same if all later choices are optimal, up to n draws in all. The rule stops when σ·h is at
    most ``cost``. Scores below the ``ignore`` quantile of the expectation count as μ: a normal has no heavy lower tail.

    The prior, the updates, the index and its equation, and the quantile of 0.01 come from the paper's abstract and its
    authors' published code. Their tables cover a few tens of draws; ours come from a backward induction over a coarser
    grid, with Student's distribution function itself where they approximate it by a normal. With MBR, the scores on the
    current pool stand in for draws, although all of them move as the pool grows.
    """

    limit: ClassVar[str] = "cost"
    traits: ClassVar[RuleTraits] = RuleTraits(needs_scores=True)

    step: int = 8
    cost: float = 1e-4
    """Cost of one candidate, in units of the score."""
    ignore: float = 0.01
    minimum: int = 8
    looks: int = 64
    """Every step: the authors look after every candidate."""
    budget: int = 512
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
        mean, spread = posterior(snapshot.scores(), NormalDist().inv_cdf(self.ignore) if self.ignore else -math.inf)
        if spread <= 0:
            return 0.0
        heights = indices(self.budget)[snapshot.size]
        return spread * math.exp(np.interp((snapshot.score - mean) / spread, HEIGHTS, heights))


@kernel()
def posterior(scores: Floats, low: float) -> tuple[float, float]:
    """Return μ and σ of the next score; a score below the normal's quantile ``low`` counts as μ."""
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
    """Return ln h by number of draws and by height."""
    found = np.full((budget + 1, len(HEIGHTS)), math.log(COSTS[0]))
    _induce(budget, HEIGHTS, np.log(COSTS), DRAWS, found)
    return found


@kernel()
def _induce(budget: int, heights: Floats, costs: Floats, draws: Floats, found: Floats) -> None:
    """Work back from the last draw; ``worth`` is the value of continuing, by height and cost, or 0 if negative."""
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
    """Density of Student's distribution; ``scale`` is the logarithm of its factor."""
    return math.exp(scale - (freedom + 1) / 2 * math.log1p(t * t / freedom))


@kernel()
def _chances(draws: Floats, freedom: float, scale: float) -> Floats:
    """Probability of each grid point of Student's distribution."""
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
