"""A gate that every request passes. It has one door per server, with a ``Width`` and a ``Circuit``.

All doors share one queue. The next request takes the door of the least busy available server, and returns to a server
where it has failed only if no other is available. The clock and the sleep function are passed in.

Invariants: at most ``Width`` requests are in flight per server; a cancelled request gives back its place and wakes the
next one. Only a request's first failure at a server narrows the width: it then backs off by itself, so a request that
can never succeed doesn't slow down the others.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass

from quitmt.generate.remote.limits import Circuit, RetryPolicy, Sign, Width

_TOO_MUCH = {Sign.OVERLOADED, Sign.AWAY, Sign.STALLED}
_NOTHING_SAID = {Sign.UNKNOWN, Sign.UNREACHED, Sign.REFUSING}
"""Results that say nothing about overload."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A request's admission to a server."""

    sender: Hashable
    door: int
    """The number of the server."""
    again: bool
    """Whether it has failed there before."""
    probe: bool
    sent_in: int
    entered: float


class Door:
    """The limits and the load of one server."""

    def __init__(self, concurrency: int, policy: RetryPolicy) -> None:
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
        """A sort key: the least busy server first, then the one with fewer requests sent. A failing server finishes its
        requests quickly, so each of the first consecutive failures doubles its load."""
        return (self.in_flight + 1) << min(self.circuit.failures, 3), self.sent

    def delay(self, now: float) -> float:
        return max(self.circuit.delay(now), self.held_until - now)


class Gate:
    """The doors of all servers and their queue, for one event loop.

    If the doors are ``watched``, the client probes servers that are gone; otherwise the next request does.
    """

    def __init__(
        self,
        concurrency: int,
        policy: RetryPolicy,
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], float],
        servers: int = 1,
    ) -> None:
        self.doors = [Door(concurrency, policy) for _ in range(servers)]
        self.watched = False
        self._sleep, self._clock = sleep, clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._seconds = self._moment = 0.0
        """A clock that runs more slowly the more requests are in flight, so it measures each request's share of the
        time."""

    @property
    def in_flight(self) -> int:
        return sum(door.in_flight for door in self.doors)

    @property
    def given_up(self) -> bool:
        return all(door.circuit.given_up for door in self.doors)

    async def enter(
        self, sender: Hashable, failed: Mapping[int, int] | None = None, without: Collection[int] = ()
    ) -> Pass | None:
        """Wait for a turn at any server except those in ``without``; None if all the others were given up. ``failed``
        counts the request's failures per server."""
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

    def admit_probe(self, number: int) -> Pass:
        """Admit a probe to a server immediately."""
        return self._admit(number, self, again=False)

    def leave(self, request: Pass, result: Sign) -> float:
        """End a request; return its share of the time in seconds."""
        now, door = self._clock(), self.doors[request.door]
        if result is Sign.UNKNOWN:
            door.circuit.abandoned(request.probe)
        elif result is Sign.GOOD:
            door.circuit.answered(now)
        else:
            door.circuit.failed(now, request.sender, result, probe=request.probe)
        too_much = result in _TOO_MUCH
        if result not in _NOTHING_SAID and not (too_much and request.again):
            door.width.learn(request.sent_in, door.in_flight, request.sender, too_much=too_much)
        seconds = self._elapsed() - request.entered
        door.in_flight -= 1
        self._wake()
        return seconds

    def hold(self, number: int, seconds: float) -> None:
        """Send nothing to a server for some seconds."""
        door = self.doors[number]
        door.held_until = max(door.held_until, self._clock() + seconds)

    def has_other(self, number: int, failed: Mapping[int, int], without: Collection[int]) -> bool:
        """Whether another server accepts requests where this request has failed less often."""
        now = self._clock()
        return any(
            not door.circuit.is_open and door.held_until <= now and failed.get(other, 0) < failed.get(number, 0)
            for other, door in self._doors(without)
        )

    def present_seconds(self) -> float:
        """A clock that stops while all servers are away; it measures the patience with a request."""
        return self._clock() - min(door.circuit.away_seconds for door in self.doors)

    def _doors(self, without: Collection[int]) -> Iterator[tuple[int, Door]]:
        return ((number, door) for number, door in enumerate(self.doors) if number not in without)

    def _is_closed_for_good(self, door: Door, now: float) -> bool:
        return door.circuit.given_up and (self.watched or door.circuit.delay(now) > 0)

    def _ready(self, now: float, without: Collection[int]) -> tuple[list[int], float]:
        """The servers that accept a request now, and the seconds until another one may."""
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
        """Wait until a request leaves, or for some seconds, whichever is sooner."""
        if delay < math.inf and len(self.doors) == 1:  # no leaving request would shorten the delay
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
        """Wake as many waiting requests as could be sent, and at least one, which waits for the circuit for all."""
        free = sum(max(0, int(door.width) - door.in_flight) for door in self.doors)
        count = len(self._waiting) if self.given_up else max(1, free)
        while self._waiting and count > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1
