"""Stop when the expected loss is small: what MBR's score of the choice would gain, on average, from the whole budget.

Two things may be lost by stopping after n of N candidates:

- **The choice among those seen.** The full pool may prefer rival j to the leader b. Its mean difference over all N is
  that over the n seen, m, up to an error that is normal with e = se·√(1 − n/N), since n of its N terms are known. The
  expected loss to j is E[max(0, −D)] with D ~ N(m, e²), that is e·(φ(t) − t·Φ(−t)) with t = m/e; over all rivals these
  are summed, which cannot be too little.
- **Candidates not seen yet.** With an exponential upper tail the best of N is expected above the best of n by the
  tail's mean excess times ln(N/n). For the excess stands how far the leader is above the mean of the best eight
  samples; identical ones each count, so it is 0 when the leader has come up eight times. ``new`` is the factor between
  the two, far below 1: a score among the n flatters the luckiest, a new sample is often an old one, and where anchors
  lead it seldom beats them.

The sum is in the units of the score, whatever the utility, so the threshold is something that a user can aim at. It is
no guarantee (docs/anchors.md and docs/rules.md have the losses that replays came to).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from quitmt.compiled import kernel
from quitmt.defaults import BUDGET, STEP
from quitmt.protocols import RuleTraits
from quitmt.signature import field as text
from quitmt.stop.threshold import Counts, Floats, Threshold
from quitmt.types import Snapshot

SURE = 8.0
"""Standard errors ahead: what can still be lost there is below 1e-16 of one of them."""

KINDS = (
    (0.0, 1.0),
    (0.35, 0.19),
    (0.65, 0.054),
    (0.8, 0.027),
    (0.85, 0.0137),
    (0.95, 0.006),
    (1.2, 0.002),
    (1.75, 0.0),
)
"""Eight kinds of segments, equally frequent in pools of the embedded model: the signal at 16 candidates, as a share of
the mean one, and how fast the lead becomes sure with each candidate more (docs/findings/rules.md#pacing)."""


@dataclass(frozen=True)
class Loss(Threshold):
    limit: ClassVar[str] = "most"
    traits: ClassVar[RuleTraits] = RuleTraits(needs_rivals=True)

    step: int = STEP
    most: float = 5e-3
    """The expected loss that is small enough, in units of the score."""
    new: float = 0.03
    """Fitted on anchored pools of two models (docs/anchors.md). Plain pools lose more to what is not seen: 0.1."""
    scale: float = 0.6
    """Losses to single rivals are added up, though only one of them can win: the sum is too much."""
    minimum: int = 4
    looks: int = 2
    budget: int = BUDGET
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        self._check(most=self.most, new=self.new, scale=self.scale)
        scale = "" if self.scale == 1 else f"|scale:{text(self.scale)}"
        name = f"loss|k:{self.step}|l:{text(self.most)}|new:{text(self.new)}{scale}|{self._shared}"
        object.__setattr__(self, "signature", name)

    def signal(self, snapshot: Snapshot) -> float:
        if snapshot.rivals is None:
            return math.inf
        rivals = snapshot.rivals()
        known = snapshot.size / self.budget
        return self.scale * expected_loss(rivals.mean, rivals.error, rivals.top, known, self.new)

    def typical(self, sizes: Counts) -> Floats:
        """As 1/n of what is not known yet, and faster the clearer the lead is."""
        start, surer = np.array(KINDS).T[:, :, None]
        signals = start / sizes * (1 - sizes / self.budget) * np.exp(-surer * np.maximum(0, sizes - 16))
        shares: Floats = signals / signals[:, 0].mean()
        return shares


@kernel()
def expected_loss(mean: Floats, error: Floats, top: Floats, known: float, new: float) -> float:
    """``known`` is n/N; ``top`` the scores of the best candidates, the leader's first."""
    if known >= 1:
        return 0.0
    excess = top[0] - top.mean() if len(top) else 0.0
    return expected_shortfall(mean, error * math.sqrt(1 - known)) + new * excess * math.log(1 / known)


@kernel()
def expected_shortfall(mean: Floats, error: Floats) -> float:
    """The sum of E[max(0, −D)] over normal D with these means and standard errors."""
    total = 0.0
    for j in range(len(mean)):
        if mean[j] > SURE * error[j]:
            continue
        if error[j] > 0:
            t = mean[j] / error[j]
            density = math.exp(-0.5 * t * t) / math.sqrt(2 * math.pi)
            total += error[j] * (density - t * 0.5 * math.erfc(t / math.sqrt(2)))
        else:
            total += max(0.0, -mean[j])
    return total
