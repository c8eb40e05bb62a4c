"""The engine: a pure state machine from candidates to outcomes, without I/O, clock or tasks.

A driver turns its crank. A live run, a replay and a server differ only in the driver:

    admit(segment)                  a segment takes a slot
    requests()     → requests       what should be generated now; each request is returned once
    feed(draw)                      candidates arrived, in any order
    updates()      → updates        what can be reranked now; each update is returned once
    settle(updates, snapshots)      the reranker's results for these updates
    expire(key)                     a segment's time is up: it stops with its best candidate so far
    abandon(key)                    an expired segment stops waiting for candidates or scores
    drop(key)                       its caller has gone: its slot is free, and it has no outcome
    finished()     → finished       segments that stopped; their slots are free

Invariants: candidates are committed in index order and in whole steps, whatever order they arrived in. A rule sees the
snapshots of its own segment, in order, and nothing else. Everything up to the rule's horizon is requested at once. With
``speculate`` the next window is requested as soon as the last one has arrived, before its stop reason is known: the
generator is never idle, the outcomes are the same, and wasted candidates are counted. With ``anytime`` segments may
expire, so little is requested and reranked at a time. The outcomes of segments that don't expire are the same. With
``anchored`` nothing is reranked before a segment's anchors have arrived, because they belong to its first update.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

from quitmt.engine.finishing import listed
from quitmt.engine.slots import Observer, Policy, Slot, Wasted, user_anchors
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
        observer: Observer | None = None,
        anchored: bool = False,
        **options: Any,
    ) -> None:
        """``options`` are fields of the ``Policy`` for segments that don't have their own."""
        self._anchored = anchored
        self._reranker = reranker
        self._traits = traits_of(reranker, RerankerTraits)
        self.policy = Policy.of(rule, self._traits, **options)
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
        policy: Policy | None = None,
    ) -> None:
        """``known`` and ``anchors`` are candidates that an earlier run drew; whole steps of them are used.
        ``available`` is the total number of candidates, if that is known; a smaller one than the rule's budget replaces
        it. ``policy`` replaces the engine's policy."""
        policy = policy or self.policy
        if segment.key in self._slots:
            raise InputError(f"two segments have the id {segment.id!r}")
        try:
            state = self._reranker.open(segment)
        except FAULTS as raised:
            error = blamed(RerankError, f"segment {segment.id}: reranking failed", raised)
            self._finished.append(Finished.without_candidates(segment, StopReason.FAILED, policy.signature, error))
            return
        rule = policy.rule if available is None else policy.rule.within(available)
        slot = Slot(segment, state, rule.open(), policy, end=available)
        if not self._anchored:
            slot.anchors = user_anchors(segment)
        elif anchors is not None:
            slot.anchors = tuple(anchors)
        else:  # anchors come with the first candidates, so these must be requested again
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
        """The candidates without a gap that have arrived for a segment in flight."""
        slot = self._slots.get(segment.key)
        return Begun(segment, slot.pool, slot.anchors) if slot else Begun(segment, ())

    def requests(self) -> list[Request]:
        requests = []
        for slot in list(self._to_request.values()):
            start, slot.requested = slot.requested, slot.reach()
            if not self._blames_rule(slot):
                requests.append(Request(slot.segment, start, slot.requested, anchors=slot.anchors is None))
        self._to_request.clear()
        return requests

    def served(self, request: Request) -> bool:
        """Whether a request is complete: everything arrived, or the segment needs no more."""
        slot = self._slots.get(request.segment.key)
        if slot is None or slot.winding_up or slot.ended:
            return True
        return len(slot.pool) >= request.stop and slot.anchors is not None

    def feed(self, draw: Draw) -> None:
        slot = self._slots.get(draw.segment.key)
        if slot is None or slot.winding_up:  # it has stopped meanwhile and needs no more
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
        """At most ``most`` segments [default: all], expired ones first, then by how long they have waited."""
        self._reranking = sorted(self._to_rerank.values(), key=lambda slot: not slot.expired)[:most]
        updates = []
        for slot in self._reranking:
            slot.reranking = True
            new = slot.pool[slot.reranked : slot.ready()]
            updates.append(Update(slot.state, new, slot.policy.stride, () if slot.reranked else slot.anchors or ()))
            del self._to_rerank[slot.segment.key]
        return updates

    def settle(
        self,
        updates: Sequence[Update[State]],
        results: Sequence[list[Snapshot] | QuitmtError],
        seconds: float = 0.0,
    ) -> None:
        """``seconds`` is the total reranking time; each segment is charged in proportion to its candidates."""
        total = sum(len(update.candidates) for update in updates)
        for slot, update, result in zip(self._reranking, updates, results, strict=True):
            slot.reranking = False
            if slot.segment.key not in self._slots:  # its generator failed during the reranking, or it was dropped
                continue
            slot.rerank_seconds += seconds * len(update.candidates) / max(1, total)
            slot.reranked += len(update.candidates)
            if isinstance(result, QuitmtError):
                self._finish(slot, StopReason.FAILED, result)
            else:
                self._observe(slot, result)

    def expire(self, key: str) -> bool:
        """End a segment whose time is up. Returns whether it needs no more candidates, so that pending requests may be
        aborted.

        1. With a snapshot and no reranking in progress, it finishes with its best candidate so far.
        2. If its candidates are being reranked, it finishes as soon as that settles.
        3. With candidates but no snapshot, these are reranked at once, even if they are less than a step.
        4. With anchors only, the first of them is the translation.
        5. With nothing at all, the first candidates that arrive are reranked.

        So it gets a translation unless its generator or reranker fails, or takes so long that it is abandoned.
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
        """Stop waiting for an expired segment: it finishes with its best candidate so far, or fails.

        Unless ``scoring`` is abandoned too, a segment with candidates but no snapshot continues to wait for one.
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
        """Queue the next request or update of a segment, or finish it."""
        self._find_next(slot)
        if slot.segment.key in self._slots:
            self._blames_rule(slot)

    def _blames_rule(self, slot: Slot[State]) -> bool:
        """Fail the segment if its rule has made a mistake; returns whether it has."""
        if slot.watch.fault is None:
            return False
        error = QuitmtError(f"segment {slot.segment.id}: {slot.watch.fault}")
        error.fault = slot.watch.fault
        self._finish(slot, StopReason.FAILED, error)
        return True

    def _refuses_anchors(self, slot: Slot[State]) -> bool:
        """Fail the segment if it has anchors that the reranker can't score; returns whether it has."""
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
        if not slot.ended and len(slot.pool) == slot.requested < slot.ahead():
            self._to_request[slot.segment.key] = slot
        if slot.reranking or slot.anchors is None:
            return
        if slot.ready() > slot.reranked:
            self._to_rerank[slot.segment.key] = slot
        elif slot.ended and slot.reranked == len(slot.pool):
            self._finish(slot, StopReason.EXHAUSTED)
        elif slot.reranked == slot.requested:
            self._to_request[slot.segment.key] = slot

    def _wind_up(self, slot: Slot[State]) -> None:
        """Do the remaining work for an expired segment; see ``expire``."""
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
        """Whether the segment stops because it has no more candidates, and not because its rule says so."""
        if not slot.ended or snapshot.size < len(slot.pool):
            return False
        return stop_reason is None or (stop_reason is StopReason.BUDGET and snapshot.size < slot.policy.rule.budget)

    def _is_step(self, slot: Slot[State], size: int) -> bool:
        """Whether a rule may see this snapshot: an expired segment may end within a step, which rules never see."""
        return not slot.expired or size % slot.policy.rule.step == 0 or size == slot.watch.rule.budget or slot.ended

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
        """The winner with the score of its snapshot, then the others. The others are left out if their scores are
        unreliable: during reranking, after a failure, or if they depend on candidates that the outcome doesn't use."""
        if not slot.policy.ranked or slot.snapshot is None:
            return ()
        beyond = slot.reranked > len(used) and not self._traits.running_best
        unreliable = slot.reranking or beyond or stop_reason is StopReason.FAILED
        others = [] if unreliable else ranked(self._reranker, slot.state)
        return listed([(slot.snapshot.best, slot.snapshot.score), *others], slot.anchors or (), used)
