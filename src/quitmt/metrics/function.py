"""Any function as a metric: ``u(hypothesis, reference)`` as utility, ``score(source, candidate)`` as estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from quitmt.types import Candidate, Segment


class FunctionArena:
    __slots__ = ("texts",)

    def __init__(self) -> None:
        self.texts: list[str] = []


class FunctionUtility:
    """Calls the function once for each ordered pair of distinct texts."""

    def __init__(self, function: Callable[[str, str], float], *, name: str | None = None) -> None:
        self._function = function
        self.signature = f"function:{name or getattr(function, '__qualname__', type(function).__name__)}"

    def open(self, segment: Segment) -> FunctionArena:
        return FunctionArena()

    def encode(self, batch: Sequence[tuple[FunctionArena, Sequence[str]]]) -> None:
        for arena, texts in batch:
            arena.texts.extend(texts)

    def compare(
        self, arena: FunctionArena, rows: range, columns: range
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        known: dict[tuple[int, int], float] = {}

        def utility(hypothesis: int, reference: int) -> float:
            pair = hypothesis, reference
            if pair not in known:  # rows and columns may overlap
                known[pair] = float(self._function(arena.texts[hypothesis], arena.texts[reference]))
            return known[pair]

        forward = [[utility(row, column) for column in columns] for row in rows]
        backward = [[utility(column, row) for column in columns] for row in rows]
        shape = len(rows), len(columns)
        return np.array(forward, dtype=np.float64).reshape(shape), np.array(backward, dtype=np.float64).reshape(shape)


class FunctionEstimator:
    def __init__(self, function: Callable[[str, str], float], *, name: str | None = None) -> None:
        self._function = function
        self.signature = f"function:{name or getattr(function, '__qualname__', type(function).__name__)}"

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> npt.NDArray[np.float64]:
        return np.array([self._function(segment.source, candidate.text) for segment, candidate in pairs], np.float64)
