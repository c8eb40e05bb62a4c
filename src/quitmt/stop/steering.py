"""Steering: the threshold of a rule follows the costs of a run, so that its mean cost comes out as requested.

This is for rerankers and models whose curve of threshold and cost is unknown (docs/decisions/0018-pacing.md). Segments
depend on each other as in ``learned``; outcomes hold all that is needed (``score``, ``trajectory``, ``signals`` and
``tokens``). Blank lines, copies of equal segments and failed segments cost nothing and teach nothing.

The signals of the last segments say what each would have cost with a higher threshold; for a lower one they are
extrapolated. Steering takes the threshold whose mean cost over them is the cost that is wanted now: the requested cost,
less a share of what was overspent so far. If the number of segments is known (``expect``), the cost that is wanted is
what is left for each segment still to come.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from quitmt import stop
from quitmt.errors import UsageError, setting
from quitmt.protocols import RuleTraits, traits_of
from quitmt.signature import field as text
from quitmt.stop.learned import InOrder, Level, Levels
from quitmt.stop.remembered import Remembered
from quitmt.stop.threshold import Threshold
from quitmt.types import Outcome, Snapshot, StopReason

LAG = 16
"""Segments that may be in flight when one begins."""
SLACK = 0.02
"""The share of its whole cost by which a run of known length may be off. A smaller one would have to come from the last
segments: no later ones make up for an expensive one, and cutting them short costs more than it saves."""
LAST = 3
"""Segments at the end of such a run that share the rest, each with the same number of candidates, if the run would
otherwise be off by more than the slack."""
HORIZON = 40
"""Segments over which overspending and underspending is made up for, or all that are left if these are fewer."""
DEAREST = 3.0
"""A segment may cost so many times the requested cost, …"""
PORTION = 0.05
"""… or this share of the rest for all segments, if that is more. Otherwise the first hard segments of a short run would
take the candidates that the others need."""
MOST = 48
"""The largest debt, in segments' costs: a cost that can never be met must not add up without end."""
SWING = 0.4
"""How far the cost that is wanted of one segment may be from the requested cost, as a share of it."""


@dataclass(frozen=True)
class Steered:
    """The rule of a steered run; ``rule`` is of the kind whose threshold is steered."""

    rule: Threshold
    cost: float
    """The requested mean per segment: candidates, anchors among them, or tokens."""
    tokens: bool = False
    lag: int = LAG
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        unit = "tokens" if self.tokens else ""
        kind, _, rest = self.rule.at(0.0).signature.partition("|")
        name = f"paced|{kind}|{rest}|cost:{text(self.cost)}{unit}|lag:{self.lag}"
        object.__setattr__(self, "signature", name)

    @property
    def step(self) -> int:
        return self.rule.step

    @property
    def budget(self) -> int:
        return self.rule.budget

    @property
    def traits(self) -> RuleTraits:
        return traits_of(self.rule, RuleTraits)

    def alone(self, share: float = 1.0) -> int:
        """Candidates of a segment before anything is known: about the requested number, times ``share``."""
        if self.tokens:
            return min(self.budget, self.rule.minimum)
        looks = [size for size in self.rule.sizes() if size <= share * self.cost]
        return looks[-1] if looks else next(self.rule.sizes())

    def open(self) -> _Recording:
        """For a segment that belongs to no run."""
        return self.steer().next(0).open()

    def steer(self) -> ThresholdSteering:
        """For the segments of one run."""
        return ThresholdSteering(self)


@dataclass(frozen=True)
class Aimed:
    """The rule of one segment of a steered run."""

    rule: Threshold
    most: int
    """The segment stops there in any case."""
    records_mean: bool
    signature: str
    budget: int

    @property
    def step(self) -> int:
        return self.rule.step

    @property
    def traits(self) -> RuleTraits:
        return traits_of(self.rule, RuleTraits)

    def open(self) -> _Recording:
        return _Recording(stop.within(self.rule, self.budget), self.most, records_mean=self.records_mean)


class _Recording:
    """A rule at work that keeps what it saw, for the outcome."""

    def __init__(self, rule: Threshold, most: int, *, records_mean: bool) -> None:
        self._rule, self._most, self._records_mean = rule, most, records_mean
        self.kept_signals: list[float] = []
        """A number for each look: the signal, or where signals change with what is learned, the mean score."""

    def observe(self, snapshot: Snapshot) -> StopReason | None:
        rule = self._rule
        if snapshot.size >= rule.budget:
            return StopReason.BUDGET
        if rule.looks_at(snapshot.size):
            signal = rule.signal(snapshot)
            self.kept_signals.append(self._kept(snapshot) if self._records_mean else min(signal, sys.float_info.max))
            if signal <= rule.threshold:
                return StopReason.DECIDED
        return StopReason.DECIDED if snapshot.size >= self._most else None

    @staticmethod
    def _kept(snapshot: Snapshot) -> float:
        mean = snapshot.mean
        return snapshot.score if mean is None else mean

    def horizon(self, size: int) -> int:
        found = self._rule.horizon(size)
        return min(self._most, found) if size < self._most else found


class ThresholdSteering(InOrder):
    """One run. ``next`` is called for every position of the input in order, ``add`` for every outcome in any order."""

    def __init__(self, steered: Steered) -> None:
        super().__init__(steered.lag)
        self._of = steered
        self._planned: deque[tuple[int, float]] = deque()
        """Positions that began and whose outcome does not count yet, with the cost that is wanted of each."""
        self._owed = 0.0
        """The overspending so far, in requested costs."""
        self._looks = np.array(list(steered.rule.sizes())[:-1], np.int64)
        self._known = Remembered(self._looks, steered.rule.typical(self._looks))
        self._levels = Levels(steered.rule.prior)

    def expect(self, length: int | None) -> None:
        super().expect(length)
        self._known.expect(length)

    def next(self, position: int, *, blank: bool = False) -> Aimed:
        """The rule of the next position, which may be ``blank``; ``ready`` comes first."""
        self._catch_up(position)
        while self._planned and self._planned[0][0] < self._added:
            self._planned.popleft()
        wanted, found = self._aimed()
        self._position += 1
        if not blank:
            self._planned.append((position, wanted))
        return found

    def _learn(self, outcome: Outcome) -> None:
        spent = outcome.tokens if self._of.tokens else outcome.cost
        if spent is None:
            hint = f"give {setting('stop.max_cost', 64)}, a number of candidates"
            raise UsageError("the price is in tokens, and these candidates come without a number of tokens", hint=hint)
        self._owed += spent / self._of.cost - 1
        self._owed = max(-MOST, min(MOST, self._owed))
        scores = [outcome.trajectory[size // self._of.step - 1] for size in self._looks[: len(outcome.signals)]]
        self._known.add(outcome, scores, spent)
        if outcome.score is not None:
            self._levels.add(outcome.score)

    def _aimed(self) -> tuple[float, Aimed]:
        """The cost that is wanted of the next segment, in requested costs, and its rule."""
        of, slack, level = self._of, SLACK * (self._length or 0), self._levels.level
        if not self._known.count or (of.rule.learns and level is None):  # the more make up for it, the safer
            share = 1 + min(0.5, slack / 8)
            return share, self._even(of.alone(share))
        owed = self._owed + sum(wanted - 1 for _, wanted in self._planned)
        left = None if self._length is None else max(1, self._length - self._position)
        if left is not None and left <= LAST and abs(owed) > slack:
            share = 1 - (owed - math.copysign(slack, owed)) / left
            return share, self._even(self._most(share, 1))
        beyond = owed - max(-slack / 2, min(slack / 2, owed))
        wanted = 1 - max(-SWING, min(SWING, beyond / min(HORIZON, left or HORIZON)))
        # If the number of segments is unknown, expect as many as there were.
        most = self._most(max(DEAREST, PORTION * (left or max(HORIZON, self._position))), 1)
        if left is not None:
            most = min(most, self._most(left - owed + slack, left))
        rule = of.rule.at(0.0).learned(level)
        threshold = self._known.threshold(rule, wanted * of.cost)
        return wanted, self._rule(rule.at(threshold), most)

    def _most(self, costs: float, segments: int) -> int:
        """The most that one of so many segments may have of so many costs, if the others are to have their first
        look."""
        first = int(self._looks[0])
        samples = segments * self._known.samples(costs / segments * self._of.cost)
        most = round((samples - (segments - 1) * first) / self._of.step) * self._of.step
        return min(self._of.budget, max(first, most))

    def _even(self, most: int) -> Aimed:
        """So many candidates, unless there is nothing at all to gain. On an unknown scale there always may be."""
        return self._rule(self._of.rule.at(0.0).learned(Level(sys.float_info.max, 0.0)), most)

    def _rule(self, rule: Threshold, most: int) -> Aimed:
        return Aimed(rule, most, self._of.rule.learns, self._of.signature, self._of.budget)
