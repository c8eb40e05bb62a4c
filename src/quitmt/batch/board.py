"""Where workers say how far they are, for the one who started the job. Only what is shown depends on it, and when a job
is given up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LEAST_STARTS = 8
STARTS_EACH = 4
"""Starts of workers without any finished part between them, before a job is given up."""


@dataclass(slots=True)
class State:
    under_way: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Tallies of parts so far; whoever begins a part anew begins its tally anew."""
    finished: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Tallies of parts that were finished since the last look."""
    starts: int = 0
    """Of workers, since a part was finished."""
    error: str | None = None
    """The last one that ended a worker."""
    refusal: tuple[str, str | None] | None = None
    """What a worker refuses whoever tries it, with a hint: Ray does not bring errors back as they are."""


class Board:
    def __init__(self) -> None:
        self._state = State()

    def started(self) -> None:
        self._state.starts += 1

    def part(self, number: int, tally: dict[str, Any]) -> None:
        self._state.under_way[number] = tally

    def finished(self, number: int, tally: dict[str, Any]) -> None:
        self._state.under_way.pop(number, None)
        self._state.finished[number] = tally
        self._state.starts, self._state.error = 0, None

    def broke(self, error: str) -> None:
        self._state.error = error

    def refused(self, message: str, hint: str | None) -> None:
        self._state.refusal = (message, hint)

    def look(self) -> State:
        state = self._state
        self._state = State(dict(state.under_way), {}, state.starts, state.error, state.refusal)
        return state


def is_hopeless(state: State, workers: int) -> bool:
    """Whether workers are started again and again, and nothing gets done."""
    return state.starts > max(LEAST_STARTS, STARTS_EACH * workers)
