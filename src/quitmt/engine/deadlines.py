"""Deadlines: of a segment, from its admission, and of a run, from its start.

The engine has no clock; the driver has it told when a segment's time is up, and after a short grace once more, when
nothing is waited for any longer. Where it is known how many segments there are, a run's deadline paces them: each gets
its share of the time that is left. A share has no grace: it is how time is divided, not what somebody asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Protocol

from quitmt.errors import UsageError


class Timer(Protocol):
    def cancel(self) -> object: ...


class Clock(Protocol):
    """As much of an event loop as deadlines need."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer: ...


def grace(seconds: float) -> float:
    """How long after a deadline of so many seconds is waited for what is under way: a tenth of it, 1 to 10 seconds."""
    return min(10.0, max(1.0, seconds / 10))


@dataclass(frozen=True, slots=True)
class Limit:
    """When the time of one segment is up, in seconds from its admission, and when nothing is waited for any longer."""

    ring: float
    leave: float


@dataclass(frozen=True, slots=True)
class Deadlines:
    """In seconds. They do not change what the best of a segment's candidates is, so no signature has them."""

    segment: float | None = None
    run: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("a segment's", self.segment), ("a run's", self.run)):
            if value is not None and not _is_duration(value):
                raise UsageError(f"{name} deadline must be a number of seconds above 0, not {value}")

    def __bool__(self) -> bool:
        return self.segment is not None or self.run is not None


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


class Timers:
    """The timers of one run, which begins now.

    ``ring`` is called with the id of a segment whose time is up, ``leave`` when its grace is over too, with the id, the
    deadline in words, and whether it was the run's.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        clock: Clock,
        ring: Callable[[str], None],
        leave: Callable[[str, str, bool], None],
        *,
        in_flight: int,
        expected: int | None = None,
    ) -> None:
        self._deadlines, self._clock, self._ring, self._leave = deadlines, clock, ring, leave
        self._in_flight, self.expected = in_flight, expected
        self._end = math.inf if deadlines.run is None else clock.time() + deadlines.run
        self._timers: dict[str, list[Timer]] = {}
        """Of the segments under way."""
        self._over = False
        self._of_run: list[Timer] = []
        if deadlines.run is not None:
            self._of_run.append(clock.call_at(self._end, self._ring_all))
            self._of_run.append(clock.call_at(self._end + grace(deadlines.run), self._leave_all))

    @property
    def over(self) -> bool:
        """Whether the run's own time is up."""
        # An event loop may ring a little before its clock says so: then the flag knows.
        return self._over or self._clock.time() >= self._end

    @property
    def left(self) -> float:
        """Seconds until the run's time is up."""
        return max(0.0, self._end - self._clock.time())

    def start(self, segment_id: str, number: int, limit: Limit | None = None) -> None:
        """A segment is admitted, the ``number``-th of the input from 0. ``limit`` is its own, if it has one."""
        now, own = self._clock.time(), self._deadlines.segment
        if limit is not None:
            leave = partial(self._leave, segment_id, "its deadline", False)
            self._timers[segment_id] = [
                self._clock.call_at(now + limit.ring, partial(self._ring, segment_id)),
                self._clock.call_at(now + limit.leave, leave),
            ]
            return
        seconds = min(own or math.inf, self._share(self._end - now, number))
        timers = self._timers[segment_id] = []
        if seconds < math.inf:
            timers.append(self._clock.call_at(now + seconds, partial(self._ring, segment_id)))
        if own is not None:
            leave = partial(self._leave, segment_id, f"the deadline of {own:.15g} s", False)
            timers.append(self._clock.call_at(now + own + grace(own), leave))

    def stop(self, segment_id: str) -> None:
        for timer in self._timers.pop(segment_id, ()):
            timer.cancel()

    def close(self) -> None:
        for timer in chain(self._of_run, *self._timers.values()):
            timer.cancel()

    def _share(self, left: float, number: int) -> float:
        """As many are worked on at a time as there are slots, so a segment's share of the time is that much larger."""
        if self.expected is None:
            return math.inf
        return left * self._in_flight / max(1, self.expected - number)

    def _ring_all(self) -> None:
        self._over = True
        for segment_id in list(self._timers):
            self._ring(segment_id)

    def _leave_all(self) -> None:
        for segment_id in list(self._timers):
            self._leave(segment_id, f"the run's deadline of {self._deadlines.run:.15g} s", True)
