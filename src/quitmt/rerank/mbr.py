"""Minimum Bayes risk: the candidate that the others agree with most (METHOD.md).

r(h) = mean over the support of u(h, h'), and the support is the pool itself, the candidate included. Exact and
incremental: only new pairs are compared, identical candidates are compared once and counted. Sums run over the
candidates in index order, one by one, so a score does not depend on the steps in which the pool grew, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError, RerankError
from quitmt.protocols import Arena, Update, Utility
from quitmt.types import Candidate, Segment, Standing

Floats = npt.NDArray[np.float64]
BLOCK = 64
"""Texts compared at a time: enough to be quick, few enough to bound the memory of a comparison."""


class Pool(Generic[Arena]):
    """One segment's candidates so far. Distinct texts are numbered by first appearance."""

    __slots__ = ("arena", "first", "number", "order", "segment", "size", "sums", "utilities")

    def __init__(self, segment: Segment, arena: Arena) -> None:
        self.segment = segment
        self.arena = arena
        self.size = 0
        self.number: dict[str, int] = {}
        """Distinct text → its number."""
        self.first: list[int] = []
        """Number → the index of the first candidate that has it."""
        self.order: npt.NDArray[np.int64] = np.empty(0, np.int64)
        """Candidate index → the number of its text, for the first ``size``."""
        self.utilities: Floats = np.empty((0, 0))
        """[reference, hypothesis], by number: a support candidate adds one contiguous row to the sums."""
        self.sums: Floats = np.empty(0)
        """Of each distinct text's utilities over the support."""

    def add_texts(self, candidates: Sequence[Candidate]) -> list[str]:
        """Append the candidates; the texts that were not there before."""
        new, numbers = [], []
        for index, candidate in enumerate(candidates, start=self.size):
            number = self.number.setdefault(candidate.text, len(self.number))
            if number == len(self.first):
                self.first.append(index)
                new.append(candidate.text)
            numbers.append(number)
        stop = self.size + len(numbers)
        if stop > len(self.order):
            self.order = _grown(self.order, max(stop, 2 * len(self.order)))
        self.order[self.size : stop] = numbers
        self.size = stop
        return new

    def make_room(self) -> None:
        total = len(self.first)
        if total > len(self.sums):
            capacity = max(total, 2 * len(self.sums))
            self.utilities = _grown(self.utilities, capacity, capacity)
            self.sums = _grown(self.sums, capacity)

    def add_utilities(self, rows: range, forward: Floats, backward: Floats) -> None:
        """Take in the comparisons of some texts with themselves and all before them."""
        self.utilities[: rows.stop, rows.start : rows.stop] = forward.T
        self.utilities[rows.start : rows.stop, : rows.stop] = backward

    def catch_up(self, known: int, size: int) -> None:
        """The sums of new texts over the ``size`` candidates that were there before them."""
        total = len(self.first)
        if size and total > known:
            rows = self.utilities[self.order[:size], known:total]
            # cumsum, because sum() adds pairwise: not in index order.
            self.sums[known:total] = rows.cumsum(axis=0)[-1]

    def standings(self, known: int, start: int, stride: int) -> list[Standing]:
        """Walk the candidates from ``start`` on; a standing after each ``stride`` of them and after the last."""
        total, appeared = len(self.first), known
        sums, found = self.sums[:total], []
        for index, number in enumerate(self.order[start : self.size].tolist(), start=start):
            sums += self.utilities[number, :total]
            appeared = max(appeared, number + 1)
            size = index + 1
            if (size - start) % stride == 0 or size == self.size:
                best = int(sums[:appeared].argmax())
                found.append(Standing(size, self.first[best], float(sums[best] / size)))
        return found


class Mbr(Generic[Arena]):
    """Exact MBR with any utility."""

    def __init__(self, utility: Utility[Arena]) -> None:
        self.utility = utility
        self.signature = f"mbr:{utility.signature}"

    def open(self, segment: Segment) -> Pool[Arena]:
        return Pool(segment, self.utility.open(segment))

    def extend(self, updates: Sequence[Update[Pool[Arena]]]) -> list[list[Standing] | QuitmtError]:
        sizes = [update.state.size for update in updates]
        news = [update.state.add_texts(update.candidates) for update in updates]
        try:
            self.utility.encode([(update.state.arena, new) for update, new in zip(updates, news, strict=True) if new])
        except Exception as error:  # whose fault it was cannot be told; what is encoded cannot be taken back
            return [_failed(update.state, error) for update in updates]
        return [
            self._extend_one(update, size, len(new)) for update, size, new in zip(updates, sizes, news, strict=True)
        ]

    def _extend_one(self, update: Update[Pool[Arena]], size: int, new: int) -> list[Standing] | QuitmtError:
        pool = update.state
        total = len(pool.first)
        known = total - new
        try:
            pool.make_room()
            for start in range(known, total, BLOCK):
                rows = range(start, min(start + BLOCK, total))
                forward, backward = self.utility.compare(pool.arena, rows, range(rows.stop))
                _check(pool, rows, forward)
                _check(pool, rows, backward)
                pool.add_utilities(rows, forward, backward)
            pool.catch_up(known, size)
        except Exception as error:
            return _failed(pool, error)
        return pool.standings(known, size, update.stride)


def _failed(pool: Pool[Any], error: Exception) -> QuitmtError:
    if isinstance(error, QuitmtError):
        return error
    return RerankError(f"segment {pool.segment.id}: the utility failed: {type(error).__name__}: {error}")


def _check(pool: Pool[Any], rows: range, utilities: npt.NDArray[Any]) -> None:
    if not np.isfinite(utilities).all():
        row, column = np.argwhere(~np.isfinite(utilities))[0]
        first, second = pool.first[rows[row]], pool.first[column]
        raise RerankError(
            f"segment {pool.segment.id}: the utility of candidates {first} and {second} is {utilities[row, column]}, "
            "not a finite number"
        )


def _grown(array: npt.NDArray[Any], *shape: int) -> npt.NDArray[Any]:
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(length) for length in array.shape)] = array
    return larger
