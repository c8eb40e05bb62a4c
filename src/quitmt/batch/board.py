"""Collects the workers' reports for the process that started the job.

The reports serve three purposes: they are shown as progress, they decide when a job is given up, and they identify
*deadly* rows, which kill every process that translates them. A part becomes *suspect* after its workers died several
times. It is then worked on alone, row by row, and each row is reported before it begins. A row that was the last report
before several deaths is deadly. Unrelated deaths may hit a harmless row, but rarely that often.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

LEAST_STARTS = 8
STARTS_EACH = 4
"""Worker starts per worker without any finished part in between, before the job is given up."""
SUSPECT_DEATHS = 3
"""Deaths of workers that had the part."""
DEADLY_DEATHS = 3
"""Deaths of workers that had just begun the row alone."""


@dataclass(slots=True)
class State:
    under_way: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Current tallies of unfinished parts. A worker that takes over a part starts its tally again."""
    finished: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Tallies of parts that were finished since the last look."""
    starts: int = 0
    """Worker starts since a part was last finished."""
    error: str | None = None
    """The last error that ended a worker."""
    refusal: tuple[str, str | None] | None = None
    """An error (message and hint) that every worker would raise. It is kept here because Ray doesn't return exceptions
    unchanged."""


@dataclass(slots=True)
class History:
    """The history of an unfinished part."""

    begun: int = 0
    row: str | None = None
    """The row that was begun last, if the part is done row by row."""
    deaths: Counter[str] = field(default_factory=Counter)
    """Deaths per row that was begun last."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Tells a worker to do a part row by row."""

    deadly: frozenset[str] = frozenset()
    """Rows to fail without another try."""


class Board:
    def __init__(self) -> None:
        self._state = State()
        self._histories: dict[int, History] = {}

    def started(self) -> None:
        self._state.starts += 1

    def begin(self, number: int) -> Suspicion | None:
        """Notes that a worker begins a part. If the part was begun before, that worker has died."""
        history = self._histories.setdefault(number, History())
        history.begun += 1
        if history.row is not None:
            history.deaths[history.row] += 1
            if history.deaths[history.row] == DEADLY_DEATHS:
                self._state.starts = 0  # finding a deadly row is progress
            history.row = None
        deadly = frozenset(row for row, deaths in history.deaths.items() if deaths >= DEADLY_DEATHS)
        return Suspicion(deadly) if history.begun > SUSPECT_DEATHS else None

    def row(self, number: int, row: str) -> None:
        self._histories.setdefault(number, History()).row = row

    def part(self, number: int, tally: dict[str, Any]) -> None:
        self._state.under_way[number] = tally

    def finished(self, number: int, tally: dict[str, Any]) -> None:
        self._histories.pop(number, None)
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
    """Whether workers start again and again without finishing a part."""
    return state.starts > max(LEAST_STARTS, STARTS_EACH * workers)
