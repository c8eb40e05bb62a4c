"""The engine: a pure state machine from candidates to outcomes. No I/O, no clock, no tasks.

A driver turns its crank, and a live run, a replay and a server differ only in the driver:

    admit(segment)                  a segment takes a slot
    asks()         → asks           what should be generated now, each ask given once
    feed(draw)                      candidates arrived, in any order
    updates()      → updates        what can be reranked now, each given once
    settle(updates, snapshots)      what the reranker said
    expire(key)                     a segment's time is up: it stops with the best so far
    abandon(key)                    what it still waited for is waited for no longer
    drop(key)                       nobody wants it any more: its slot is free, and it has no outcome
    finished()     → finished       segments that stopped; their slots are free

Invariants: candidates are committed in index order, whole steps at a time, whatever order they arrived in; a rule sees
its own segment's snapshots in order and nothing else; everything up to the rule's horizon is asked for at once.
With ``speculate`` the next window is asked for as soon as the last one has arrived, before the stop reason on it: the
generator is never idle, the outcomes are the same, and what a stop makes useless is counted.
With ``anytime`` segments may expire, so little is asked for and reranked at a time; the outcomes of those that do not
expire are the same.
With ``anchored`` nothing is reranked before a segment's anchors have arrived: they go with its first update.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from quitmt.engine.ranking import listed
from quitmt.engine.slots import Observer, Slot, Wasted, given
from quitmt.engine.terms import Terms
from quitmt.errors import InputError, NotInTime, QuitmtError, RerankError, setting
from quitmt.loops.faults import FAULTS, blamed
from quitmt.protocols import Reranker, RerankerTraits, State, StoppingRule, Update, effort, ranked, traits_of
from quitmt.types import Begun, Candidate, Draw, Finished, Ranked, Request, Segment, Snapshot, StopReason


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
        anchored: bool = False,
        ranked: bool = False,
    ) -> None:
        self._anchored = anchored
        self._reranker = reranker
        self._traits = traits_of(reranker, RerankerTraits)
        self._terms = Terms.of(
            rule, self._traits, signature=signature, speculate=speculate, anytime=anytime, ranked=ranked
        )
        self._observer = observer
        self.wasted = Wasted()
        self._slots: dict[str, Slot[State]] = {}
        self._to_request: dict[str, Slot[State]] = {}
        self._to_rerank: dict[str, Slot[State]] = {}
        self._reranking: list[Slot[State]] = []
        self._finished: list[Finished] = []

    @property
    def active(self) -> int:
        """Segments admitted and not yet finished."""
        return len(self._slots)

    @property
    def has_updates(self) -> bool:
        return bool(self._to_rerank)

    def admit(
        self,
        segment: Segment,
        known: Sequence[Candidate] = (),
        available: int | None = None,
        anchors: Sequence[Candidate] | None = None,
        terms: Terms | None = None,
    ) -> None:
        """``known`` are its first candidates, if an earlier run drew some, and ``anchors`` its anchors; whole steps are
        used. ``available`` is how many it has in all, if that is known: the rule then goes by that budget, if it is the
        smaller one. ``terms`` are its own, if it has any."""
        terms = terms or self._terms
        if segment.key in self._slots:
            raise InputError(f"two segments have the id {segment.id!r}")
        try:
            state = self._reranker.open(segment)
        except FAULTS as raised:
            error = blamed(RerankError, f"segment {segment.id}: reranking failed", raised)
            self._finished.append(Finished.without_candidates(segment, StopReason.FAILED, terms.signature, error))
            return
        rule = terms.rule if available is None else terms.rule.within(available)
        slot = Slot(segment, state, rule.open(), terms, end=available)
        if not self._anchored:
            slot.anchors = given(segment)
        elif anchors is not None:
            slot.anchors = tuple(anchors)
        else:  # they come with the first candidates, so these must be asked for
            known = ()
        self._slots[segment.key] = slot
        if self._traits.needs_source and not segment.source:
            reranker = self._reranker.signature.partition("|")[0]
            self._finish(
                slot, StopReason.FAILED, InputError(f"segment {segment.id} has no source, which {reranker} needs")
            )
            return
        if self._refuses_anchors(slot):
            return
        slot.requested = rule.budget if len(known) >= rule.budget else len(known) - len(known) % rule.step
        slot.pool.extend(known[: slot.requested])
        if slot.requested < min(rule.budget, slot.watch.horizon(0)):
            self._to_request[segment.key] = slot
        if slot.pool:
            self._mark(slot)

    def drawn(self, segment: Segment) -> Begun:
        """What has arrived without a gap for a segment in flight."""
        slot = self._slots.get(segment.key)
        return Begun(segment, slot.pool, slot.anchors) if slot else Begun(segment, ())

    def requests(self) -> list[Request]:
        requests = []
        for slot in list(self._to_request.values()):
            start, slot.requested = slot.requested, slot.terms.pace.reach(slot)
            if not self._blames_rule(slot):
                requests.append(Request(slot.segment, start, slot.requested, anchors=slot.anchors is None))
        self._to_request.clear()
        return requests

    def served(self, request: Request) -> bool:
        """Whether nothing is missing of an ask: all arrived, or the segment needs no more."""
        slot = self._slots.get(request.segment.key)
        if slot is None or slot.winding_up or slot.ended:
            return True
        return len(slot.pool) >= request.stop and slot.anchors is not None

    def feed(self, draw: Draw) -> None:
        slot = self._slots.get(draw.segment.key)
        if slot is None or slot.winding_up:  # it stopped meanwhile: what still arrives is not wanted
            self.wasted.add(draw.candidates)
            return
        slot.generate_seconds += draw.seconds
        if draw.error is not None:
            self._finish(slot, StopReason.FAILED, draw.error)
            return
        slot.collect(draw)
        if self._refuses_anchors(slot):
            return
        if draw.ended:
            slot.end = draw.start + len(draw.candidates)
        self._mark(slot)

    def updates(self, most: int | None = None) -> list[Update[State]]:
        """``most`` segments at a time, those whose time is up first, then as they waited; all if it is not given."""
        self._reranking = sorted(self._to_rerank.values(), key=lambda slot: not slot.expired)[:most]
        updates = []
        for slot in self._reranking:
            slot.reranking = True
            pace = slot.terms.pace
            new = slot.pool[slot.reranked : pace.ready(slot)]
            updates.append(Update(slot.state, new, pace.stride, () if slot.reranked else slot.anchors or ()))
            del self._to_rerank[slot.segment.key]
        return updates

    def settle(
        self,
        updates: Sequence[Update[State]],
        results: Sequence[list[Snapshot] | QuitmtError],
        seconds: float = 0.0,
    ) -> None:
        """``seconds`` is what reranking took in all; each segment is charged in proportion to its candidates."""
        total = sum(len(update.candidates) for update in updates)
        for slot, update, result in zip(self._reranking, updates, results, strict=True):
            slot.reranking = False
            if slot.segment.key not in self._slots:  # its generator failed while this was reranked, or it was dropped
                continue
            slot.rerank_seconds += seconds * len(update.candidates) / max(1, total)
            slot.reranked += len(update.candidates)
            if isinstance(result, QuitmtError):
                self._finish(slot, StopReason.FAILED, result)
            else:
                self._observe(slot, result)

    def expire(self, key: str) -> bool:
        """The segment's time is up. Whether it needs no more candidates, so that those under way may be aborted.

        1. With a snapshot and nothing being reranked it is finished, with the best so far.
        2. While its candidates are being reranked, it is finished as soon as that settles.
        3. With candidates but no snapshot these are reranked at once, be they less than a step, and that was all.
        4. With anchors only, the first of them is the translation.
        5. With nothing at all, the first candidates that arrive are reranked, and that was all.

        So it has a translation unless its generator or reranker fails, or takes so long that it is abandoned.
        """
        slot = self._slots.get(key)
        if slot is None:
            return True
        slot.expired = True
        if slot.requested:
            self._to_request.pop(key, None)
        self._mark(slot)
        return slot.winding_up

    def abandon(self, key: str, deadline: str, *, scoring: bool) -> None:
        """Wait no longer for what an expired segment still waits for: it is finished with its best so far, or fails.

        Unless ``scoring`` may be abandoned too, a segment that has candidates and no snapshot goes on waiting for one.
        """
        slot = self._slots.get(key)
        if slot is None:
            return
        if slot.snapshot is not None or (slot.anchors and (scoring or not slot.pool)):
            self._finish(slot, StopReason.DEADLINE)
        elif not slot.pool:
            self._finish(slot, StopReason.FAILED, NotInTime(f"no candidate arrived before {deadline}"))
        elif scoring:
            self._finish(slot, StopReason.FAILED, NotInTime(f"no candidate was scored before {deadline}"))

    def drop(self, key: str) -> None:
        """Forget a segment; it may have finished already."""
        if slot := self._slots.pop(key, None):
            self.wasted.add([*slot.pool, *slot.early.values()])
        self._to_request.pop(key, None)
        self._to_rerank.pop(key, None)
        self._finished = [one for one in self._finished if one.segment.key != key]

    def finished(self) -> list[Finished]:
        finished, self._finished = self._finished, []
        return finished

    def _mark(self, slot: Slot[State]) -> None:
        """Find what can be done next for a segment, if anything."""
        self._find_next(slot)
        if slot.segment.key in self._slots:
            self._blames_rule(slot)

    def _blames_rule(self, slot: Slot[State]) -> bool:
        """Whether its rule has done something wrong: then that was all."""
        if slot.watch.fault is None:
            return False
        error = QuitmtError(f"segment {slot.segment.id}: {slot.watch.fault}")
        error.fault = slot.watch.fault
        self._finish(slot, StopReason.FAILED, error)
        return True

    def _refuses_anchors(self, slot: Slot[State]) -> bool:
        """Whether it has anchors that the reranker knows nothing of: then that was all."""
        if not slot.anchors or self._traits.takes_anchors:
            return False
        reranker = self._reranker.signature.partition("|")[0]
        hint = f"give {setting('model.anchors', 'none')}"
        error = InputError(f"segment {slot.segment.id} has anchors, and {reranker} scores samples only", hint=hint)
        self._finish(slot, StopReason.FAILED, error)
        return True

    def _find_next(self, slot: Slot[State]) -> None:
        if slot.expired:
            self._wind_up(slot)
            return
        if not slot.ended and len(slot.pool) == slot.requested < slot.terms.pace.ahead(slot):
            self._to_request[slot.segment.key] = slot
        if slot.reranking or slot.anchors is None:
            return
        if slot.terms.pace.ready(slot) > slot.reranked:
            self._to_rerank[slot.segment.key] = slot
        elif slot.ended and slot.reranked == len(slot.pool):
            self._finish(slot, StopReason.EXHAUSTED)
        elif slot.reranked == slot.requested:
            self._to_request[slot.segment.key] = slot

    def _wind_up(self, slot: Slot[State]) -> None:
        """What is left to do for a segment whose time is up; see ``expire``."""
        if slot.reranking:
            return
        if slot.snapshot is not None or (slot.anchors and not slot.pool):
            self._finish(slot, StopReason.DEADLINE)
        elif slot.pool:
            self._to_rerank[slot.segment.key] = slot
        elif slot.ended:
            self._finish(slot, StopReason.EXHAUSTED)

    def _observe(self, slot: Slot[State], snapshots: list[Snapshot]) -> None:
        for snapshot in snapshots:
            slot.snapshot = snapshot
            slot.trajectory.append(snapshot.score)
            stop_reason = slot.watch.observe(snapshot) if self._is_step(slot, snapshot.size) else None
            if self._blames_rule(slot):
                return
            if self._exhausts(slot, snapshot, stop_reason):
                stop_reason = StopReason.EXHAUSTED
            if stop_reason is None and slot.expired and snapshot is snapshots[-1]:
                stop_reason = StopReason.DEADLINE
            if self._observer is not None:
                self._observer(slot.segment, snapshot, slot.anchors or (), slot.pool[: snapshot.size], stop_reason)
            if stop_reason is not None:
                self._finish(slot, stop_reason)
                return
        self._mark(slot)

    def _exhausts(self, slot: Slot[State], snapshot: Snapshot, stop_reason: StopReason | None) -> bool:
        """Whether it stops because there are no more candidates, and not because the run's rule wants no more."""
        if not slot.ended or snapshot.size < len(slot.pool):
            return False
        return stop_reason is None or (stop_reason is StopReason.BUDGET and snapshot.size < slot.terms.rule.budget)

    def _is_step(self, slot: Slot[State], size: int) -> bool:
        """Whether a rule would see this snapshot in any case: not the part of a step that an expired segment got."""
        return not slot.expired or size % slot.terms.rule.step == 0 or size == slot.watch.rule.budget or slot.ended

    def _finish(self, slot: Slot[State], stop_reason: StopReason, error: QuitmtError | None = None) -> None:
        del self._slots[slot.segment.key]
        self._to_rerank.pop(slot.segment.key, None)
        self._to_request.pop(slot.segment.key, None)
        used = slot.pool[: slot.snapshot.size if slot.snapshot else 0]
        if stop_reason is not StopReason.FAILED:
            self.wasted.add([*slot.pool[len(used) :], *slot.early.values()])
        outcome = slot.outcome(stop_reason, error, effort(self._reranker, slot.state))
        ranked = self._ranked(slot, stop_reason, used)
        fault, late = None if error is None else error.fault, isinstance(error, NotInTime)
        self._finished.append(Finished(slot.segment, outcome, used, slot.anchors or (), ranked, fault, late))

    def _ranked(self, slot: Slot[State], stop_reason: StopReason, used: Sequence[Candidate]) -> Sequence[Ranked]:
        """The winner as its snapshot has it, then the others; nobody else while the reranker is at work on them, after
        it failed, or where it has seen more candidates than are used and the scores depend on these."""
        if not slot.terms.ranked or slot.snapshot is None:
            return ()
        beyond = slot.reranked > len(used) and not self._traits.running_best
        unsure = slot.reranking or beyond or stop_reason is StopReason.FAILED
        others = [] if unsure else ranked(self._reranker, slot.state)
        return listed([(slot.snapshot.best, slot.snapshot.score), *others], slot.anchors or (), used)
