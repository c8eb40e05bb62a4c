"""UCB Pandora's box (Kalayci, Raman & Dughmi 2025, arXiv:2510.01394), a rival to compare with.

Each candidate is a box that costs something to open. With a known distribution of what is in boxes, Weitzman's rule is
optimal: stop when one more is expected to add less than it costs. Here the distribution is learned. Scores r become
rewards e^r, as in a Bradley–Terry model, and what counts is the chance v/(v + M) of the best one v against the best
there can be, M. Rewards above their median m are taken as m + an exponential of mean s, which is estimated with a
margin of √(ln n · ln(1/δ)/n), up for the distribution and down for M = m + s·ln(N/5). The rule stops when the expected
gain of one more, E[(X/(X + M) − v/(v + M))⁺], is at most ``cost``.

From the paper's abstract and its authors' published experiments: the transformation, the median, the margin, N/5 and
the 20 boxes that are opened first. Their last experiment has s without the margin in the expectation; the margin is the
algorithm's name, so it is here, and ``margin=0`` leaves it out. They find a threshold for v and compare, which is the
same. Their rewards are logits; scores from 0 to 1 are nearly linear under e^r, and ``scale`` multiplies them first. The
paper's own text was not at hand beyond its abstract.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from quitmt.defaults import BUDGET, STEP
from quitmt.protocols import RuleTraits
from quitmt.signature import field as text
from quitmt.stop.threshold import Threshold
from quitmt.types import Snapshot

Floats = npt.NDArray[np.float64]
SHARE = 5
"""M is the level that one of so many pools of the whole budget is expected to reach."""
LEAST = 1e-4
"""Of the exponential's mean, as the authors have it."""
NODES, WEIGHTS = np.polynomial.laguerre.laggauss(32)


@dataclass(frozen=True)
class Pandora(Threshold):
    limit: ClassVar[str] = "cost"
    traits: ClassVar[RuleTraits] = RuleTraits(needs_scores=True)

    step: int = STEP
    cost: float = 1e-3
    """Of one candidate, in units of the chance to win."""
    scale: float = 1.0
    margin: float = 0.05
    """δ: how likely the bounds may be wrong; 0 for no bounds."""
    minimum: int = 20
    looks: int = 64
    """At every step: the authors look after every candidate."""
    budget: int = BUDGET
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        self._check(cost=self.cost, scale=self.scale, margin=self.margin)
        own = f"c:{text(self.cost)}|scale:{text(self.scale)}|d:{text(self.margin)}"
        object.__setattr__(self, "signature", f"pandora|k:{self.step}|{own}|{self._shared}")

    def signal(self, snapshot: Snapshot) -> float:
        if snapshot.scores is None:
            return math.inf
        scores = self.scale * snapshot.scores()
        # Shifting all scores divides all rewards by one number, and changes no chance: e^r must not overflow.
        best = self.scale * snapshot.score
        return expected_gain(np.exp(scores - best), self.budget, self.margin)


def expected_gain(rewards: Floats, budget: int, margin: float) -> float:
    """Of one more reward, in the chance to win; the best one so far is 1."""
    count = len(rewards)
    median = float(np.partition(rewards, count // 2)[count // 2])
    mean = max(float(rewards[rewards >= median].mean()) - median, LEAST)
    width = math.sqrt(math.log(max(count, 2)) * math.log(1 / margin) / count) if 0 < margin < 1 else 0.0
    most = median + math.log(max(budget / SHARE, 1.0)) * mean * max(1 - width, 0.0)
    spread = mean * (1 + width)
    above = math.exp(-max(1 - median, 0.0) / spread)  # the chance that one more is better than the best
    lifted = 1 + spread * NODES  # what it is then
    return float(above * (WEIGHTS * (lifted / (lifted + most) - 1 / (1 + most))).sum())
