"""How many candidates of a segment are requested and reranked at a time: as many as the next stop reason may need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from quitmt.engine.guarded import GuardedRule
from quitmt.engine.slots import Slot
from quitmt.protocols import RerankerTraits

AT_ONCE = 32
"""Candidates that are asked for, and about as many reranked, at a time where segments may expire. A rule that can stop
only at its budget would ask for all of it at once, and when time is up there would be nothing to return, or a long
reranking to wait for. Fewer would mean more round trips than a generator or an encoder can make up for."""


@dataclass(frozen=True, slots=True)
class Pace:
    stride: int
    """Candidates from one snapshot to the next."""
    dear: bool
    """Whether there is one snapshot only, at the end."""
    speculate: bool
    anytime: bool
    soon: bool = False
    """Whether only a step is asked for at first: a client has not much time, and must have something to return."""

    @classmethod
    def of(
        cls, rule: GuardedRule, reranker: RerankerTraits, *, speculate: bool, anytime: bool, soon: bool = False
    ) -> Self:
        # A rule that cannot stop before its budget needs no snapshots on the way, and some rerankers pay for each.
        dear = reranker.snapshots_cost and rule.open().horizon(0) >= rule.budget
        return cls(rule.budget if dear else rule.step, dear, speculate, anytime, soon)

    def reach(self, slot: Slot[Any]) -> int:
        """Up to where a segment should be asked for now: the next stop reason, or the one after it."""
        rule = slot.watch.rule
        stop_reason = slot.watch.horizon(slot.reranked)
        if stop_reason <= slot.requested:  # speculation: what is asked for already may not be enough
            stop_reason = slot.watch.horizon(slot.requested)
        reach = min(rule.budget, stop_reason)
        if slot.expired:  # its time was up before it was asked for: whatever comes first will do
            return min(reach, slot.requested + rule.step)
        if not self.anytime:
            return reach
        return min(reach, slot.requested + (rule.step if self.soon and not slot.requested else AT_ONCE))

    def ready(self, slot: Slot[Any]) -> int:
        """How many candidates may be committed: whole steps only, until everything up to the next stop reason is there.

        Never more than that: reranking what a stop reason may make useless would cost MBR quadratically.
        """
        rule = slot.watch.rule
        if slot.expired:
            return len(slot.pool)
        if self.dear:
            most = rule.budget  # no snapshot before it, in however many pieces candidates arrive
        elif self.anytime:
            at_once = max(rule.step, AT_ONCE // rule.step * rule.step)
            most = min(slot.watch.horizon(slot.reranked), slot.reranked + at_once)
        else:
            most = min(slot.requested, slot.watch.horizon(slot.reranked))
        arrived = min(len(slot.pool), most)
        if arrived == most or slot.ended:
            return arrived
        return arrived - arrived % self.stride

    def ahead(self, slot: Slot[Any]) -> int:
        """Up to where a segment may be asked for before what has arrived is reranked."""
        budget = slot.watch.rule.budget
        if self.speculate:
            return budget
        return min(budget, slot.watch.horizon(slot.reranked)) if self.anytime else slot.requested
