"""Deadlines: of a segment, counted from its admission, and of a run, counted from its start.

The engine has no clock. The driver tells it when a segment's time is up, and once more after a short grace period, when
it stops waiting altogether. If the number of segments is known, a run's deadline also paces them: each gets its share
of the remaining time. A share has no grace period, because it is only a means to meet the run's deadline.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

from quitmt.errors import GenerationError, UsageError
from quitmt.loops.faults import is_cancellation


class Timer(Protocol):
    def cancel(self) -> object: ...


class Clock(Protocol):
    """The part of an event loop that deadlines need."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer: ...


def grace(seconds: float) -> float:
    """Seconds to wait for work in progress after a deadline: a tenth of the deadline, between 1 and 10."""
    return min(10.0, max(1.0, seconds / 10))


@dataclass(frozen=True, slots=True)
class Limit:
    """The time of one segment, in seconds from its admission."""

    expire: float
    """When it stops with its best translation so far."""
    abandon: float
    """When it stops waiting for candidates or scores."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """In seconds. Signatures don't include them, because they don't change which of a segment's candidates is best."""

    segment: float | None = None
    run: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("a segment's", self.segment), ("a run's", self.run)):
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{name} deadline must be a number of seconds above 0, not {value}")

    def __bool__(self) -> bool:
        return self.segment is not None or self.run is not None


async def in_time(work: Coroutine[Any, Any, None], seconds: float | None, clock: Clock) -> None:
    """Wait for some work, but at most so many seconds."""
    task = asyncio.create_task(work)
    timer = None if seconds is None else clock.call_at(clock.time() + seconds, task.cancel)
    try:
        await task
    except asyncio.CancelledError as error:
        if is_cancellation(error):
            raise
        message = f"the generator did not answer within the run's deadline of {seconds or 0:.15g} s"
        raise GenerationError(message, hint="is its server running?") from None
    finally:
        task.cancel()
        if timer:
            timer.cancel()


class Timers:
    """The timers of one run, which begins now.

    ``expire`` is called with the key of a segment whose time is up. ``abandon`` is called after its grace period, with
    the key, the deadline in words, and whether the deadline is the run's. ``expected`` is the number of items of the
    run, if known.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        clock: Clock,
        expire: Callable[[str], None],
        abandon: Callable[[str, str, bool], None],
        *,
        in_flight: int,
        expected: int | None = None,
    ) -> None:
        self._deadlines, self._clock, self._expire, self._abandon = deadlines, clock, expire, abandon
        self._in_flight, self.expected = in_flight, expected
        self._end = math.inf if deadlines.run is None else clock.time() + deadlines.run
        self._timers: dict[str, list[Timer]] = {}
        """By segment in flight."""
        self._over = False
        self._of_run: list[Timer] = []
        if deadlines.run is not None:
            self._of_run.append(clock.call_at(self._end, self._expire_all))
            self._of_run.append(clock.call_at(self._end + grace(deadlines.run), self._abandon_all))

    @property
    def over(self) -> bool:
        """Whether the run's time is up."""
        # An event loop may call a timer slightly before its clock reaches the time; then the flag is set already.
        return self._over or self._clock.time() >= self._end

    @property
    def left(self) -> float:
        """Seconds until the run's time is up."""
        return max(0.0, self._end - self._clock.time())

    def start(self, key: str, position: int, limit: Limit | None = None) -> None:
        """Start the timers of a segment at a position of the input; ``limit`` replaces the run's deadlines."""
        now, deadline = self._clock.time(), self._deadlines.segment
        deadline_words = "its deadline"
        if limit is None:
            expire, abandon = min(deadline or math.inf, self._share(position)), math.inf
            if deadline is not None:
                abandon, deadline_words = deadline + grace(deadline), f"the deadline of {deadline:.15g} s"
        else:
            expire, abandon = limit.expire, limit.abandon
        calls = (expire, partial(self._expire, key)), (abandon, partial(self._abandon, key, deadline_words, False))
        self._timers[key] = [self._clock.call_at(now + after, call) for after, call in calls if after < math.inf]

    def stop(self, key: str) -> None:
        for timer in self._timers.pop(key, ()):
            timer.cancel()

    def close(self) -> None:
        for timer in chain(self._of_run, *self._timers.values()):
            timer.cancel()

    def _share(self, position: int) -> float:
        """``in_flight`` segments run in parallel, so each gets that much more of the remaining time."""
        if self.expected is None:
            return math.inf
        return (self._end - self._clock.time()) * self._in_flight / max(1, self.expected - position)

    def _expire_all(self) -> None:
        self._over = True
        for key in list(self._timers):
            self._expire(key)

    def _abandon_all(self) -> None:
        for key in list(self._timers):
            self._abandon(key, f"the run's deadline of {self._deadlines.run:.15g} s", True)
