"""QUIT: stop when the best score has stopped moving (docs/method.md, "QUIT").

Steps of k candidates, windows of w steps that do not overlap. At the end of a window, if its best scores R lie within
alpha of each other, the segment is stable; else the window is emptied. A last window with fewer than w steps is never
tested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from quitmt.errors import UsageError, place
from quitmt.signature import field as text
from quitmt.types import Standing, Verdict

MOST = 10_000_000
"""Of candidates, steps and looks: more than anybody samples, and few enough to count with."""


@dataclass(frozen=True, slots=True)
class Quit:
    """The rule of the paper, with its defaults.

    >>> watch = Quit(step=8, window=2, alpha=0.01, budget=32).open()
    >>> [watch.observe(Standing(8 * i, 0, r)) for i, r in enumerate([0.5, 0.6, 0.7, 0.705], start=1)]
    [None, None, None, <Verdict.STABLE: 'stable'>]
    """

    step: int = 8
    window: int = 8
    alpha: float = 1e-3
    budget: int = 512
    single: bool = False
    """Allow a window of one step, whose range is 0: it always stops at the first step."""
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        check_count("k", self.step)
        check_count("w", self.window)
        check_count("n", self.budget)
        if not (math.isfinite(self.alpha) and self.alpha >= 0):
            raise UsageError(f"{place('stop.alpha')}alpha must be a number of at least 0, not {self.alpha}")
        if self.window == 1 and not self.single:
            raise UsageError(f"{place('stop.w')}w = 1 always stops at the first step", hint="use w of 2 or more")
        name = f"quit|k:{self.step}|w:{self.window}|a:{text(self.alpha)}|n:{self.budget}"
        object.__setattr__(self, "signature", name)

    def open(self) -> _Window:
        return _Window(self)


class _Window:
    """The window of one segment; only its length, lowest and highest score matter."""

    __slots__ = ("_high", "_length", "_low", "_rule")

    def __init__(self, rule: Quit) -> None:
        self._rule = rule
        self._empty()

    def _empty(self) -> None:
        self._length, self._low, self._high = 0, math.inf, -math.inf

    def observe(self, standing: Standing) -> Verdict | None:
        self._length += 1
        self._low = min(self._low, standing.score)
        self._high = max(self._high, standing.score)
        if self._length == self._rule.window:
            if self._high - self._low <= self._rule.alpha:
                return Verdict.STABLE
            self._empty()
        return Verdict.BUDGET if standing.size >= self._rule.budget else None

    def horizon(self, size: int) -> int:
        span = self._rule.step * self._rule.window
        return min(self._rule.budget, (size // span + 1) * span)


def check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{place(f'stop.{name}')}{name} must be a whole number of at least 1, not {value}")
    if value > MOST:
        raise UsageError(f"{place(f'stop.{name}')}{name} must be at most {MOST}")
