"""The long-lived form of a run: submit a segment, await its outcome, cancel it. Many requests share one driver.

    session = Session(generator, reranker, rule)
    async with session:
        ticket = session.submit(Segment("1", "Hello."), group="request 7", deadline=8.0)
        finished = await ticket

Invariants: segments are begun in turn, one of each group, so a group of a thousand holds up nobody; what a group has in
flight is never taken away for another. A ticket is settled exactly once: with what became of it, or as cancelled, and
then what it took is free at once. A deadline counts from the submission: whoever waited for a slot has that much less
of it. The candidates of a segment depend on nothing that is in flight beside it.
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
from quitmt.engine.driver import Driver
from quitmt.engine.submission import Submission
from quitmt.errors import GenerationError, NotInTime, QuitmtError
from quitmt.protocols import Generator, Reranker, StoppingRule
from quitmt.types import Candidate, Finished, Segment, Snapshot, StopReason

GRACE = 0.7
"""Seconds after a deadline in which the first candidates may still arrive."""
NEWEST = 0.1
"""The weight of the newest segment in the mean of how long one takes."""
UNKNOWN = 0.5
"""Seconds that a segment takes, while none has been finished."""
CLOSED = "the session was closed"

Observer = Callable[[Snapshot, Sequence[Candidate], Sequence[Candidate], StopReason | None], None]
"""Called after each step of one segment: where it stands, its anchors, its samples so far, and the stop reason,
if any."""


@dataclass(slots=True, eq=False)
class Ticket:
    """A segment that was submitted. Awaiting it gives what became of it; a failure is an outcome and no exception."""

    segment: Segment
    group: Hashable
    until: float
    """By the session's clock; infinite without a deadline."""
    rule: StoppingRule | None
    ranked: bool
    observer: Observer | None
    _session: Session
    _settled: asyncio.Future[Finished] = field(default_factory=asyncio.Future)
    timer: Any = None
    begun: float | None = None
    """When it got its slot."""

    def __await__(self) -> Yields[Any, None, Finished]:
        return asyncio.shield(self._settled).__await__()

    @property
    def settled(self) -> bool:
        return self._settled.done()

    def settle(self, finished: Finished) -> None:
        if not self._settled.done():
            self._settled.set_result(finished)
        self._drop_timer()

    def cancel(self) -> None:
        """Nobody waits for it any more. Harmless once it is settled."""
        if not self._settled.done():
            self._settled.cancel()
            self._session._withdraw(self)
        self._drop_timer()

    def _drop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Queue:
    """Tickets that wait for a slot: the groups take turns, and within a group the first comes first."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, deque[Ticket]] = {}
        self.segments = 0
        self.characters = 0

    @property
    def groups(self) -> int:
        """How many will be begun before one of a new group."""
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
                self._groups[group] = tickets  # to the end of the turn
            self._count(ticket, -1)
            return ticket
        return None

    def remove(self, ticket: Ticket) -> bool:
        """Whether it was there."""
        tickets = self._groups.get(ticket.group, deque())
        if ticket not in tickets:
            return False
        tickets.remove(ticket)
        if not tickets:
            del self._groups[ticket.group]
        self._count(ticket, -1)
        return True

    def rivals(self, group: Hashable) -> int:
        """How many will be begun before a group's last one: of each other group no more than it has itself."""
        own = 1 + len(self._groups.get(group, ()))
        return own - 1 + sum(min(own, len(tickets)) for name, tickets in self._groups.items() if name != group)

    def _count(self, ticket: Ticket, sign: int) -> None:
        self.segments += sign
        self.characters += sign * len(ticket.segment.source)


class Session:
    """One generator, reranker and rule for any number of callers, in one event loop."""

    def __init__(
        self,
        generator: Generator,
        reranker: Reranker[Any],
        rule: StoppingRule,
        *,
        in_flight: int = 16,
        speculate: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._driver = Driver(
            generator,
            reranker,
            rule,
            in_flight=in_flight,
            observer=self._observe,
            speculate=speculate,
            clock=clock,
            ordered=False,
        )
        self._in_flight, self._clock = in_flight, clock
        self.waiting = Queue()
        self._active: dict[str, Ticket] = {}
        self._numbers = count(1)
        self._bell = asyncio.Event()
        self._closing = False
        self._service_seconds: float | None = None
        self._work: asyncio.Task[None] | None = None
        self.failure: str | None = None
        """Why it ended, if it did so by itself."""

    @property
    def signature(self) -> str:
        return self._driver.signature

    @property
    def active(self) -> int:
        """Segments that have a slot."""
        return len(self._active)

    @property
    def free(self) -> int:
        """Slots that nobody has yet: as many of those that wait will not wait long."""
        return self._in_flight - len(self._active)

    @property
    def wasted(self) -> int:
        """Candidates that were generated for nothing."""
        return self._driver.wasted.candidates

    @property
    def seconds_to_clear(self) -> float:
        """How long what waits and what is in flight will take, by how long the last segments took."""
        return self._turns(self.waiting.segments + len(self._active))

    @property
    def seconds_to_begin(self) -> float:
        """How long a new group would wait for its first slot; 0 as long as nothing is known."""
        return 0.0 if self._service_seconds is None else self._turns(self.waiting.groups)

    def _turns(self, segments: int) -> float:
        return segments * (self._service_seconds or UNKNOWN) / self._in_flight

    async def start(self) -> None:
        """Check that the generator can be reached, have everything loaded and compiled, and begin."""
        await self._driver.check()
        await self._driver.warm(always=True)
        self._work = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Begin nothing more; what still waits or is in flight is settled as failed."""
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
    ) -> Ticket:
        """``group`` is whose turn it takes; ``deadline`` counts in seconds from now; ``rule`` is in place of the
        session's; ``ranked`` asks for the scores of all candidates; ``observer`` sees every step."""
        clock = self._time()
        until = math.inf if deadline is None else clock.time() + deadline
        owned = replace(segment, owner=str(next(self._numbers)))
        ticket = Ticket(owned, group, until, rule, ranked, observer, self)
        if self._closing or self.failure:
            ticket.settle(self._failed(owned, GenerationError(self.failure) if self.failure else NotInTime(CLOSED)))
            return ticket
        if until < math.inf:
            ticket.timer = clock.call_at(until, lambda: self._give_up(ticket))
        self.waiting.add(ticket)
        self._bell.set()
        return ticket

    def _time(self) -> Clock:
        return self._clock or asyncio.get_running_loop()

    async def _run(self) -> None:
        try:
            async for _, finished in self._driver.run(self._orders()):
                if ticket := self._active.pop(finished.segment.key, None):
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
        before = taken if self._service_seconds is None else self._service_seconds
        self._service_seconds = before + NEWEST * (taken - before)

    async def _orders(self) -> AsyncIterator[Submission]:
        """Whoever's turn it is, as soon as there is room: not before, or the choice would be made too early."""
        while not self._closing:
            self._bell.clear()
            if self._driver.has_room and (ticket := self.waiting.next()):
                self._active[ticket.segment.key] = ticket
                ticket.begun = self._time().time()
                yield Submission(ticket.segment, ticket.rule, self._limit(ticket), ticket.ranked)
            else:
                await self._bell.wait()

    def _limit(self, ticket: Ticket) -> Limit | None:
        """The time for a segment that is begun now: what is left of its own, or its share of it where more wait than
        can be begun at once. The last of them must be begun in time too."""
        if ticket.until == math.inf:
            return None
        ticket._drop_timer()  # from here on, the driver sees to it
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
        if ticket is not None and ticket.observer is not None and not ticket.settled:
            with suppress(Exception):  # whoever looks on must not disturb
                ticket.observer(snapshot, anchors, candidates, stop_reason)

    def _withdraw(self, ticket: Ticket) -> None:
        if self.waiting.remove(ticket):
            return
        if self._active.pop(ticket.segment.key, None) is not None:
            self._driver.cancel(ticket.segment)
            self._bell.set()

    def _give_up(self, ticket: Ticket) -> None:
        """Its time was up before it had a slot."""
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


async def translate(session: Session, segments: Sequence[Segment], **settings: Any) -> list[Finished]:
    """All of some segments as one group; whoever stops waiting cancels them all."""
    tickets = [session.submit(segment, **settings) for segment in segments]
    try:
        return [await ticket for ticket in tickets]
    finally:
        for ticket in tickets:
            ticket.cancel()
