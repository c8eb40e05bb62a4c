"""Weighted sums of utilities: 0.5·chrF + 0.5·COMET.

The weights must account for different scales. An expected utility is linear in the utility, so the MBR score of the sum
is the sum of the MBR scores, and everything that holds for exact MBR holds for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.metrics.combination import terms
from quitmt.protocols import Matrix, Utility, UtilityTraits, traits_of
from quitmt.rerank import cells
from quitmt.signature import field
from quitmt.types import Segment

Ints = npt.NDArray[np.int64]
Arenas = tuple[Any, ...]
"""One segment's arenas, one per utility."""


class Weighted:
    """``weights[i]`` times ``utilities[i]``, summed in that order."""

    def __init__(self, utilities: Sequence[Utility[Any]], weights: Sequence[float]) -> None:
        self._terms = terms(utilities, weights)
        self.scores_with = tuple(utilities)
        traits = [traits_of(utility, UtilityTraits) for utility in utilities]
        apart = sum(weight * one.apart for (_, weight), one in zip(self._terms, traits, strict=True))
        self.traits = UtilityTraits(needs_source=any(one.needs_source for one in traits), apart=max(apart, 0.0))
        self.signature = "+".join(f"{field(weight)}*{utility.signature}" for utility, weight in self._terms)

    def open(self, segment: Segment) -> Arenas:
        return tuple(utility.open(segment) for utility, _ in self._terms)

    def encode(self, batch: Sequence[tuple[Arenas, Sequence[str]]]) -> None:
        for place, (utility, _) in enumerate(self._terms):
            utility.encode([(arenas[place], texts) for arenas, texts in batch])

    def compare(self, arena: Arenas, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        forward, backward = np.zeros((2, len(rows), len(columns)))
        for part, (utility, weight) in self._zipped(arena):
            there, back = utility.compare(part, rows, columns)
            forward += weight * np.asarray(there, np.float64)
            backward += weight * np.asarray(back, np.float64)
        return forward, backward

    def block(self, arena: Arenas, rows: Ints, columns: range) -> Matrix:
        return sum(
            (weight * cells.block(utility, part, rows, columns) for part, (utility, weight) in self._zipped(arena)),
            np.zeros((len(rows), len(columns))),
        )

    def pairs(self, arena: Arenas, rows: Ints, columns: Ints) -> Matrix:
        return sum(
            (weight * cells.pairs(utility, part, rows, columns) for part, (utility, weight) in self._zipped(arena)),
            np.zeros(len(rows)),
        )

    def _zipped(self, arena: Arenas) -> list[tuple[Any, tuple[Utility[Any], float]]]:
        return list(zip(arena, self._terms, strict=True))
