"""How fast a server is asked: the door that requests pass one by one, by the word of ``Width`` and ``Circuit``.

The clock and the sleeping are passed in.

Invariants: no more than the width is in flight; a cancelled request gives back its place, and whoever leaves the queue
passes the word on. Of a request that fails again and again only the first failure narrows the width: it waits longer
and longer by itself, and one that can never succeed does not slow down the others.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from enum import Enum, auto

from quitmt.generate.remote.circuit import Circuit, Policy
from quitmt.generate.remote.width import Width


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
    UNKNOWN = auto()
    """Cancelled before anything was known."""


_REACHED = {Sign.BAD, Sign.OVERLOADED}
_TOO_MUCH = {Sign.OVERLOADED, Sign.AWAY, Sign.STALLED}


@dataclass(frozen=True, slots=True)
class Pass:
    """One request's way through the gate."""

    sender: Hashable
    again: bool
    """It has failed before."""
    probe: bool
    sent_in: int
    entered: float


class Gate:
    """For one event loop and one server."""

    def __init__(
        self, concurrency: int, policy: Policy, sleep: Callable[[float], Awaitable[None]], clock: Callable[[], float]
    ) -> None:
        self.width = Width(concurrency)
        self.circuit = Circuit(policy)
        self.in_flight = 0
        self._sleep, self._clock = sleep, clock
        self._held_until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._seconds = self._moment = 0.0
        """A clock that runs the slower the more is in flight: the time of each is its share of what all took."""

    async def enter(self, sender: Hashable, *, again: bool = False) -> Pass | None:
        """Wait for one's turn; None if the circuit has given up."""
        try:
            while True:
                now = self._clock()
                delay = self.circuit.delay(now)
                if delay and self.circuit.given_up:
                    self._wake()
                    return None
                delay = max(delay, self._held_until - now)
                if delay == math.inf or self.in_flight >= int(self.width):
                    turn = asyncio.get_running_loop().create_future()
                    self._waiting.append(turn)
                    await turn
                elif delay > 0:
                    await self._sleep(delay)
                else:
                    entered = self._elapsed()
                    self.in_flight += 1
                    return Pass(sender, again, self.circuit.enter(), self.width.round, entered)
        except asyncio.CancelledError:
            self._wake()
            raise

    def leave(self, request: Pass, result: Sign) -> float:
        """The request is over; its share of the time in seconds."""
        now = self._clock()
        if result is Sign.UNKNOWN:
            self.circuit.abandoned(request.probe)
        elif result is Sign.GOOD:
            self.circuit.answered(now)
        else:
            reached, heard = result in _REACHED, result is not Sign.UNREACHED
            self.circuit.failed(now, request.sender, probe=request.probe, reached=reached, heard=heard)
        too_much = result in _TOO_MUCH
        if result not in (Sign.UNKNOWN, Sign.UNREACHED) and not (too_much and request.again):
            self.width.learn(request.sent_in, self.in_flight, request.sender, too_much=too_much)
        seconds = self._elapsed() - request.entered
        self.in_flight -= 1
        self._wake()
        return seconds

    def hold(self, seconds: float) -> None:
        """Send nothing for so long."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    def present_seconds(self) -> float:
        """A clock that stands still while the server is away: what patience with one request goes by."""
        return self._clock() - self.circuit.away_seconds

    def _elapsed(self) -> float:
        now = self._clock()
        self._seconds += (now - self._moment) / max(1, self.in_flight)
        self._moment = now
        return self._seconds

    def _wake(self) -> None:
        """Let as many look again as could be sent, and at least one: it then waits for the circuit on behalf of all."""
        count = len(self._waiting) if self.circuit.given_up else max(1, int(self.width) - self.in_flight)
        while self._waiting and count > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1
