"""How fast a server is asked: how much is in flight, and the circuit that pauses when the server is gone.

``Width`` and ``Circuit`` are plain state; ``Gate`` is the door that requests pass one by one, by the word of both. The
clock and the sleeping are passed in.

Invariants: the width stays between 1 and its ceiling, and at most halves for what was sent at the same width, so that a
burst of refusals counts once; no more than the width is in flight; while the circuit is open nothing is sent but one
probe at a time; a cancelled request gives back its place, and whoever leaves the queue passes the word on.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto


@dataclass(frozen=True, slots=True)
class Policy:
    """When to try again, when to pause, when to give up."""

    attempts: int = 8
    """How often one request is sent at most, without what fails while the circuit is open."""
    backoff_seconds: float = 0.5
    """The longest first wait; it doubles with each attempt. The wait itself is drawn between nothing and that."""
    backoff_ceiling_seconds: float = 30.0
    failures: int = 5
    """This many failures of the connection in a row, over all requests, open the circuit."""
    pause_seconds: float = 0.5
    """The first pause of an open circuit; it doubles with each probe that fails."""
    pause_ceiling_seconds: float = 30.0
    patience_seconds: float = 300.0
    """How long a server that has answered before may be away."""
    first_patience_seconds: float = 4.0
    """The same for one that never has: the address is probably wrong."""
    longest_wait_seconds: float = 600.0
    """A Retry-After beyond this is not waited for."""


class Width:
    """How many requests may be in flight.

    Goes by rounds, of as many answers as there were requests in flight. It doubles each round until the server first
    says that it is too much. From then on a round without such a word adds one, and one with takes away half of the
    share that was too much: all of it halves the width, a stray one hardly counts (as in DCTCP, RFC 8257, for the same
    reason: halving at each single sign would leave a server that stalls now and then nearly idle).
    """

    def __init__(self, ceiling: int, start: int = 16) -> None:
        self.ceiling = ceiling
        self.round = 0
        """A request remembers in which one it was sent: what an older one says has been acted upon."""
        self._width = float(min(start, ceiling))
        self._doubling = True
        self._answers = self._refusals = 0
        self._full = False

    def __int__(self) -> int:
        return int(self._width)

    def learn(self, sent_in: int, in_flight: int, *, too_much: bool) -> None:
        """A request sent in that round was answered while so many (itself included) were in flight."""
        if too_much and sent_in < self.round:
            return
        self._answers += 1
        self._refusals += too_much
        self._doubling = self._doubling and not too_much
        self._full = self._full or in_flight >= int(self._width)
        if self._answers >= int(self._width):
            self._end_round()

    def _end_round(self) -> None:
        if self._refusals:
            self._width = max(1.0, self._width * (1 - self._refusals / self._answers / 2))
            self.round += 1
        elif self._full:  # what is not used up need not grow
            self._width = min(float(self.ceiling), self._width * 2 if self._doubling else self._width + 1)
        self._answers = self._refusals = 0
        self._full = False


class Circuit:
    """Closed while the server can be reached. Open, nothing is sent but one probe after each pause; the pauses grow.

    After its patience is spent it has ``given_up``: whoever comes is turned away until a probe succeeds.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._failures = 0
        self._opened: float | None = None
        self._until = 0.0
        self._pause = policy.pause_seconds
        self._probing = False
        self._known = False
        self.given_up = False

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    def delay(self, now: float) -> float:
        """Seconds until a request may be sent; infinite while a probe is under way."""
        if not self.is_open:
            return 0.0
        return math.inf if self._probing else max(0.0, self._until - now)

    def enter(self) -> bool:
        """A request is sent; whether it is a probe."""
        self._probing = self.is_open
        return self._probing

    def answered(self) -> None:
        """The server was reached, whatever it said."""
        self._known, self._opened, self._failures = True, None, 0
        self._probing, self.given_up = False, False
        self._pause = self._policy.pause_seconds

    def failed(self, now: float, probe: bool, *, heard: bool = False) -> None:
        """The server was not reached; ``heard``: though something in its place said so."""
        self._known = self._known or heard
        self._failures += 1
        if probe:
            self._probing = False
            self._pause = min(self._policy.pause_ceiling_seconds, self._pause * 2)
        elif self.is_open or self._failures < (self._policy.failures if self._known else 1):
            return
        self._opened = now if self._opened is None else self._opened
        self._until = now + self._pause
        patience = self._policy.patience_seconds if self._known else self._policy.first_patience_seconds
        self.given_up = now - self._opened >= patience

    def abandoned(self, probe: bool) -> None:
        """A request was cancelled before anything was known; somebody else may probe."""
        if probe:
            self._probing = False


class Result(Enum):
    """What an attempt says about the server."""

    GOOD = auto()
    BAD = auto()
    """It answered, but not well."""
    OVERLOADED = auto()
    UNREACHED = auto()
    AWAY = auto()
    """A proxy answered in its place."""
    STALLED = auto()
    UNKNOWN = auto()
    """Cancelled before anything was known."""


_UNREACHED = {Result.UNREACHED, Result.AWAY, Result.STALLED}
_TOO_MUCH = {Result.OVERLOADED, Result.AWAY, Result.STALLED}


@dataclass(frozen=True, slots=True)
class Pass:
    """One request's way through the gate."""

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

    async def enter(self) -> Pass | None:
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
                    return Pass(self.circuit.enter(), self.width.round, entered)
        except asyncio.CancelledError:
            self._wake()
            raise

    def leave(self, request: Pass, result: Result) -> float:
        """The request is over; its share of the time in seconds."""
        if result is Result.UNKNOWN:
            self.circuit.abandoned(request.probe)
        elif result in _UNREACHED:
            self.circuit.failed(self._clock(), request.probe, heard=result is Result.AWAY)
        else:
            self.circuit.answered()
        if result not in (Result.UNKNOWN, Result.UNREACHED):
            self.width.learn(request.sent_in, self.in_flight, too_much=result in _TOO_MUCH)
        seconds = self._elapsed() - request.entered
        self.in_flight -= 1
        self._wake()
        return seconds

    def hold(self, seconds: float) -> None:
        """Send nothing for so long."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    def pauses(self, result: Result) -> bool:
        """Whether the circuit is open because of results like this: whoever had it need not count it."""
        return result in _UNREACHED and self.circuit.is_open

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
