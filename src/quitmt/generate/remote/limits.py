"""Limits the requests in flight at one server, and decides when the server is gone. Plain state; the time is passed in.

Invariants: the width stays between 1 and its ceiling; requests sent at the same width at most halve it, so a burst of
refusals counts once; refusals of only one sender among several don't change it. The circuit opens only if requests of
different senders fail and none is answered in between, so one sender with a poisoned request can't open it. While it is
open, only one probe at a time is sent; it gives up only after a failed probe.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum, auto


class Sign(Enum):
    """The result of an attempt, as far as it concerns the server."""

    GOOD = auto()
    """It answered, or explained what is wrong with the request."""
    BAD = auto()
    """It answered badly."""
    OVERLOADED = auto()
    UNREACHED = auto()
    AWAY = auto()
    """A proxy answered that the server is away."""
    STALLED = auto()
    REFUSING = auto()
    """It refuses every request, and there are other servers."""
    UNKNOWN = auto()
    """The attempt was cancelled without a result."""


STRAY = 1 / 8
"""The share of refusals up to which the width keeps doubling: some requests are refused because of their content."""


class Width:
    """The maximum number of requests in flight. It changes once per round, that is, after as many answers as the width.

    It doubles each round until the server first refuses for overload. From then on, a round without refusals adds one,
    and a round with refusals shrinks the width by half of their share: if all were refused the width halves, and a
    single refusal hardly counts (as in DCTCP, RFC 8257, for the same reason: halving at every refusal would leave a
    server that stalls now and then nearly idle).

    The share is counted over requests and over senders, and the smaller one applies. Refusals don't count if they all
    hit one sender while others were answered, because then the fault is the sender's.
    """

    def __init__(self, ceiling: int, start: int = 16) -> None:
        self.ceiling = ceiling
        self.round = 0
        """A request remembers its round, because refusals from an older round have been acted upon."""
        self._width = float(min(start, ceiling))
        self._doubling = True
        self._full = False
        self._begin_round()

    def __int__(self) -> int:
        return int(self._width)

    def learn(self, sent_in: int, in_flight: int, sender: Hashable, *, too_much: bool) -> None:
        """Take the result of a request: its round, and the number in flight when it ended (including itself)."""
        if too_much and sent_in < self.round:
            return
        self._answers += 1
        self._senders.add(sender)
        if too_much:
            self._refusals += 1
            self._refused.add(sender)
        self._full = self._full or in_flight >= int(self._width)
        if self._answers >= int(self._width):
            self._end_round()

    def _begin_round(self) -> None:
        self._answers = self._refusals = 0
        self._senders: set[Hashable] = set()
        self._refused: set[Hashable] = set()
        self._full = False

    def _end_round(self) -> None:
        share = self._share()
        self._doubling = self._doubling and share <= STRAY
        if share and not self._doubling:
            self._width = max(1.0, self._width * (1 - share / 2))
            self.round += 1
        elif self._full:  # an unused width need not grow
            self._width = min(float(self.ceiling), self._width * 2 if self._doubling else self._width + 1)
        self._begin_round()

    def _share(self) -> float:
        """The share of overload refusals."""
        if len(self._refused) == 1 < len(self._senders):
            return 0.0
        return min(self._refusals / self._answers, len(self._refused) / len(self._senders))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to try again, when to pause, when to give up."""

    patience_seconds: float = 300.0
    """How long a request is retried after its first failure, and how long a server that has answered before may be
    away."""
    first_patience_seconds: float = 4.0
    """How long a server that was never reached may be away: its address is probably wrong."""
    backoff_seconds: float = 0.5
    """Maximum first wait; it doubles with each attempt. The wait is drawn uniformly between 0 and the maximum."""
    backoff_ceiling_seconds: float = 30.0
    failures: int = 5
    """Consecutive failures that open the circuit, if they come from at least ``senders`` senders."""
    senders: int = 2
    grace_seconds: float = 30.0
    """How long a server must answer badly (429, 500) before the circuit opens; until then each request backs off
    separately."""
    pause_seconds: float = 0.5
    """The first pause of an open circuit; it doubles with each probe that fails."""
    pause_ceiling_seconds: float = 30.0


class Circuit:
    """Closed while the server answers. While it is open, only one probe is sent after each pause, and the pauses grow.

    Once its patience is spent it has ``given_up``: requests are turned away until a probe succeeds.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._failures = 0
        self._senders: set[Hashable] = set()
        self._until: float | None = None
        """When the pause ends, if the circuit is open."""
        self._gone = False
        self._moment = 0.0
        self._pause = policy.pause_seconds
        self._probing = False
        self.known = False
        """Whether the server has been reached at least once."""
        self.given_up = False
        self.away_seconds = 0.0
        """Total time that the server was known by probes to be away; it doesn't count against any request's
        patience."""
        self.failing_since: float | None = None
        """Time of the first failure since the last answer."""

    @property
    def is_open(self) -> bool:
        return self._until is not None

    @property
    def is_gone(self) -> bool:
        """Whether the circuit is open and confirmed: a probe has failed, or the server refuses every request."""
        return self._gone

    @property
    def failures(self) -> int:
        """Consecutive failures."""
        return self._failures

    @property
    def patience(self) -> float:
        longest = self._policy.patience_seconds
        return longest if self.known else min(longest, self._policy.first_patience_seconds)

    def delay(self, now: float) -> float:
        """Seconds until a request may be sent; infinite while a probe is under way."""
        if self._until is None:
            return 0.0
        return math.inf if self._probing else max(0.0, self._until - now)

    def enter(self) -> bool:
        """Note that a request is sent; return whether it is a probe."""
        self._probing = self.is_open
        return self._probing

    def answered(self, now: float) -> None:
        """The server answered, or explained what is wrong with the request."""
        if self._gone:
            self._count(now)
        self.known, self._until, self.failing_since, self._gone = True, None, None, False
        self._failures = 0
        self._senders.clear()
        self._probing, self.given_up = False, False
        self._pause = self._policy.pause_seconds

    def failed(self, now: float, sender: Hashable, sign: Sign, *, probe: bool) -> None:
        """A request failed. A server that refuses every request opens the circuit with one refusal."""
        refusing, reached = sign is Sign.REFUSING, sign in (Sign.BAD, Sign.OVERLOADED)
        self.known = self.known or sign is not Sign.UNREACHED
        self._failures += 1
        self._senders.add(sender)
        if self.failing_since is None:
            self.failing_since = now
        if probe:
            self._probing = False
            self._pause = min(self._policy.pause_ceiling_seconds, self._pause * 2)
            self.given_up = now - self.failing_since >= self.patience
            self._gone = True
            self._count(now)
        elif self.is_open or not (refusing or self._opens(now, reached)):
            return
        self._gone = self._gone or refusing
        self._moment = now
        self._until = now + self._pause

    def _count(self, now: float) -> None:
        self.away_seconds += now - self._moment
        self._moment = now

    def _opens(self, now: float, reached: bool) -> bool:
        if not self.known:
            return True
        assert self.failing_since is not None
        in_time = not reached or now - self.failing_since >= self._policy.grace_seconds
        return in_time and self._failures >= self._policy.failures and len(self._senders) >= self._policy.senders

    def abandoned(self, probe: bool) -> None:
        """A request was cancelled without a result; another may probe."""
        if probe:
            self._probing = False
