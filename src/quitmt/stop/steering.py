"""Steering: the threshold of a rule follows what a run has cost, so that its mean cost comes out as asked.

This is for rerankers and models of which no curve of threshold and cost is known (docs/decisions/0018-pacing.md). It is
the one case in which segments depend on each other:

- Segment i (from 0) depends on the outcomes of the first ``needed(i)`` segments of the input, and on no others, in
  whichever order segments finish. So a run gives the same whenever its input has the same order, and a resumed run
  gives the same as an undisturbed one: outcomes have all that is needed here (``signals``, ``tokens``).
- Blank lines, copies of equal segments and failed segments cost nothing and teach nothing.
- From the signals of the last segments it is known what each would have cost with a higher threshold; with a lower one
  it is extrapolated. The threshold is taken whose mean cost over them is what is wanted now: the cost that was asked
  for, less a share of what was spent too much so far. If it is known how many segments there are (``expect``), that
  is what is left for each that is still to come.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from quitmt import stop
from quitmt.errors import UsageError, setting
from quitmt.protocols import RuleTraits, traits_of
from quitmt.signature import field as text
from quitmt.stop.headroom import Headroom
from quitmt.stop.remembered import Remembered
from quitmt.stop.threshold import Threshold
from quitmt.types import Outcome, Snapshot, StopReason

LAG = 16
"""Segments that may be in flight when one is begun."""
RAMP = 3
"""At the start, one more may be in flight for so many segments begun: the first outcomes count soon."""
SLACK = 0.02
"""The share of its whole cost by which a run of known length may be off. A smaller one would have to be taken from the
last segments: no later ones make up for a dear one, and to be cut short costs more than it saves."""
LAST = 3
"""Segments at the end of such a run that share what is left, each with the same number of candidates, if the run would
be off by more than that: just so much that it is not."""
HORIZON = 40
"""Segments over which what was spent too much or too little is made up for, or all that are left if these are fewer."""
DEAREST = 3.0
"""A segment may cost so many times what was asked for, …"""
PORTION = 0.05
"""… or this share of what is left for all segments, if that is more. Else the first hard segments of a short run would
take what the others need."""
MOST = 48
"""Segments' costs that are made up for at most: what can never be met is not owed without end."""
SWING = 0.4
"""How far what is wanted of one segment may be from what was asked for, as a share of it."""


def needed(position: int, lag: int = LAG, length: int | None = None) -> int:
    """How many of the first segments must have finished before the one at this position is begun. At the start and, if
    it is known where that is, at the end there are few in flight: what the others cost is known sooner."""
    in_flight = min(lag, 1 + position // RAMP)
    if length is not None:
        in_flight = min(in_flight, max(1, (length - position) // 2))
    return max(0, position - in_flight)


@dataclass(frozen=True)
class Steered:
    """The rule of a run that is steered; ``rule`` is of the kind whose threshold is steered."""

    rule: Threshold
    cost: float
    """Asked for, a segment, on average: candidates, anchors among them, or tokens."""
    tokens: bool = False
    learns_top: bool = False
    """Whether the perfect score of a headroom rule is not known: then what other segments reached stands for it."""
    lag: int = LAG
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        unit = "tokens" if self.tokens else ""
        kind, _, rest = self.rule.at(0.0).signature.partition("|")
        top = "|top:seen" if self.learns_top else ""
        name = f"paced|{kind}|{rest}{top}|cost:{text(self.cost)}{unit}|lag:{self.lag}"
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
        """Candidates of a segment of which nothing is known: about as many as were asked for, times ``share``."""
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
    """It stops there in any case."""
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


class ThresholdSteering:
    """One run. ``next`` is called for every position of the input in order, ``add`` for every outcome in any order."""

    def __init__(self, steered: Steered) -> None:
        self._of = steered
        self._length: int | None = None
        self._waiting: dict[int, Outcome] = {}
        self._added, self._position = 0, 0
        self._planned: deque[tuple[int, float]] = deque()
        """Positions that were begun and whose outcome does not count yet, with what each is wanted to cost."""
        self._owed = 0.0
        """What was spent too much, in costs asked for."""
        self._looks = np.array(list(steered.rule.sizes())[:-1], np.int64)
        self._known = Remembered(self._looks, None if steered.learns_top else steered.rule.typical(self._looks))

    def expect(self, length: int | None) -> None:
        """How many positions there will be, if that is known; before the first of them."""
        self._length = length
        self._known.expect(length)

    @property
    def ready(self) -> bool:
        """Whether the next position may be begun."""
        return all(position in self._waiting for position in range(self._added, self._due()))

    def add(self, position: int, outcome: Outcome) -> None:
        self._waiting[position] = outcome

    def next(self, position: int, *, blank: bool = False) -> Aimed:
        """The rule of the next position, which may be ``blank``; ``ready`` comes first."""
        assert position == self._position
        while self._added < self._due():
            self._learn(self._waiting.pop(self._added))
            self._added += 1
        while self._planned and self._planned[0][0] < self._added:
            self._planned.popleft()
        wanted, found = self._aimed()
        self._position += 1
        if not blank:
            self._planned.append((position, wanted))
        return found

    def _due(self) -> int:
        return needed(self._position, self._of.lag, self._length)

    def _learn(self, outcome: Outcome) -> None:
        if outcome.stop is StopReason.FAILED or not outcome.cost:
            return
        spent = outcome.tokens if self._of.tokens else outcome.cost
        if spent is None:
            hint = f"give {setting('stop.max_cost', 64)}, a number of candidates"
            raise UsageError("the price is in tokens, and these candidates come without a number of tokens", hint=hint)
        self._owed += spent / self._of.cost - 1
        self._owed = max(-MOST, min(MOST, self._owed))
        scores = [outcome.trajectory[size // self._of.step - 1] for size in self._looks[: len(outcome.signals)]]
        self._known.add(outcome, scores, spent)

    def _aimed(self) -> tuple[float, Aimed]:
        """What the next segment is wanted to cost, in costs asked for, and its rule."""
        of, slack = self._of, SLACK * (self._length or 0)
        if not self._known.count:  # the more there are to make up for it, the safer
            share = 1 + min(0.5, slack / 8)
            return share, self._even(of.alone(share))
        owed = self._owed + sum(wanted - 1 for _, wanted in self._planned)
        left = None if self._length is None else max(1, self._length - self._position)
        if left is not None and left <= LAST and abs(owed) > slack:
            share = 1 - (owed - math.copysign(slack, owed)) / left
            return share, self._even(self._most(share, 1))
        beyond = owed - max(-slack / 2, min(slack / 2, owed))
        wanted = 1 - max(-SWING, min(SWING, beyond / min(HORIZON, left or HORIZON)))
        rule = of.rule
        if of.learns_top:
            assert isinstance(rule, Headroom)
            rule = replace(rule, top=self._known.high)
        threshold = self._known.threshold(rule, wanted * of.cost, learned=of.learns_top)
        # Where nobody knows how many segments come, as many as there were.
        most = self._most(max(DEAREST, PORTION * (left or max(HORIZON, self._position))), 1)
        if left is not None:
            most = min(most, self._most(left - owed + slack, left))
        return wanted, self._rule(rule.at(threshold), most)

    def _most(self, costs: float, segments: int) -> int:
        """All that one of so many segments may have of so many costs, if the others are to have their first look."""
        first = int(self._looks[0])
        samples = segments * self._known.samples(costs / segments * self._of.cost)
        most = round((samples - (segments - 1) * first) / self._of.step) * self._of.step
        return min(self._of.budget, max(first, most))

    def _even(self, most: int) -> Aimed:
        """So many candidates, unless there is nothing at all to gain."""
        never: Any = self._of.rule.at(0.0)
        if self._of.learns_top:  # whatever the scale, no score is perfect
            never = replace(never, top=sys.float_info.max)
        return self._rule(never, most)

    def _rule(self, rule: Threshold, most: int) -> Aimed:
        return Aimed(rule, most, self._of.learns_top, self._of.signature, self._of.budget)
