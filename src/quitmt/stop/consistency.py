"""Adaptive-Consistency for votes (Aggarwal et al. 2023, arXiv:2305.11860): stop when the leader will hardly lose.

With a votes for the leading answer, b for the next one and a uniform prior, the leader's share of the two is
Beta(a + 1, b + 1). The rule stops when the chance that this share is below one half is at most ``doubt``. The authors
recommend this Beta criterion over a Dirichlet one for all answers: it is as good and costs less. Their confidence of
0.95 is a doubt of 0.05. They look after every answer; this rule does so with k = 1.

The formula is the one in the authors' package. ``mbr:vote`` extracts the answers; texts without an answer don't count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from quitmt.defaults import BUDGET, STEP
from quitmt.protocols import RuleTraits
from quitmt.signature import field as text
from quitmt.stop.threshold import Threshold
from quitmt.types import Snapshot


@dataclass(frozen=True)
class Consistency(Threshold):
    limit: ClassVar[str] = "doubt"
    traits: ClassVar[RuleTraits] = RuleTraits(needs_scores=True, needs_votes=True)

    step: int = STEP
    doubt: float = 0.05
    """Largest acceptable chance that another answer would win in the end."""
    minimum: int = 1
    looks: int = 64
    """At every step."""
    budget: int = BUDGET
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        self._check(doubt=self.doubt)
        name = f"consistency|k:{self.step}|d:{text(self.doubt)}|{self._shared}"
        object.__setattr__(self, "signature", name)

    def signal(self, snapshot: Snapshot) -> float:
        if snapshot.scores is None:
            return math.inf
        return doubt(*leading(snapshot.scores()))


def leading(shares: npt.NDArray[np.float64]) -> tuple[int, int]:
    """Return the votes for the leading answer and for the next one, from each sample's share of the votes.

    >>> leading(np.array([0.5, 0.25, 0.5, 0.0]))  # the last one has no answer
    (2, 1)
    """
    votes = np.rint(shares * len(shares)).astype(np.int64)
    most = int(votes.max(initial=0))
    if most == 0:
        return 0, 0
    if int((votes == most).sum()) > most:  # several answers have that many
        return most, most
    return most, int(votes[votes < most].max(initial=0))


def doubt(most: int, next_most: int) -> float:
    """Return P(Beta(a + 1, b + 1) < ½), which is the chance that a + b + 1 fair coins show more than a heads."""
    coins = most + next_most + 1
    more: int = sum(math.comb(coins, heads) for heads in range(most + 1, coins + 1))
    return float(Fraction(more, 1 << coins))
