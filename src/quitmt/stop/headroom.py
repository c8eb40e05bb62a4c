"""Stop when what is left below a perfect score is not worth the candidates it has taken: (most − best) / n ≤ share.

For QE, where the best score is a running maximum and its window range follows the law of records whatever the scores
are: a segment whose best candidate is nearly perfect has little to gain, a bad one is worth more candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from quitmt.errors import UsageError
from quitmt.signature import field as text
from quitmt.stop.window import check_count
from quitmt.types import Standing, Verdict


@dataclass(frozen=True, slots=True)
class Headroom:
    step: int = 8
    share: float = 2e-3
    most: float = 1.0
    """The perfect score."""
    minimum: int = 16
    budget: int = 512
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        for name, value in (("k", self.step), ("minimum", self.minimum), ("n", self.budget)):
            check_count(name, value)
        if not (math.isfinite(self.share) and self.share >= 0 and math.isfinite(self.most)):
            raise UsageError("share and most of the headroom rule must be numbers, the share at least 0")
        name = f"headroom|k:{self.step}|c:{text(self.share)}|top:{text(self.most)}|m:{self.minimum}|n:{self.budget}"
        object.__setattr__(self, "signature", name)

    def open(self) -> Headroom:
        return self  # it keeps nothing, so it is its own watch

    def observe(self, standing: Standing) -> Verdict | None:
        if standing.size >= self.minimum and (self.most - standing.score) / standing.size <= self.share:
            return Verdict.DECIDED
        return Verdict.BUDGET if standing.size >= self.budget else None

    def horizon(self, size: int) -> int:
        later = max(size + 1, self.minimum)
        return min(self.budget, -(-later // self.step) * self.step)
