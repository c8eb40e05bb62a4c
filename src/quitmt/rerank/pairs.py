"""A segment's distinct texts, and the utilities of all their pairs: the basis of every kind of MBR.

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
from quitmt.rerank.anchors import named
from quitmt.types import Segment

Floats = npt.NDArray[np.float64]
BLOCK = 64
"""Texts per comparison: more are hardly faster and take more memory."""


class Texts(Generic[Arena]):
    """One segment's distinct texts, numbered in the order in which they were added."""

    __slots__ = ("arena", "encoded", "first", "number", "segment")

    def __init__(self, segment: Segment, arena: Arena) -> None:
        self.segment = segment
        self.arena = arena
        self.number: dict[str, int] = {}
        """Distinct text → its number."""
        self.first: list[int] = []
        """Number → index of the candidate that introduced the text."""
        self.encoded = 0
        """How many texts are encoded; ``Pairs`` has compared them too."""

    def add(self, text: str, index: int) -> int:
        """Return a text's number; a new text gets the next one."""
        number = self.number.setdefault(text, len(self.number))
        if number == len(self.first):
            self.first.append(index)
        return number

    @property
    def new(self) -> list[str]:
        """Texts that are not encoded yet."""
        return list(self.number)[self.encoded :]

    def check(self, utilities: npt.NDArray[Any], rows: Any, columns: Any) -> None:
        """Refuse utilities that are not finite; ``rows`` and ``columns`` broadcast to the numbers of their texts."""
        if not np.isfinite(utilities).all():
            place = tuple(np.argwhere(~np.isfinite(utilities))[0])
            row, column = (int(np.broadcast_to(numbers, utilities.shape)[place]) for numbers in (rows, columns))
            raise RerankError(
                f"segment {self.segment.id}: the utility of {named(self.first[row], self.first[column])} is "
                f"{utilities[place]}, not a finite number"
            )


class Pairs(Texts[Arena]):
    """One segment's distinct texts, all compared with each other."""

    __slots__ = ("utilities",)

    def __init__(self, segment: Segment, arena: Arena) -> None:
        super().__init__(segment, arena)
        self.utilities: Floats = np.empty((0, 0))
        """[reference, hypothesis], by number: each judge adds one contiguous row to the sums."""

    def compare(self, utility: Utility[Arena]) -> None:
        """Compare the new texts, which are encoded, with each other and with all earlier ones."""
        total = len(self.first)
        if total > len(self.utilities):
            capacity = max(total, 2 * len(self.utilities))
            self.utilities = grown(self.utilities, capacity, capacity)
        for start in range(self.encoded, total, BLOCK):
            rows = range(start, min(start + BLOCK, total))
            forward, backward = utility.compare(self.arena, rows, range(rows.stop))
            for found in (forward, backward):
                self.check(found, np.array(rows)[:, None], np.arange(rows.stop))
            self.utilities[: rows.stop, rows.start : rows.stop] = forward.T
            self.utilities[rows.start : rows.stop, : rows.stop] = backward
        self.encoded = total


def compare_new(utility: Utility[Arena], segments: Sequence[Pairs[Arena]]) -> list[QuitmtError | None]:
    """Encode and compare the new texts of several segments; return each segment's error, if any."""
    errors = encode(utility, [(pairs.arena, pairs.new) for pairs in segments])
    return [
        failed(pairs.segment, error) if error else _compared(utility, pairs)
        for pairs, error in zip(segments, errors, strict=True)
    ]


def encode(utility: Utility[Arena], batch: Sequence[tuple[Arena, Sequence[str]]]) -> list[BaseException | None]:
    """Append texts to arenas in one call; return each arena's error, if any. If the call fails, encode them one by one,
    so that only the faulty ones fail; not if the utility may have encoded a part, since that can't be undone."""
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
        return failed(pairs.segment, error)
    return None


def failed(segment: Segment, error: BaseException) -> QuitmtError:
    """Turn an error of a utility into the segment's."""
    if isinstance(error, QuitmtError):
        return error
    return blamed(RerankError, f"segment {segment.id}: the utility failed", error)


def grown(array: npt.NDArray[Any], *shape: int) -> npt.NDArray[Any]:
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(length) for length in array.shape)] = array
    return larger
