"""An ask on its way to a server: which candidates are still wanted, and what has come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from quitmt.errors import GenerationError, setting
from quitmt.types import Draw, Request


class Errand:
    """An ask under way: passes its draws on, unless nothing in it turns out to have any text."""

    def __init__(self, request: Request, put: Callable[[Draw], None]) -> None:
        self.request, self._put = request, put
        self._missing = request.stop - request.start
        self._blank = request.start == 0
        self.wanted: deque[tuple[int, int]] = deque()
        """Stretches of candidates for which no request was sent yet."""
        self.tasks = 0

    def take(self, size: int) -> tuple[int, int]:
        start, stop = self.wanted.popleft()
        if stop - start > size:
            self.wanted.appendleft((start + size, stop))
        return start, min(start + size, stop)

    def deliver(self, draw: Draw) -> None:
        self._missing -= len(draw.candidates)
        self._blank = self._blank and not any(candidate.text for candidate in draw.candidates)
        if self._blank and not self._missing:
            message = f"segment {self.request.segment.id}: the server gives only empty completions"
            raise GenerationError(
                message, hint=f"check the prompt, {setting('model.options.max_tokens')}, and that thinking is off"
            )
        self._put(draw)


def stretches(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending indices as stretches without a gap.

    >>> stretches([3, 4, 6])
    [(3, 5), (6, 7)]
    """
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs
