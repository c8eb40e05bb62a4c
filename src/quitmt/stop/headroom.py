"""Stop when what is left below a perfect score is not worth the candidates it has taken: (top − best) / n ≤ share.

For QE, where the best score is a running maximum and its window range follows the law of records whatever the scores
are: a segment whose best candidate is nearly perfect has little to gain, a bad one is worth more candidates.

Unless its candidates hardly differ: a line of code or of emoji has scores near 0 and would get the whole budget, though
nothing can come of it. With ``reach``, what is left is at most so many times what the best candidate has above the mean
one. And with ``cap`` no segment gets more candidates than that, however bad its best one is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from quitmt.defaults import BUDGET, STEP
from quitmt.errors import UsageError
from quitmt.protocols import RuleTraits
from quitmt.signature import field as text
from quitmt.stop.threshold import Threshold
from quitmt.types import Snapshot


@dataclass(frozen=True)
class Headroom(Threshold):
    limit: ClassVar[str] = "share"
    traits: ClassVar[RuleTraits] = RuleTraits(needs_running_best=True)

    step: int = STEP
    share: float = 2e-3
    top: float = 1.0
    """The perfect score."""
    reach: float = 0.0
    """0 is no bound."""
    cap: int = 0
    """Of candidates; 0 is none but the budget."""
    minimum: int = 16
    looks: int = 2
    budget: int = BUDGET
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        self._check(share=self.share, reach=self.reach, cap=self.cap)
        if self.cap:
            object.__setattr__(self, "budget", min(self.budget, self.cap))
        if not math.isfinite(self.top):
            raise UsageError(f"top of the headroom rule must be a number, not {self.top}")
        reach = f"|reach:{text(self.reach)}" if self.reach else ""
        name = f"headroom|k:{self.step}|c:{text(self.share)}|top:{text(self.top)}{reach}|{self._shared}"
        object.__setattr__(self, "signature", name)

    def signal(self, snapshot: Snapshot) -> float:
        mean = -math.inf if snapshot.mean is None else snapshot.mean
        return float(self.room(snapshot.score, mean)) / snapshot.size

    def room(self, best: Any, mean: Any) -> Any:
        """What may be left above the best score; of arrays, too."""
        left = self.top - best
        return np.minimum(left, self.reach * (best - mean)) if self.reach else left
