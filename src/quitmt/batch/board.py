"""Where workers say how far they are, for the one who started the job. Only what is shown depends on it, when a job is
given up, and which rows are: those that end every process that translates them.

A part whose workers died several times is *suspect*: it is worked on alone, row by row, and each row is named here
before it is begun. A row that was named last in several deaths is deadly. Other deaths hit it there by chance, but
hardly so often.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

LEAST_STARTS = 8
STARTS_EACH = 4
"""Starts of workers without any finished part between them, before a job is given up."""
SUSPECT_DEATHS = 3
"""Of workers that had a part."""
DEADLY_DEATHS = 3
"""Of workers that had just begun a row, alone."""


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


@dataclass(slots=True)
class History:
    """Of a part that was begun and is not finished."""

    begun: int = 0
    row: str | None = None
    """The one that was begun last, if it is done row by row."""
    deaths: Counter[str] = field(default_factory=Counter)
    """By the row that was begun last."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Why a part is to be done row by row."""

    deadly: frozenset[str] = frozenset()
    """Rows that are not to be tried again."""


class Board:
    def __init__(self) -> None:
        self._state = State()
        self._histories: dict[int, History] = {}

    def started(self) -> None:
        self._state.starts += 1

    def begin(self, number: int) -> Suspicion | None:
        """Who begins a part anew has taken it over from one that died."""
        history = self._histories.setdefault(number, History())
        history.begun += 1
        if history.row is not None:
            history.deaths[history.row] += 1
            if history.deaths[history.row] == DEADLY_DEATHS:
                self._state.starts = 0  # one is found, so the job goes on
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
    """Whether workers are started again and again, and nothing gets done."""
    return state.starts > max(LEAST_STARTS, STARTS_EACH * workers)
