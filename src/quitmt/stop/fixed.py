"""Rules with a known number of candidates: the whole budget (``full``, the unaccelerated baseline) or ``fixed:N``."""

from __future__ import annotations

from dataclasses import dataclass, field

from quitmt.defaults import BUDGET, STEP
from quitmt.stop.window import check_count
from quitmt.types import Snapshot, StopReason


@dataclass(frozen=True, slots=True)
class Fixed:
    """Stops at ``budget`` candidates, whatever their scores."""

    budget: int = BUDGET
    step: int = STEP
    """Only how often the best score is recorded."""
    name: str = "fixed"
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        check_count("n", self.budget)
        check_count("k", self.step)
        object.__setattr__(self, "signature", f"{self.name}|k:{self.step}|n:{self.budget}")

    def open(self) -> Fixed:
        return self  # it keeps nothing, so it is its own watch

    def observe(self, snapshot: Snapshot) -> StopReason | None:
        return StopReason.BUDGET if snapshot.size >= self.budget else None

    def horizon(self, size: int) -> int:
        return self.budget
