"""QUIT: stop when the best score has stopped moving (docs/method.md, "QUIT").

A step has k candidates, and windows have w steps and don't overlap. If the best scores R of a full window lie within
alpha of each other, the segment is stable; else the window starts again. A last window with fewer than w steps is
never tested.

The rule needs scores that mean the same on a larger pool. If a reranker's scores are relative to their pool, the rule
can watch the ``advantage`` instead of the best score: the best score's distance from the mean of all samples' scores,
in their standard deviations. Shifting or stretching all scores of a pool doesn't change it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from quitmt.defaults import ALPHA, BUDGET, STEP, WINDOW
from quitmt.errors import UsageError
from quitmt.protocols import RuleTraits
from quitmt.signature import field as text
from quitmt.types import Snapshot, StopReason

BEST, ADVANTAGE = "best", "advantage"
MOST = 10_000_000
"""Largest number of candidates, steps or looks: more than any run samples, and small enough for arithmetic."""


@dataclass(frozen=True, slots=True)
class Quit:
    """The rule of the paper, with its defaults.

    >>> watch = Quit(step=8, window=2, alpha=0.01, budget=32).open()
    >>> [watch.observe(Snapshot(8 * i, 0, r)) for i, r in enumerate([0.5, 0.6, 0.7, 0.705], start=1)]
    [None, None, None, <StopReason.STABLE: 'stable'>]
    """

    step: int = STEP
    window: int = WINDOW
    alpha: float = ALPHA
    budget: int = BUDGET
    single: bool = False
    """Allow a window of one step, which always stops at the first step because its range is 0."""
    watch: str = BEST
    """``best`` or ``advantage``."""
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        check_count("k", self.step)
        check_count("w", self.window)
        check_count("n", self.budget)
        if not (math.isfinite(self.alpha) and self.alpha >= 0):
            raise UsageError(f"alpha must be a number of at least 0, not {self.alpha}", field="stop.alpha")
        if self.window == 1 and not self.single:
            hint = "use w of 2 or more"
            raise UsageError("w = 1 always stops at the first step", hint=hint, field="stop.w")
        if self.watch not in (BEST, ADVANTAGE):
            raise UsageError(f"quit watches {BEST} or {ADVANTAGE}, not {self.watch!r}")
        name = f"quit|k:{self.step}|w:{self.window}|a:{text(self.alpha)}|n:{self.budget}"
        name += "" if self.watch == BEST else f"|watch:{self.watch}"
        object.__setattr__(self, "signature", name)

    @property
    def traits(self) -> RuleTraits:
        return RuleTraits(compares_scores=True) if self.watch == BEST else RuleTraits(needs_scores=True)

    def open(self) -> _Window:
        return _Window(self)


class _Window:
    """The window of one segment: its length, lowest and highest score."""

    __slots__ = ("_high", "_length", "_low", "_rule")

    def __init__(self, rule: Quit) -> None:
        self._rule = rule
        self._empty()

    def _empty(self) -> None:
        self._length, self._low, self._high = 0, math.inf, -math.inf

    def observe(self, snapshot: Snapshot) -> StopReason | None:
        watched = snapshot.score if self._rule.watch == BEST else advantage(snapshot)
        self._length += 1
        self._low = min(self._low, watched)
        self._high = max(self._high, watched)
        if self._length == self._rule.window:
            if self._high - self._low <= self._rule.alpha:
                return StopReason.STABLE
            self._empty()
        return StopReason.BUDGET if snapshot.size >= self._rule.budget else None

    def horizon(self, size: int) -> int:
        span = self._rule.step * self._rule.window
        return min(self._rule.budget, (size // span + 1) * span)


def advantage(snapshot: Snapshot) -> float:
    """Return how far the best score is above the samples' mean, in standard deviations; infinite without scores."""
    scores = snapshot.scores() if snapshot.scores is not None else None
    if scores is None:
        return math.inf
    spread = float(scores.std())
    return (snapshot.score - float(scores.mean())) / spread if spread > 0 else 0.0


def check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} must be a whole number of at least 1, not {value}", field=f"stop.{name}")
    if value > MOST:
        raise UsageError(f"{name} must be at most {MOST}", field=f"stop.{name}")
