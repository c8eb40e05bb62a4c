"""The engine: a pure state machine from candidates to outcomes. No I/O, no clock, no tasks.

A driver turns its crank, and a live run, a replay and a server differ only in the driver:

    admit(segment)                  a segment takes a slot
    asks()         → asks           what should be generated now, each ask given once
    feed(draw)                      candidates arrived, in any order
    updates()      → updates        what can be reranked now, each given once
    settle(updates, standings)      what the reranker said
    expire(id)                      a segment's time is up: it stops with the best so far
    abandon(id)                     what it still waited for is waited for no longer
    finished()     → finished       segments that stopped; their slots are free

Invariants: candidates are committed in index order, whole steps at a time, whatever order they arrived in; a rule sees
its own segment's standings in order and nothing else; everything up to the rule's horizon is asked for at once.
With ``speculate`` the next window is asked for as soon as the last one has arrived, before the verdict on it: the
generator is never idle, the outcomes are the same, and what a stop makes useless is counted.
With ``anytime`` segments may expire, so little is asked for and reranked at a time; the outcomes of those that do not
expire are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic

from quitmt.engine.guarded import GuardedRule, GuardedWatch
from quitmt.errors import GenerationError, InputError, QuitmtError, RerankError
from quitmt.loops.faults import FAULTS
from quitmt.protocols import Reranker, RerankerTraits, State, StoppingRule, Update, effort, traits_of
from quitmt.types import Ask, Candidate, Draw, Outcome, Seconds, Segment, Standing, Verdict

AT_ONCE = 32
"""Candidates that are asked for, and about as many reranked, at a time where segments may expire. A rule that can stop
only at its budget would ask for all of it at once, and when time is up there would be nothing to return, or a long
reranking to wait for. Fewer would mean more round trips than a generator or an encoder can make up for."""

Observer = Callable[[Segment, Standing, Sequence[Candidate], Verdict | None], None]
"""Called after each step: the segment, where it stands, its candidates so far, and the verdict that fell, if any."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A segment that stopped: its outcome, and the candidates that were used for it."""

    segment: Segment
    outcome: Outcome
    candidates: Sequence[Candidate]

    @classmethod
    def without_candidates(cls, segment: Segment, stop: Verdict, signature: str, error: str | None = None) -> Finished:
        """One that needed none, or that was never begun."""
        outcome = Outcome(segment.id, segment.source, "", None, None, 0, stop, (), signature=signature, error=error)
        return cls(segment, outcome, ())


@dataclass(frozen=True, slots=True)
class Begun:
    """A segment with the first of its candidates, which an earlier run drew: they need not be asked for again."""

    segment: Segment
    candidates: Sequence[Candidate]


@dataclass(slots=True)
class Wasted:
    """What was generated and never used, because its segment had stopped: nothing, unless windows are speculative."""

    candidates: int = 0
    tokens: int = 0

    def __bool__(self) -> bool:
        return self.candidates > 0 or self.tokens > 0

    def add(self, candidates: Sequence[Candidate]) -> None:
        self.candidates += len(candidates)
        self.tokens += sum(candidate.tokens or 0 for candidate in candidates)


@dataclass(slots=True, eq=False)
class _Slot(Generic[State]):
    segment: Segment
    state: State
    watch: GuardedWatch
    asked: int = 0
    reranked: int = 0
    reranking: bool = False
    expired: bool = False
    end: int | None = None
    """How many candidates there are in all, once that is known."""
    pool: list[Candidate] = field(default_factory=list)
    """Candidates 0, 1, … without a gap."""
    early: dict[int, Candidate] = field(default_factory=dict)
    """Candidates that arrived before a lower index did."""
    trajectory: list[float] = field(default_factory=list)
    standing: Standing | None = None
    generate_seconds: float = 0.0
    rerank_seconds: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether all candidates that there are have arrived."""
        return self.end is not None and len(self.pool) >= self.end

    @property
    def winding_up(self) -> bool:
        """Whether its time is up and there is something to return: it needs no more candidates."""
        return self.expired and len(self.pool) > 0


class Engine(Generic[State]):
    def __init__(
        self,
        reranker: Reranker[State],
        rule: StoppingRule,
        *,
        signature: str = "",
        observer: Observer | None = None,
        speculate: bool = False,
        anytime: bool = False,
    ) -> None:
        self._reranker = reranker
        self._traits = traits_of(reranker, RerankerTraits)
        self._rule = GuardedRule(rule)
        rule = self._rule
        # A rule that cannot stop before its budget needs no standings on the way, and some rerankers pay for each.
        self._dear = self._traits.standings_cost and rule.open().horizon(0) >= rule.budget
        self._stride = rule.budget if self._dear else rule.step
        self._signature = signature
        self._observer = observer
        self._speculate = speculate
        self._anytime = anytime
        self.wasted = Wasted()
        self._slots: dict[str, _Slot[State]] = {}
        self._to_ask: dict[str, _Slot[State]] = {}
        self._to_rerank: dict[str, _Slot[State]] = {}
        self._reranking: list[_Slot[State]] = []
        self._finished: list[Finished] = []

    @property
    def active(self) -> int:
        """Segments admitted and not yet finished."""
        return len(self._slots)

    @property
    def has_updates(self) -> bool:
        return bool(self._to_rerank)

    def admit(self, segment: Segment, known: Sequence[Candidate] = ()) -> None:
        """``known`` are its first candidates, if an earlier run drew some; whole steps of them are used."""
        if segment.id in self._slots:
            raise InputError(f"two segments have the id {segment.id!r}")
        try:
            state = self._reranker.open(segment)
        except FAULTS as raised:
            error = f"segment {segment.id}: reranking failed: {type(raised).__name__}: {raised}"
            self._finished.append(Finished.without_candidates(segment, Verdict.FAILED, self._signature, error))
            return
        slot = _Slot(segment, state, self._rule.open())
        self._slots[segment.id] = slot
        if self._traits.needs_source and not segment.source:
            reranker = self._reranker.signature.partition("|")[0]
            self._finish(
                slot, Verdict.FAILED, InputError(f"segment {segment.id} has no source, which {reranker} needs")
            )
            return
        budget = self._rule.budget
        slot.asked = budget if len(known) >= budget else len(known) - len(known) % self._rule.step
        slot.pool.extend(known[: slot.asked])
        if slot.asked < min(budget, slot.watch.horizon(0)):
            self._to_ask[segment.id] = slot
        if slot.pool:
            self._mark(slot)

    def candidates(self, segment_id: str) -> Sequence[Candidate]:
        """Those of a segment in flight that have arrived without a gap."""
        slot = self._slots.get(segment_id)
        return slot.pool if slot else ()

    def asks(self) -> list[Ask]:
        asks = []
        for slot in list(self._to_ask.values()):
            start, slot.asked = slot.asked, self._reach(slot)
            if not self._blames_rule(slot):
                asks.append(Ask(slot.segment, start, slot.asked))
        self._to_ask.clear()
        return asks

    def served(self, ask: Ask) -> bool:
        """Whether nothing is missing of an ask: all arrived, or the segment needs no more."""
        slot = self._slots.get(ask.segment.id)
        return slot is None or slot.winding_up or slot.ended or len(slot.pool) >= ask.stop

    def feed(self, draw: Draw) -> None:
        slot = self._slots.get(draw.segment.id)
        if slot is None or slot.winding_up:  # it stopped meanwhile: what still arrives is not wanted
            self.wasted.add(draw.candidates)
            return
        slot.generate_seconds += draw.seconds
        if draw.error is not None:
            self._finish(slot, Verdict.FAILED, draw.error)
            return
        _collect(slot, draw)
        if draw.ended:
            slot.end = draw.start + len(draw.candidates)
        self._mark(slot)

    def updates(self, most: int | None = None) -> list[Update[State]]:
        """``most`` segments at a time, those whose time is up first, then as they waited; all if it is not given."""
        self._reranking = sorted(self._to_rerank.values(), key=lambda slot: not slot.expired)[:most]
        updates = []
        for slot in self._reranking:
            slot.reranking = True
            updates.append(Update(slot.state, slot.pool[slot.reranked : self._ready(slot)], self._stride))
            del self._to_rerank[slot.segment.id]
        return updates

    def settle(
        self,
        updates: Sequence[Update[State]],
        results: Sequence[list[Standing] | QuitmtError],
        seconds: float = 0.0,
    ) -> None:
        """``seconds`` is what reranking took in all; each segment is charged in proportion to its candidates."""
        total = sum(len(update.candidates) for update in updates)
        for slot, update, result in zip(self._reranking, updates, results, strict=True):
            slot.reranking = False
            if slot.segment.id not in self._slots:  # its generator failed while this was reranked
                continue
            slot.rerank_seconds += seconds * len(update.candidates) / max(1, total)
            slot.reranked += len(update.candidates)
            if isinstance(result, QuitmtError):
                self._finish(slot, Verdict.FAILED, result)
            else:
                self._observe(slot, result)

    def expire(self, segment_id: str) -> bool:
        """The segment's time is up. Whether it needs no more candidates, so that those under way may be aborted.

        1. With a standing and nothing being reranked it is finished, with the best so far.
        2. While its candidates are being reranked, it is finished as soon as that settles.
        3. With candidates but no standing these are reranked at once, be they less than a step, and that was all.
        4. With nothing at all, the first candidates that arrive are reranked, and that was all.

        So it has a translation unless its generator or reranker fails, or takes so long that it is abandoned.
        """
        slot = self._slots.get(segment_id)
        if slot is None:
            return True
        slot.expired = True
        if slot.asked:
            self._to_ask.pop(segment_id, None)
        self._mark(slot)
        return slot.winding_up

    def abandon(self, segment_id: str, deadline: str, *, scoring: bool) -> None:
        """Wait no longer for what an expired segment still waits for: it is finished with its best so far, or fails.

        Unless ``scoring`` may be abandoned too, a segment that has candidates and no standing goes on waiting for one.
        """
        slot = self._slots.get(segment_id)
        if slot is None:
            return
        if slot.standing is not None:
            self._finish(slot, Verdict.DEADLINE)
        elif not slot.pool:
            self._finish(slot, Verdict.FAILED, GenerationError(f"no candidate arrived before {deadline}"))
        elif scoring:
            self._finish(slot, Verdict.FAILED, RerankError(f"no candidate was scored before {deadline}"))

    def finished(self) -> list[Finished]:
        finished, self._finished = self._finished, []
        return finished

    def _reach(self, slot: _Slot[State]) -> int:
        """Up to where a segment should be asked for now: the next verdict, or the one after it."""
        verdict = slot.watch.horizon(slot.reranked)
        if verdict <= slot.asked:  # speculation: what is asked for already may not be enough
            verdict = slot.watch.horizon(slot.asked)
        reach = min(self._rule.budget, verdict)
        if slot.expired:  # its time was up before it was asked for: whatever comes first will do
            return min(reach, slot.asked + self._rule.step)
        return min(reach, slot.asked + AT_ONCE) if self._anytime else reach

    def _ready(self, slot: _Slot[State]) -> int:
        """How many candidates may be committed: whole steps only, until everything up to the next verdict is there.

        Never more than that: reranking what a verdict may make useless would cost MBR quadratically.
        """
        step = self._rule.step
        if slot.expired:
            return len(slot.pool)
        if self._dear:
            most = self._rule.budget  # no standing before it, in however many pieces candidates arrive
        elif self._anytime:
            most = min(slot.watch.horizon(slot.reranked), slot.reranked + max(step, AT_ONCE // step * step))
        else:
            most = min(slot.asked, slot.watch.horizon(slot.reranked))
        arrived = min(len(slot.pool), most)
        if arrived == most or slot.ended:
            return arrived
        return arrived - arrived % self._stride

    def _mark(self, slot: _Slot[State]) -> None:
        """Find what can be done next for a segment, if anything."""
        self._find_next(slot)
        if slot.segment.id in self._slots:
            self._blames_rule(slot)

    def _blames_rule(self, slot: _Slot[State]) -> bool:
        """Whether its rule has done something wrong: then that was all."""
        if slot.watch.fault is None:
            return False
        self._finish(slot, Verdict.FAILED, QuitmtError(f"segment {slot.segment.id}: {slot.watch.fault}"))
        return True

    def _find_next(self, slot: _Slot[State]) -> None:
        if slot.expired:
            self._wind_up(slot)
            return
        if not slot.ended and len(slot.pool) == slot.asked < self._ahead(slot):
            self._to_ask[slot.segment.id] = slot
        if slot.reranking:
            return
        if self._ready(slot) > slot.reranked:
            self._to_rerank[slot.segment.id] = slot
        elif slot.ended and slot.reranked == len(slot.pool):
            self._finish(slot, Verdict.EXHAUSTED)
        elif slot.reranked == slot.asked:
            self._to_ask[slot.segment.id] = slot

    def _ahead(self, slot: _Slot[State]) -> int:
        """Up to where a segment may be asked for before what has arrived is reranked."""
        if self._speculate:
            return self._rule.budget
        return min(self._rule.budget, slot.watch.horizon(slot.reranked)) if self._anytime else slot.asked

    def _wind_up(self, slot: _Slot[State]) -> None:
        """What is left to do for a segment whose time is up; see ``expire``."""
        if slot.reranking:
            return
        if slot.standing is not None:
            self._finish(slot, Verdict.DEADLINE)
        elif slot.pool:
            self._to_rerank[slot.segment.id] = slot
        elif slot.ended:
            self._finish(slot, Verdict.EXHAUSTED)

    def _observe(self, slot: _Slot[State], standings: list[Standing]) -> None:
        for standing in standings:
            slot.standing = standing
            slot.trajectory.append(standing.score)
            verdict = slot.watch.observe(standing) if self._is_step(slot, standing.size) else None
            if self._blames_rule(slot):
                return
            if verdict is None and slot.ended and standing.size == len(slot.pool):
                verdict = Verdict.EXHAUSTED
            if verdict is None and slot.expired and standing is standings[-1]:
                verdict = Verdict.DEADLINE
            if self._observer is not None:
                self._observer(slot.segment, standing, slot.pool[: standing.size], verdict)
            if verdict is not None:
                self._finish(slot, verdict)
                return
        self._mark(slot)

    def _is_step(self, slot: _Slot[State], size: int) -> bool:
        """Whether a rule would see this standing in any case: not the part of a step that an expired segment got."""
        return not slot.expired or size % self._rule.step == 0 or size == self._rule.budget or slot.ended

    def _finish(self, slot: _Slot[State], verdict: Verdict, error: QuitmtError | None = None) -> None:
        del self._slots[slot.segment.id]
        self._to_rerank.pop(slot.segment.id, None)
        self._to_ask.pop(slot.segment.id, None)
        standing = slot.standing
        size = standing.size if standing else 0
        if verdict is not Verdict.FAILED:
            self.wasted.add([*slot.pool[size:], *slot.early.values()])
        outcome = Outcome(
            id=slot.segment.id,
            source=slot.segment.source,
            translation=slot.pool[standing.best].text if standing else "",
            index=standing.best if standing else None,
            score=standing.score if standing else None,
            size=size,
            stop=verdict,
            trajectory=tuple(slot.trajectory),
            seconds=Seconds(slot.generate_seconds, slot.rerank_seconds),
            signature=self._signature,
            error=str(error) if error else None,
            effort=effort(self._reranker, slot.state),
        )
        self._finished.append(Finished(slot.segment, outcome, slot.pool[:size]))


def _collect(slot: _Slot[State], draw: Draw) -> None:
    """Append what continues the pool; keep what came early; drop what is there already."""
    if draw.start == len(slot.pool) and not slot.early:
        slot.pool.extend(draw.candidates)
        return
    for index, candidate in enumerate(draw.candidates, start=draw.start):
        if index >= len(slot.pool):
            slot.early.setdefault(index, candidate)
    while len(slot.pool) in slot.early:
        slot.pool.append(slot.early.pop(len(slot.pool)))
