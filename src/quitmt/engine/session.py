"""A long-lived run that many callers share: submit a segment, await its outcome, or cancel it.

    session = Session(generator, reranker, rule)
    async with session:
        ticket = session.submit(Segment("1", "Hello."), group="request 7", deadline=8.0)
        finished = await ticket

Invariants: groups take turns, one segment each, so a group of a thousand segments doesn't block the others; a group
never loses its segments in flight to another group. A ticket is settled exactly once, with its outcome or as cancelled;
cancelling frees its slot at once. A deadline counts from the submission, so it includes the time in the queue. The
candidates of a segment don't depend on other segments in flight.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from collections.abc import Generator as Yields
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, Self

from quitmt.engine.deadlines import Clock, Limit
from quitmt.engine.driver import Driver, Submission
from quitmt.errors import GenerationError, NotInTime, QuitmtError
from quitmt.protocols import Generator, Reranker, StoppingRule
from quitmt.stop.learned import Levels
from quitmt.types import Candidate, Finished, Segment, Snapshot, StopReason

GRACE = 0.7
"""Seconds after a deadline during which the first candidates may still arrive."""
NEWEST = 0.1
"""The weight of the newest segment in the moving average of seconds per segment."""
UNKNOWN = 0.5
"""Assumed seconds per segment until the first one has finished."""
CLOSED = "the session was closed"

Observer = Callable[[Snapshot, Sequence[Candidate], Sequence[Candidate], StopReason | None], None]
"""Called after each step of one segment with its snapshot, its anchors, its samples so far, and the stop reason, if
any."""


@dataclass(slots=True, eq=False)
class Ticket:
    """A submitted segment. Awaiting it returns the finished segment; a failure is an outcome, not an exception."""

    segment: Segment
    group: Hashable
    until: float
    """The deadline by the session's clock; infinite if there is none."""
    rule: StoppingRule | None
    ranked: bool
    observer: Observer | None
    alone: bool
    """Whether it must not be a copy of an equal segment."""
    _session: Session
    _settled: asyncio.Future[Finished] = field(default_factory=asyncio.Future)
    timer: Any = None
    begun: float | None = None
    """When it got its slot."""

    def __await__(self) -> Yields[Any, None, Finished]:
        return asyncio.shield(self._settled).__await__()

    def settle(self, finished: Finished) -> None:
        if not self._settled.done():
            self._settled.set_result(finished)
        self._drop_timer()

    def cancel(self) -> None:
        """Withdraw the segment. This does nothing once the ticket is settled."""
        if not self._settled.done():
            self._settled.cancel()
            self._session._withdraw(self)
        self._drop_timer()

    def _drop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Queue:
    """Tickets that wait for a slot. Groups take turns; within a group, tickets keep their order."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, deque[Ticket]] = {}
        self.segments = 0
        self.characters = 0

    @property
    def groups(self) -> int:
        """The number of waiting groups, which is how many segments are begun before one of a new group."""
        return len(self._groups)

    def __iter__(self) -> Iterator[Ticket]:
        return chain.from_iterable(self._groups.values())

    def add(self, ticket: Ticket) -> None:
        self._groups.setdefault(ticket.group, deque()).append(ticket)
        self._count(ticket, 1)

    def next(self) -> Ticket | None:
        for group, tickets in self._groups.items():
            ticket = tickets.popleft()
            del self._groups[group]
            if tickets:
                self._groups[group] = tickets  # the group moves to the end of the queue
            self._count(ticket, -1)
            return ticket
        return None

    def remove(self, ticket: Ticket) -> bool:
        """Remove a ticket; returns whether it was waiting."""
        tickets = self._groups.get(ticket.group, deque())
        if ticket not in tickets:
            return False
        tickets.remove(ticket)
        if not tickets:
            del self._groups[ticket.group]
        self._count(ticket, -1)
        return True

    def rivals(self, group: Hashable) -> int:
        """How many waiting segments are begun before one more segment of this group would be. Each other group gets at
        most as many turns as this group."""
        turns = 1 + len(self._groups.get(group, ()))
        return turns - 1 + sum(min(turns, len(tickets)) for name, tickets in self._groups.items() if name != group)

    def _count(self, ticket: Ticket, sign: int) -> None:
        self.segments += sign
        self.characters += sign * len(ticket.segment.source)


class Session:
    """One generator, reranker and rule, shared by any number of callers in one event loop."""

    def __init__(
        self,
        generator: Generator,
        reranker: Reranker[Any],
        rule: StoppingRule,
        *,
        in_flight: int = 16,
        speculate: bool = False,
        clock: Clock | None = None,
        share: bool = False,
    ) -> None:
        """With ``share``, equal segments are translated once."""
        self._driver = Driver(
            generator,
            reranker,
            rule,
            in_flight=in_flight,
            observer=self._observe,
            speculate=speculate,
            clock=clock,
            ordered=False,
            share=share,
        )
        self._in_flight, self._clock = in_flight, clock
        own: Any = rule
        self._rule = own
        self._levels = Levels(own.prior) if getattr(own, "learns", False) else None
        """For a rule that learns: the best scores of all callers' segments, and nothing else of them."""
        self.waiting = Queue()
        self._active: dict[str, Ticket] = {}
        self._numbers = count(1)
        self._bell = asyncio.Event()
        self._closing = False
        self._seconds_each: float | None = None
        self._work: asyncio.Task[None] | None = None
        self.failure: str | None = None
        """The error that ended the session, if any."""

    @property
    def signature(self) -> str:
        return self._driver.signature

    @property
    def active(self) -> int:
        """The number of segments in flight."""
        return len(self._active)

    @property
    def free(self) -> int:
        """The number of free slots."""
        return max(0, self._in_flight - len(self._active))

    @property
    def wasted(self) -> int:
        """The number of generated candidates that were never used."""
        return self._driver.wasted.candidates

    @property
    def seconds_to_clear(self) -> float:
        """Estimated time until all waiting and running segments are done, by how long recent segments took."""
        return self._seconds_for(self.waiting.segments + len(self._active))

    @property
    def seconds_to_begin(self) -> float:
        """Estimated wait of a new group for its first slot; 0 until a segment has finished."""
        return 0.0 if self._seconds_each is None else self._seconds_for(self.waiting.groups)

    def _seconds_for(self, segments: int) -> float:
        return segments * (self._seconds_each or UNKNOWN) / self._in_flight

    async def start(self) -> None:
        """Check that the generator can be reached, load and compile everything, and begin."""
        await self._driver.check()
        await self._driver.warm(always=True)
        self._work = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End the session: waiting and running segments are settled as failed."""
        self._closing = True
        self._bell.set()
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        self._fail_all(NotInTime(CLOSED))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def submit(
        self,
        segment: Segment,
        *,
        group: Hashable = None,
        rule: StoppingRule | None = None,
        deadline: float | None = None,
        ranked: bool = False,
        observer: Observer | None = None,
        alone: bool = False,
    ) -> Ticket:
        """``group`` is the caller whose turn it takes, ``rule`` replaces the session's, ``deadline`` is in seconds from
        now, ``ranked`` requests the scores of all candidates, and ``observer`` sees every step. With ``alone`` or an
        observer, the segment is translated even if an equal one was."""
        clock = self._time()
        until = math.inf if deadline is None else clock.time() + deadline
        owned = replace(segment, owner=str(next(self._numbers)))
        ticket = Ticket(owned, group, until, rule, ranked, observer, alone or observer is not None, self)
        if self._closing or self.failure:
            ticket.settle(self._failed(owned, GenerationError(self.failure) if self.failure else NotInTime(CLOSED)))
            return ticket
        if until < math.inf:
            ticket.timer = clock.call_at(until, lambda: self._expire(ticket))
        self.waiting.add(ticket)
        self._bell.set()
        return ticket

    def _time(self) -> Clock:
        return self._clock or asyncio.get_running_loop()

    async def _run(self) -> None:
        try:
            async for _, finished in self._driver.run(self._submissions()):
                if ticket := self._active.pop(finished.segment.key, None):
                    self._learn(ticket, finished)
                    if not finished.outcome.copied:
                        self._measure(ticket)
                    ticket.settle(finished)
                self._bell.set()
        except BaseException as error:
            if not self._closing:
                self.failure = f"the engine failed: {type(error).__name__}: {error}"
                self._fail_all(GenerationError(self.failure))
            raise

    def _measure(self, ticket: Ticket) -> None:
        taken = self._time().time() - (ticket.begun or 0.0)
        before = taken if self._seconds_each is None else self._seconds_each
        self._seconds_each = before + NEWEST * (taken - before)

    async def _submissions(self) -> AsyncIterator[Submission]:
        """Yield the next ticket only when there is room, so that tickets submitted in the meantime get their turn."""
        while not self._closing:
            self._bell.clear()
            if self._driver.has_room and (ticket := self.waiting.next()):
                self._active[ticket.segment.key] = ticket
                ticket.begun = self._time().time()
                rule = ticket.rule or self._learned()
                yield Submission(ticket.segment, rule, self._limit(ticket), ticket.ranked, ticket.alone)
            else:
                await self._bell.wait()

    def _learn(self, ticket: Ticket, finished: Finished) -> None:
        outcome = finished.outcome
        learns = ticket.rule is None and outcome.stop is not StopReason.FAILED and outcome.cost
        if self._levels is not None and learns and outcome.score is not None:
            self._levels.add(outcome.score)

    def _learned(self) -> StoppingRule | None:
        return None if self._levels is None else self._rule.learned(self._levels.level)

    def _limit(self, ticket: Ticket) -> Limit | None:
        """The time for a segment that is begun now: its remaining time, or a share of it if more segments wait than
        there are slots, because the last of them must be begun in time too."""
        if ticket.until == math.inf:
            return None
        ticket._drop_timer()  # from here on, the driver enforces the deadline
        now = self._time().time()
        left = max(0.0, ticket.until - now)
        horizon = max((one.until - now for one in self.waiting if one.until < math.inf), default=left)
        share = horizon * self._in_flight / (self._in_flight + self.waiting.rivals(ticket.group))
        return Limit(min(left, max(share, 0.0)), left + GRACE)

    def _observe(
        self,
        segment: Segment,
        snapshot: Snapshot,
        anchors: Sequence[Candidate],
        candidates: Sequence[Candidate],
        stop_reason: StopReason | None,
    ) -> None:
        ticket = self._active.get(segment.key)
        if ticket is not None and ticket.observer is not None:
            with suppress(Exception):  # a failing observer must not disturb the run
                ticket.observer(snapshot, anchors, candidates, stop_reason)

    def _withdraw(self, ticket: Ticket) -> None:
        if self.waiting.remove(ticket):
            return
        if self._active.pop(ticket.segment.key, None) is not None:
            self._driver.cancel(ticket.segment)
            self._bell.set()

    def _expire(self, ticket: Ticket) -> None:
        """Fail a ticket whose time was up before it had a slot."""
        if self.waiting.remove(ticket):
            ticket.settle(self._failed(ticket.segment, NotInTime("not begun before its deadline")))

    def _failed(self, segment: Segment, error: QuitmtError) -> Finished:
        return Finished.without_candidates(segment, StopReason.FAILED, self.signature, error)

    def _fail_all(self, error: QuitmtError) -> None:
        while ticket := self.waiting.next():
            ticket.settle(self._failed(ticket.segment, error))
        for ticket in list(self._active.values()):
            ticket.settle(self._failed(ticket.segment, error))
        self._active.clear()
