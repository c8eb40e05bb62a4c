"""How fast servers are asked: the doors that requests pass one by one, by the word of ``Width`` and ``Circuit``.

Several servers are several doors with one queue before them. Whoever is next takes the door of the least busy server
that takes anything, and one where it has failed only if there is no other. The clock and the sleeping are passed in.

Invariants: no more than its width is in flight at a server; a cancelled request gives back its place, and whoever
leaves the queue passes the word on. Of a request that fails again and again at a server only the first failure narrows
the width: it waits longer and longer by itself, and one that can never succeed does not slow down the others.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from quitmt.generate.remote.limits import Circuit, Policy, Width


class Sign(Enum):
    """What an attempt says about the server."""

    GOOD = auto()
    """It answered, or said what is wrong with the request."""
    BAD = auto()
    """It answered, but not well."""
    OVERLOADED = auto()
    UNREACHED = auto()
    AWAY = auto()
    """A proxy answered in its place."""
    STALLED = auto()
    REFUSING = auto()
    """It refuses whatever it is asked, and there are others to ask."""
    UNKNOWN = auto()
    """Cancelled before anything was known."""


_REACHED = {Sign.BAD, Sign.OVERLOADED}
_TOO_MUCH = {Sign.OVERLOADED, Sign.AWAY, Sign.STALLED}
_NOTHING_SAID = {Sign.UNKNOWN, Sign.UNREACHED, Sign.REFUSING}
"""About how much would be too much."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One request's way through the gate."""

    sender: Hashable
    door: int
    """Of which server."""
    again: bool
    """It has failed there before."""
    probe: bool
    sent_in: int
    entered: float


class Door:
    """To one server."""

    def __init__(self, concurrency: int, policy: Policy) -> None:
        self.width = Width(concurrency)
        self.circuit = Circuit(policy)
        self.in_flight = 0
        self.sent = 0
        self.held_until = 0.0

    @property
    def full(self) -> bool:
        return self.in_flight >= int(self.width)

    @property
    def load(self) -> tuple[int, int]:
        """What is least is least busy; of equals, who was asked less often. A server that fails is quick to be done
        with what it is sent, so the first failures in a row each count as twice as much in flight."""
        return (self.in_flight + 1) << min(self.circuit.failures, 3), self.sent

    def delay(self, now: float) -> float:
        return max(self.circuit.delay(now), self.held_until - now)


class Gate:
    """For one event loop: the doors of all servers, and the queue before them.

    If they are ``watched``, somebody else finds out whether a server is back; else whoever comes next does.
    """

    def __init__(
        self,
        concurrency: int,
        policy: Policy,
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], float],
        servers: int = 1,
    ) -> None:
        self.doors = [Door(concurrency, policy) for _ in range(servers)]
        self.watched = False
        self._sleep, self._clock = sleep, clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._seconds = self._moment = 0.0
        """A clock that runs the slower the more is in flight: the time of each is its share of what all took."""

    @property
    def in_flight(self) -> int:
        return sum(door.in_flight for door in self.doors)

    @property
    def given_up(self) -> bool:
        return all(door.circuit.given_up for door in self.doors)

    async def enter(
        self, sender: Hashable, failed: Mapping[int, int] | None = None, without: Collection[int] = ()
    ) -> Pass | None:
        """Wait for one's turn at a server, but not at those it is to do ``without``; None if the others have been given
        up. ``failed``: how often it has failed at each."""
        failed = failed or {}
        try:
            while True:
                now = self._clock()
                if all(self._is_closed_for_good(door, now) for _, door in self._doors(without)):
                    self._wake()
                    return None
                ready, delay = self._ready(now, without)
                if ready:
                    best = min(ready, key=lambda number: self._rank(number, failed))
                    return self._admit(best, sender, again=bool(failed.get(best)))
                await self._wait(delay)
        except asyncio.CancelledError:
            self._wake()
            raise

    def knock(self, number: int) -> Pass:
        """Go to a certain server now, to find out how it is."""
        return self._admit(number, self, again=False)

    def leave(self, request: Pass, result: Sign) -> float:
        """The request is over; its share of the time in seconds."""
        now, door = self._clock(), self.doors[request.door]
        if result is Sign.UNKNOWN:
            door.circuit.abandoned(request.probe)
        elif result is Sign.GOOD:
            door.circuit.answered(now)
        else:
            reached, heard = result in _REACHED, result is not Sign.UNREACHED
            refusing = result is Sign.REFUSING
            door.circuit.failed(
                now, request.sender, probe=request.probe, reached=reached, heard=heard, refusing=refusing
            )
        too_much = result in _TOO_MUCH
        if result not in _NOTHING_SAID and not (too_much and request.again):
            door.width.learn(request.sent_in, door.in_flight, request.sender, too_much=too_much)
        seconds = self._elapsed() - request.entered
        door.in_flight -= 1
        self._wake()
        return seconds

    def hold(self, number: int, seconds: float) -> None:
        """Send nothing to a server for so long."""
        door = self.doors[number]
        door.held_until = max(door.held_until, self._clock() + seconds)

    def has_other(self, number: int, failed: Mapping[int, int], without: Collection[int]) -> bool:
        """Whether there is a server that takes requests, and at which this one has failed less often."""
        now = self._clock()
        return any(
            not door.circuit.is_open and door.held_until <= now and failed.get(other, 0) < failed.get(number, 0)
            for other, door in self._doors(without)
        )

    def present_seconds(self) -> float:
        """A clock that stands still while all servers are away: what patience with one request goes by."""
        return self._clock() - min(door.circuit.away_seconds for door in self.doors)

    def _doors(self, without: Collection[int]) -> Iterator[tuple[int, Door]]:
        return ((number, door) for number, door in enumerate(self.doors) if number not in without)

    def _is_closed_for_good(self, door: Door, now: float) -> bool:
        return door.circuit.given_up and (self.watched or door.circuit.delay(now) > 0)

    def _ready(self, now: float, without: Collection[int]) -> tuple[list[int], float]:
        """The servers that take a request now, and in how many seconds another one may."""
        found, wait = list[int](), math.inf
        for number, door in self._doors(without):
            delay = door.delay(now)
            if door.full or delay == math.inf or (self.watched and door.circuit.is_open):
                continue
            if delay > 0:
                wait = min(wait, delay)
            else:
                found.append(number)
        return found, wait

    def _rank(self, number: int, failed: Mapping[int, int]) -> tuple[bool, int, tuple[int, int]]:
        door = self.doors[number]
        return door.circuit.is_open, failed.get(number, 0), door.load

    def _admit(self, number: int, sender: Hashable, *, again: bool) -> Pass:
        door, entered = self.doors[number], self._elapsed()
        door.in_flight += 1
        door.sent += 1
        return Pass(sender, number, again, door.circuit.enter(), door.width.round, entered)

    async def _wait(self, delay: float) -> None:
        """For somebody to leave, or for some seconds, whichever is sooner."""
        if delay < math.inf and len(self.doors) == 1:  # nobody else's leaving would shorten it
            await self._sleep(delay)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if delay == math.inf:
            await turn
            return
        sleeping = asyncio.ensure_future(self._sleep(delay))
        try:
            await asyncio.wait({turn, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            turn.cancel()

    def _elapsed(self) -> float:
        now = self._clock()
        self._seconds += (now - self._moment) / max(1, self.in_flight)
        self._moment = now
        return self._seconds

    def _wake(self) -> None:
        """Let as many look again as could be sent, and at least one: it then waits for the circuit on behalf of all."""
        free = sum(max(0, int(door.width) - door.in_flight) for door in self.doors)
        count = len(self._waiting) if self.given_up else max(1, free)
        while self._waiting and count > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1
