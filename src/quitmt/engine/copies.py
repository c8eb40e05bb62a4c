"""Equal segments of a run are translated once; the others get a copy of the outcome.

This is bookkeeping only: which segments are equal, which one does the work, which copies wait for it, and which
finished work is remembered. The driver starts the work and yields the copies.

Invariants: a copy has the outcome that its own work would have had, except for its cost, which is nothing. Memory is
bounded in entries and in bytes. Work is entered, used and forgotten in the order in which segments are admitted, and
its bytes are estimated then, so whether a segment is a copy doesn't depend on the order in which segments finish.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from dataclasses import dataclass, field, replace

from quitmt.engine.deadlines import Limit
from quitmt.engine.slots import Policy
from quitmt.types import Finished, Seconds, Segment, StopReason

ENTRIES = 1 << 14
"""Maximum contents to remember."""
BYTES = 1 << 26
"""Maximum estimated bytes to remember."""
NEAR_SECONDS = 0.5
"""Deadlines that differ by no more than this count as one: segments of one request have them."""
OUTCOME_BYTES, TEXT_BYTES, STEP_BYTES = 2048, 256, 32
"""Estimates: an outcome without its texts, an entry of its n-best list without its text, a step of its trajectory."""

COMPLETE = frozenset((StopReason.STABLE, StopReason.DECIDED, StopReason.BUDGET, StopReason.EXHAUSTED))
"""Stop reasons that don't depend on time or luck."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A segment of the input, with everything that its own work needs."""

    position: int
    segment: Segment
    policy: Policy
    limit: Limit | None = None
    since: float = 0.0
    """The time from which its limit counts."""

    @property
    def until(self) -> float:
        """The time at which it is abandoned at the latest, whatever the deadlines of the run."""
        return math.inf if self.limit is None else self.since + self.limit.abandon

    def later(self, now: float) -> Admission:
        """The same with the limit that remains."""
        if self.limit is None:
            return self
        expire, abandon = (max(0.0, after + self.since - now) for after in (self.limit.expire, self.limit.abandon))
        return replace(self, limit=Limit(expire, abandon), since=now)


@dataclass(slots=True, eq=False)
class SharedWork:
    """The work on one content."""

    key: bytes
    until: float
    """The time at which it is abandoned at the latest."""
    size: int
    finished: Finished | None = None
    waiting: list[Admission] = field(default_factory=list)
    """The copies that wait for the outcome."""


class Copies:
    """The work of one run.

    With ``keep_pools`` copies get the candidates too. With ``keep_all`` failures and outcomes of deadlines are copied
    and remembered like any others, so that a steered run depends on the order of its input only.
    """

    def __init__(self, *, keep_pools: bool, keep_all: bool) -> None:
        self._keep_pools, self._keep_all = keep_pools, keep_all
        self._known: OrderedDict[bytes, SharedWork] = OrderedDict()
        """By content, the least recently used first."""
        self._done_by: dict[str, SharedWork] = {}
        """Work in progress, by the key of the segment that does it."""
        self.bytes = 0
        """Estimated bytes of the remembered work."""

    def __len__(self) -> int:
        return len(self._known)

    @property
    def waiting(self) -> int:
        """The number of waiting copies."""
        return sum(len(work.waiting) for work in self._done_by.values())

    def find(self, entry: Admission) -> SharedWork | None:
        """Finished work on an equal segment, or work in progress that the segment may wait for: its deadline is not
        after the segment's, and hardly before it, because the segment would be cut short with it."""
        work = self._known.get(key_of(entry))
        if work is None or not (work.finished or work.until == entry.until or _is_near(work.until, entry.until)):
            return None
        self._known.move_to_end(work.key)
        return work

    def begin(self, entry: Admission) -> None:
        """Enter a segment that does its own work. If equal work is in progress, that remains the one to wait for."""
        key = key_of(entry)
        if key not in self._known:
            self._done_by[entry.segment.key] = self._enter(SharedWork(key, entry.until, self._estimate(entry)))

    def resume(self, entry: Admission, finished: Finished) -> None:
        """Enter work that an earlier run finished."""
        if self.find(entry) is None and (self._keep_all or finished.outcome.stop in COMPLETE):
            self._enter(SharedWork(key_of(entry), math.inf, self._estimate(entry), self._stripped(finished)))

    def end(self, finished: Finished) -> tuple[list[Admission], Finished | None]:
        """Take the outcome of a segment. Returns the copies that waited for it, and the result to copy; without one,
        a failure isn't copied, and one of the copies must do the work."""
        segment, outcome = finished.segment, finished.outcome
        work = self._done_by.get(segment.key)
        if work is None:
            return [], None
        if self._keep_all or outcome.stop in COMPLETE:
            del self._done_by[segment.key]
            work.finished = self._stripped(finished)
            return work.waiting, work.finished
        cut_short = outcome.stop is StopReason.DEADLINE or finished.late  # as it would be for the copies
        return self.drop(segment), self._stripped(finished) if cut_short else None

    def drop(self, segment: Segment) -> list[Admission]:
        """Forget a segment, and its work if it does any. Returns the copies that waited for that."""
        work = self._done_by.pop(segment.key, None)
        if work is None:
            for one in self._done_by.values():
                one.waiting = [entry for entry in one.waiting if entry.segment.key != segment.key]
            return []
        if self._known.get(work.key) is work:
            self._forget(work)
        return work.waiting

    def _enter(self, work: SharedWork) -> SharedWork:
        self._known[work.key] = work
        self.bytes += work.size
        while len(self._known) > ENTRIES or self.bytes > BYTES:
            self._forget(next(iter(self._known.values())))
        return work

    def _forget(self, work: SharedWork) -> None:
        del self._known[work.key]
        self.bytes -= work.size

    def _estimate(self, entry: Admission) -> int:
        rule, length = entry.policy.rule, len(entry.segment.source.encode("utf-8", "surrogatepass"))
        texts = rule.budget if self._keep_pools or entry.policy.ranked else 0
        steps = rule.budget // rule.step
        return OUTCOME_BYTES + steps * STEP_BYTES + 2 * length + texts * (TEXT_BYTES + length)

    def _stripped(self, finished: Finished) -> Finished:
        if self._keep_pools:
            return finished
        return replace(finished, candidates=(), anchors=(), copied=finished.chosen)


def key_of(entry: Admission) -> bytes:
    """Equal for segments that have the same outcome. The signature names the rule."""
    one, policy = entry.segment, entry.policy
    fields = one.source, one.context, one.anchors, one.support, one.seed, policy.signature, policy.ranked
    return hashlib.blake2b(repr(fields).encode(), digest_size=16).digest()


def _is_near(before: float, after: float) -> bool:
    return 0 <= after - before <= NEAR_SECONDS


def copy_of(finished: Finished, segment: Segment) -> Finished:
    """The result for an equal segment. It costs nothing."""
    outcome = replace(
        finished.outcome, id=segment.id, seconds=Seconds(), effort=None, signals=(), tokens=None, copied=True
    )
    return replace(finished, segment=segment, outcome=outcome)
