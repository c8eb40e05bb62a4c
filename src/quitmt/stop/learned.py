"""Learn from earlier segments of a run which scores good translations get, for ``headroom`` with ``top=auto``.

Segment i depends on the outcomes of the first ``needed(i)`` segments of the input and on no others, in whichever order
segments finish. So a run gives the same results whenever its input has the same order, and so does a resumed run:
outcomes hold all that is needed here (``score``). ``InOrder`` keeps that order for this module and for ``steering``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from quitmt.protocols import StoppingRule
from quitmt.types import Outcome, StopReason

HIGH = 0.99
"""The quantile of best scores that stands for the top. From 0.95 on little changes; 0.9 stops good segments too soon
once the mean number of candidates exceeds a dozen (docs/study-qe)."""
PRIOR = 100
"""Segments that a prior counts for, beside those that were seen."""
LEAST = 8
"""Segments that must have been seen if there is no prior."""
WINDOW = 4096
"""Segments that are remembered. A short memory follows the difficulty of the text, so that hard passages would get no
more candidates than easy ones."""
LAG = 64
"""Segments that may be in flight when one begins."""
RAMP = 3
"""At the start, one more may be in flight for so many segments begun: the first outcomes count soon."""


def needed(position: int, lag: int, length: int | None = None) -> int:
    """How many of the first segments must have finished before the one at this position begins. At the start and, if
    the length is known, at the end few are in flight, so that what the others cost is known sooner."""
    in_flight = min(lag, 1 + position // RAMP)
    if length is not None:
        in_flight = min(in_flight, max(1, (length - position) // 2))
    return max(0, position - in_flight)


@dataclass(frozen=True, slots=True)
class Level:
    """Where the best scores of segments are."""

    top: float
    """The score of a good translation."""
    room: float
    """How far the best score of a usual segment is below the top."""


class Levels:
    """The level, learned from best scores; two numbers a caller may share without telling anything about segments."""

    def __init__(self, prior: Level | None = None) -> None:
        self._prior = prior
        self._best: deque[float] = deque(maxlen=WINDOW)

    @classmethod
    def of(cls, best: Iterable[float]) -> Level:
        """The level of these best scores, however few."""
        return _level(np.fromiter(best, np.float64))

    def add(self, best: float) -> None:
        self._best.append(best)

    @property
    def level(self) -> Level | None:
        """None as long as too little is known."""
        count, prior = len(self._best), self._prior
        if prior is None and count < LEAST:
            return None
        if not count:
            return prior
        found = _level(np.array(self._best))
        if prior is None:
            return found
        weight = PRIOR / (PRIOR + count)
        top, room = found.top + weight * (prior.top - found.top), found.room + weight * (prior.room - found.room)
        return Level(top, room)


def _level(best: npt.NDArray[np.float64]) -> Level:
    top = float(np.quantile(best, HIGH))
    return Level(top, float(np.maximum(top - best, 0).mean()))


class InOrder(ABC):
    """Bookkeeping of one run: outcomes count in the order of the input, ``lag`` positions late at most."""

    def __init__(self, lag: int) -> None:
        self._lag = lag
        self._length: int | None = None
        self._waiting: dict[int, Outcome] = {}
        self._added, self._position = 0, 0

    def expect(self, length: int | None) -> None:
        """How many positions there will be, if that is known; called before the first of them."""
        self._length = length

    @property
    def ready(self) -> bool:
        """Whether the next position may begin."""
        return all(position in self._waiting for position in range(self._added, self._due()))

    def add(self, position: int, outcome: Outcome) -> None:
        self._waiting[position] = outcome

    def _due(self) -> int:
        return needed(self._position, self._lag, self._length)

    def _catch_up(self, position: int) -> None:
        """Learn from all outcomes that this position depends on."""
        assert position == self._position
        while self._added < self._due():
            outcome = self._waiting.pop(self._added)
            if outcome.stop is not StopReason.FAILED and outcome.cost:  # blank, copied and failed ones teach nothing
                self._learn(outcome)
            self._added += 1

    @abstractmethod
    def _learn(self, outcome: Outcome) -> None: ...


class Learner(Protocol):
    """A rule that needs to know the level."""

    @property
    def prior(self) -> Level | None: ...

    def learned(self, level: Level | None) -> StoppingRule: ...


class LevelSteering(InOrder):
    """Chooses the rule of each segment of a run whose rule learns."""

    def __init__(self, rule: Learner) -> None:
        super().__init__(LAG)
        self._rule, self._levels = rule, Levels(rule.prior)

    def next(self, position: int, *, blank: bool = False) -> StoppingRule:
        self._catch_up(position)
        self._position += 1
        return self._rule.learned(self._levels.level)

    def _due(self) -> int:
        # With a prior the first segments need not wait for each other, and the last ones need not at all.
        if self._rule.prior is not None:
            return max(0, self._position - self._lag)
        return needed(self._position, self._lag)

    def _learn(self, outcome: Outcome) -> None:
        if outcome.score is not None:
            self._levels.add(outcome.score)
