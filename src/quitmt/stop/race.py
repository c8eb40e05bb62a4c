"""A race among the candidates of MBR: stop when the leader can hardly lose anything.

With leader b and support S, each rival j has paired differences d = u(b, h) − u(j, h) over h in S, without b and j
themselves. The leader may be worse than j by −mean(d), and by z standard errors more; when that is at most ``epsilon``
for every rival, going on could gain at most ``epsilon`` of expected utility, up to chance and to candidates not seen
yet. Unlike the best score, which drifts with the pool's size, the differences say how sure the choice is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from quitmt.errors import UsageError
from quitmt.signature import field as text
from quitmt.stop.window import check_count
from quitmt.types import Standing, Verdict


@dataclass(frozen=True, slots=True)
class Race:
    """Looks after every ``every`` steps, from ``minimum`` candidates on."""

    step: int = 8
    z: float = 2.5
    epsilon: float = 3e-3
    minimum: int = 32
    every: int = 2
    budget: int = 512
    needs_rivals: bool = True
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        for name, value in (("k", self.step), ("minimum", self.minimum), ("every", self.every), ("n", self.budget)):
            check_count(name, value)
        for name, number in (("z", self.z), ("epsilon", self.epsilon)):
            if not (math.isfinite(number) and number >= 0):
                raise UsageError(f"{name} of a race must be a number of at least 0, not {number}")
        name = f"race|k:{self.step}|z:{text(self.z)}|e:{text(self.epsilon)}|m:{self.minimum}|every:{self.every}"
        object.__setattr__(self, "signature", f"{name}|n:{self.budget}")

    def open(self) -> Race:
        return self  # it keeps nothing, so it is its own watch

    def observe(self, standing: Standing) -> Verdict | None:
        if self._looks(standing.size) and standing.rivals is not None:
            rivals = standing.rivals()
            if not len(rivals.mean) or float(np.max(self.z * np.asarray(rivals.error) - rivals.mean)) <= self.epsilon:
                return Verdict.DECIDED
        return Verdict.BUDGET if standing.size >= self.budget else None

    def _looks(self, size: int) -> bool:
        return size >= self.minimum and size % (self.step * self.every) == 0

    def horizon(self, size: int) -> int:
        span = self.step * self.every
        later = max(size + 1, self.minimum)
        return min(self.budget, -(-later // span) * span)
