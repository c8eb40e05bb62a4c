"""Deadlines: of a segment, from its admission, and of a run, from its start.

The engine has no clock; the driver has it told when a segment's time is up. Where it is known how many segments there
are, a run's deadline paces them: each gets its share of the time that is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from quitmt.errors import UsageError


class Timer(Protocol):
    def cancel(self) -> object: ...


class Clock(Protocol):
    """As much of an event loop as deadlines need."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> Timer: ...


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
    """The timers of one run, which begins now. ``ring`` is called with the id of a segment whose time is up."""

    def __init__(
        self,
        deadlines: Deadlines,
        clock: Clock,
        ring: Callable[[str], None],
        *,
        in_flight: int,
        expected: int | None = None,
    ) -> None:
        self._deadlines, self._clock, self._ring = deadlines, clock, ring
        self._in_flight, self._expected = in_flight, expected
        self._end = math.inf if deadlines.run is None else clock.time() + deadlines.run
        self._timers: dict[str, Timer | None] = {}
        """Of the segments under way."""
        self._over = False
        self._run_timer = None if deadlines.run is None else clock.call_at(self._end, self._ring_all)

    @property
    def over(self) -> bool:
        """Whether the run's own time is up."""
        # An event loop may ring a little before its clock says so: then the flag knows.
        return self._over or self._clock.time() >= self._end

    def start(self, segment_id: str, number: int) -> None:
        """A segment is admitted, the ``number``-th of the input from 0."""
        now = self._clock.time()
        seconds = min(self._deadlines.segment or math.inf, self._share(self._end - now, number))
        ring = self._rings(segment_id)
        self._timers[segment_id] = self._clock.call_at(now + seconds, ring) if seconds < math.inf else None

    def stop(self, segment_id: str) -> None:
        if timer := self._timers.pop(segment_id, None):
            timer.cancel()

    def close(self) -> None:
        for timer in (self._run_timer, *self._timers.values()):
            if timer:
                timer.cancel()

    def _share(self, left: float, number: int) -> float:
        """As many are worked on at a time as there are slots, so a segment's share of the time is that much larger."""
        if self._expected is None:
            return math.inf
        return left * self._in_flight / max(1, self._expected - number)

    def _rings(self, segment_id: str) -> Callable[[], None]:
        return lambda: self._ring(segment_id)

    def _ring_all(self) -> None:
        self._over = True
        for segment_id in list(self._timers):
            self._ring(segment_id)
