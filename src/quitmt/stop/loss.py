"""Stop when the expected loss is small: the mean gain in MBR score that the whole budget would still bring.

Stopping after n of N candidates can lose in two ways:

- **The choice among candidates seen so far.** The full pool may prefer rival j to the leader b. Their mean difference
  over all N samples is the mean over the n seen, m, plus a normal error with e = se·√(1 − n/N), since n of its N terms
  are known. The expected loss to j is E[max(0, −D)] with D ~ N(m, e²), which is e·(φ(t) − t·Φ(−t)) with t = m/e. The
  sum over all rivals is an upper bound, because only one of them can win.
- **Candidates not seen yet.** With an exponential upper tail, the best of N exceeds the best of n on average by the
  tail's mean excess times ln(N/n). The leader's distance from the mean of the best eight samples stands in for the
  excess; duplicates each count, so it is 0 once the leader has come up eight times. The factor ``new`` between the two
  is far below 1, because the best score among n flatters the luckiest candidate, a new sample often repeats an old one,
  and anchors that lead are seldom beaten.

The sum is in the units of the score, so a user can choose the threshold for any utility. It is not a guarantee;
docs/anchors.md and docs/rules.md report the losses in replays.
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
"""Standard errors ahead beyond which the expected loss is below 1e-16 standard errors."""

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
"""Eight kinds of segments, equally frequent in pools of the embedded model: the signal at 16 candidates as a share of
the mean signal, and how much more certain the lead becomes per candidate (docs/findings/rules.md#pacing)."""


@dataclass(frozen=True)
class Loss(Threshold):
    limit: ClassVar[str] = "most"
    traits: ClassVar[RuleTraits] = RuleTraits(needs_rivals=True)

    step: int = STEP
    most: float = 5e-3
    """Largest acceptable expected loss, in units of the score."""
    new: float = 0.03
    """Fitted on anchored pools of two models (docs/anchors.md). Plain pools lose more to unseen candidates: 0.1."""
    scale: float = 0.6
    """Corrects the sum over rivals, which is too large because only one rival can win."""
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
        """Signals fall as 1/n times the unknown share of the pool, and faster where the lead is clearer."""
        start, surer = np.array(KINDS).T[:, :, None]
        signals = start / sizes * (1 - sizes / self.budget) * np.exp(-surer * np.maximum(0, sizes - 16))
        shares: Floats = signals / signals[:, 0].mean()
        return shares


@kernel()
def expected_loss(mean: Floats, error: Floats, top: Floats, known: float, new: float) -> float:
    """Return the expected loss; ``known`` is n/N, and ``top`` has the best candidates' scores, best first."""
    if known >= 1:
        return 0.0
    excess = top[0] - top.mean() if len(top) else 0.0
    return expected_shortfall(mean, error * math.sqrt(1 - known)) + new * excess * math.log(1 / known)


@kernel()
def expected_shortfall(mean: Floats, error: Floats) -> float:
    """Sum E[max(0, −D)] over normal D with these means and standard errors."""
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
