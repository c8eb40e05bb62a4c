"""Rules that stop when a number has fallen to a threshold: when they look, and how they decide.

Such a rule computes a *signal* from a snapshot: how much might still be gained. Rules of one kind that differ only in
the threshold see the same signals, so the lab and ``quitmt calibrate`` replay all of them in one pass over recorded
pools.

Each look costs time and is another chance to stop by luck, and large requests run faster. So looks become rarer as
the pool grows: ``looks`` per doubling.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from quitmt.errors import UsageError
from quitmt.protocols import Watch
from quitmt.stop.learned import Level
from quitmt.stop.window import check_count
from quitmt.types import Snapshot, StopReason

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class Threshold(ABC):
    """Base of dataclasses of settings, including ``step``, ``minimum``, ``looks`` and ``budget``. A rule keeps no other
    state, so it is its own watch."""

    limit: ClassVar[str]
    """Name of the setting that is the threshold."""
    step: int
    minimum: int
    looks: int
    budget: int
    signature: str

    @abstractmethod
    def signal(self, snapshot: Snapshot) -> float:
        """Return the number at which to stop if it is at most the threshold."""

    @property
    def learns(self) -> bool:
        """Whether signals mean something only after ``learned``, so that they change during a run."""
        return False

    @property
    def prior(self) -> Level | None:
        return None

    def learned(self, level: Level | None) -> Self:
        """The same rule at a level of best scores; None while too little is known."""
        return self

    @property
    def unknown(self) -> int:
        """Candidates of a segment while too little is known."""
        return self.minimum

    def with_top(self, top: float, spec: str) -> str:
        """The text of the rule ``spec`` with this top, if it learns one."""
        return spec

    def signals_of(self, scores: Floats, kept: Floats, sizes: Counts) -> Floats:
        """The signals of segments (rows) at some sizes, from the best scores and the numbers that outcomes kept."""
        return kept

    def typical(self, sizes: Counts) -> Floats | None:
        """Return typical signals at these sizes, if known: one row per kind of segment, all kinds equally frequent, as
        shares of their mean at the first size."""
        return None

    @property
    def threshold(self) -> float:
        return float(getattr(self, self.limit))

    def at(self, threshold: float) -> Self:
        """Return the same rule with another threshold."""
        changed: Any = replace(self, **{self.limit: threshold})  # type: ignore[type-var]
        return changed  # type: ignore[no-any-return]

    def open(self) -> Watch:
        return self

    def observe(self, snapshot: Snapshot) -> StopReason | None:
        if snapshot.size >= self.budget:
            return StopReason.BUDGET
        if self.looks_at(snapshot.size) and self.signal(snapshot) <= self.threshold:
            return StopReason.DECIDED
        return None

    def looks_at(self, size: int) -> bool:
        return size >= self.minimum and size % self._gap(size) == 0

    def horizon(self, size: int) -> int:
        later = max(size + 1, self.minimum)
        gap = self._gap(later)
        return min(self.budget, -(-later // gap) * gap)

    def sizes(self) -> Iterator[int]:
        """Yield all sizes at which the rule looks, then the budget."""
        size = 0
        while size < self.budget:
            size = self.horizon(size)
            yield size

    def _gap(self, size: int) -> int:
        doublings = max(0, (size // (self.looks * self.step)).bit_length() - 1)
        return self.step << doublings

    @property
    def _shared(self) -> str:
        """End of the signature, with the settings that all such rules have."""
        return f"m:{self.minimum}|looks:{self.looks}|n:{self.budget}"

    def _check(self, **numbers: float) -> None:
        for name, count in (("k", self.step), ("minimum", self.minimum), ("looks", self.looks), ("n", self.budget)):
            check_count(name, count)
        rule = type(self).__name__.lower()
        for name, number in numbers.items():
            if not (math.isfinite(number) and number >= 0):
                raise UsageError(f"{name} of the {rule} rule must be a number of at least 0, not {number}")
