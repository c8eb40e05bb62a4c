"""A race among the candidates of MBR: stop when the leader can hardly lose anything to those that are there.

With leader b and support S, each rival j has paired differences d = u(b, h) − u(j, h) over h in S, without b and j
themselves. The leader may be worse than j by −mean(d), and by z standard errors more; when that is at most ``epsilon``
for every rival, going on could gain at most ``epsilon`` of expected utility, up to chance and to candidates not seen
yet. Unlike the best score, which drifts with the pool's size, the differences say how sure the choice is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from quitmt.compiled import kernel
from quitmt.defaults import BUDGET, STEP
from quitmt.protocols import RuleTraits
from quitmt.signature import field as text
from quitmt.stop.threshold import Threshold
from quitmt.types import Snapshot

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Race(Threshold):
    limit: ClassVar[str] = "epsilon"
    traits: ClassVar[RuleTraits] = RuleTraits(needs_rivals=True)

    step: int = STEP
    z: float = 2.5
    epsilon: float = 3e-3
    minimum: int = 32
    looks: int = 2
    budget: int = BUDGET
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        self._check(z=self.z, epsilon=self.epsilon)
        name = f"race|k:{self.step}|z:{text(self.z)}|e:{text(self.epsilon)}|{self._shared}"
        object.__setattr__(self, "signature", name)

    def signal(self, snapshot: Snapshot) -> float:
        if snapshot.rivals is None:
            return math.inf
        rivals = snapshot.rivals()
        return worst(rivals.mean, rivals.error, self.z)


@kernel()
def worst(mean: Floats, error: Floats, z: float) -> float:
    """How much better the most dangerous rival may be; −∞ without rivals."""
    found = -math.inf
    for j in range(len(mean)):
        found = max(found, z * error[j] - mean[j])
    return found
