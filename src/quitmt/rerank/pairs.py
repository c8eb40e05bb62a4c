"""The utilities of all pairs of a segment's distinct texts, as they grow: what every kind of MBR is computed from.

Each distinct text is encoded once, those of many segments in one call, and each pair is compared once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError, RerankError
from quitmt.loops.faults import FAULTS, blamed
from quitmt.protocols import Arena, Utility, UtilityTraits, traits_of
from quitmt.rerank.anchors import told
from quitmt.types import Segment

Floats = npt.NDArray[np.float64]
BLOCK = 64
"""Texts compared at a time: enough to be quick, few enough to bound the memory of a comparison."""


class Pairs(Generic[Arena]):
    """One segment's distinct texts, numbered in the order in which they were added."""

    __slots__ = ("arena", "compared", "first", "number", "segment", "utilities")

    def __init__(self, segment: Segment, arena: Arena) -> None:
        self.segment = segment
        self.arena = arena
        self.number: dict[str, int] = {}
        """Distinct text → its number."""
        self.first: list[int] = []
        """Number → the index of the candidate it was added with."""
        self.compared = 0
        """How many have their utilities."""
        self.utilities: Floats = np.empty((0, 0))
        """[reference, hypothesis], by number: a support candidate adds one contiguous row to the sums."""

    def add(self, text: str, index: int) -> int:
        """The number of a text, which is new or not."""
        number = self.number.setdefault(text, len(self.number))
        if number == len(self.first):
            self.first.append(index)
        return number

    @property
    def new(self) -> list[str]:
        """The texts that were added and are not compared yet."""
        return list(self.number)[self.compared :]

    def compare(self, utility: Utility[Arena]) -> None:
        """Compare what is new with itself and all before it; it has been encoded."""
        total = len(self.first)
        if total > len(self.utilities):
            capacity = max(total, 2 * len(self.utilities))
            self.utilities = grown(self.utilities, capacity, capacity)
        for start in range(self.compared, total, BLOCK):
            rows = range(start, min(start + BLOCK, total))
            forward, backward = utility.compare(self.arena, rows, range(rows.stop))
            self._check(rows, forward)
            self._check(rows, backward)
            self.utilities[: rows.stop, rows.start : rows.stop] = forward.T
            self.utilities[rows.start : rows.stop, : rows.stop] = backward
        self.compared = total

    def _check(self, rows: range, utilities: npt.NDArray[Any]) -> None:
        if not np.isfinite(utilities).all():
            row, column = np.argwhere(~np.isfinite(utilities))[0]
            raise RerankError(
                f"segment {self.segment.id}: the utility of {told(self.first[rows[row]], self.first[column])} is "
                f"{utilities[row, column]}, not a finite number"
            )


def compare_new(utility: Utility[Arena], segments: Sequence[Pairs[Arena]]) -> list[QuitmtError | None]:
    """Encode and compare what was added to several segments; for each, what went wrong, if anything."""
    errors = encode(utility, [(pairs.arena, pairs.new) for pairs in segments])
    return [
        _failed(pairs, error) if error else _compared(utility, pairs)
        for pairs, error in zip(segments, errors, strict=True)
    ]


def encode(utility: Utility[Arena], batch: Sequence[tuple[Arena, Sequence[str]]]) -> list[BaseException | None]:
    """Append texts to arenas in one call; for each, what went wrong, if anything. If the call fails, they are encoded
    one by one, so that only the guilty ones fail: unless the utility may have encoded a part, which cannot be taken
    back."""
    try:
        utility.encode([(arena, texts) for arena, texts in batch if texts])
    except FAULTS as error:
        if len(batch) > 1 and traits_of(utility, UtilityTraits).encodes_whole:
            return [encode(utility, [one])[0] if one[1] else None for one in batch]
        return [error] * len(batch)
    return [None] * len(batch)


def _compared(utility: Utility[Arena], pairs: Pairs[Arena]) -> QuitmtError | None:
    try:
        pairs.compare(utility)
    except FAULTS as error:
        return _failed(pairs, error)
    return None


def _failed(pairs: Pairs[Any], error: BaseException) -> QuitmtError:
    if isinstance(error, QuitmtError):
        return error
    return blamed(RerankError, f"segment {pairs.segment.id}: the utility failed", error)


def grown(array: npt.NDArray[Any], *shape: int) -> npt.NDArray[Any]:
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(length) for length in array.shape)] = array
    return larger
