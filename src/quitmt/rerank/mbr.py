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

    __slots__ = ("arena", "number", "order", "segment", "sums", "utilities")

    def __init__(self, segment: Segment, arena: Arena) -> None:
        self.segment = segment
        self.arena = arena
        self.number: dict[str, int] = {}
        """Distinct text → its number."""
        self.order: list[int] = []
        """Candidate index → the number of its text."""
        self.utilities: Floats = np.empty((0, 0))
        """[reference, hypothesis], by number: a support candidate adds one contiguous row to the sums."""
        self.sums: Floats = np.empty(0)
        """Of each distinct text's utilities over the support."""

    def add_texts(self, candidates: Sequence[Candidate]) -> list[str]:
        """Append the candidates; the texts that were not there before."""
        before = len(self.number)
        for candidate in candidates:
            self.order.append(self.number.setdefault(candidate.text, len(self.number)))
        return list(self.number)[before:] if len(self.number) > before else []

    def make_room(self) -> None:
        total = len(self.number)
        if total > len(self.sums):
            capacity = max(total, 2 * len(self.sums))
            self.utilities = _grown(self.utilities, (capacity, capacity))
            self.sums = _grown(self.sums, (capacity,))

    def add_utilities(self, rows: range, forward: Floats, backward: Floats) -> None:
        """Take in the comparisons of some texts with themselves and all before them."""
        self.utilities[: rows.stop, rows.start : rows.stop] = forward.T
        self.utilities[rows.start : rows.stop, : rows.stop] = backward

    def catch_up(self, known: int, size: int) -> None:
        """The sums of new texts over the ``size`` candidates that were there before them."""
        total = len(self.number)
        if size and total > known:
            rows = self.utilities[self.order[:size], known:total]
            # cumsum, because sum() adds pairwise: not in index order.
            self.sums[known:total] = np.cumsum(rows, axis=0)[-1]

    def standings(self, start: int, stride: int) -> list[Standing]:
        """Walk the candidates from ``start`` on; a standing after each ``stride`` of them and after the last."""
        total = len(self.number)
        sums = self.sums[:total]
        appeared = max(self.order[:start], default=-1) + 1
        found = []
        for index in range(start, len(self.order)):
            number = self.order[index]
            sums += self.utilities[number, :total]
            appeared = max(appeared, number + 1)
            if (index + 1 - start) % stride == 0 or index + 1 == len(self.order):
                best = int(np.argmax(sums[:appeared]))
                found.append(Standing(index + 1, self.order.index(best), float(sums[best] / (index + 1))))
        return found


class Mbr(Generic[Arena]):
    """Exact MBR with any utility."""

    def __init__(self, utility: Utility[Arena]) -> None:
        self.utility = utility
        self.signature = f"mbr:{utility.signature}"

    def open(self, segment: Segment) -> Pool[Arena]:
        return Pool(segment, self.utility.open(segment))

    def extend(self, updates: Sequence[Update[Pool[Arena]]]) -> list[list[Standing] | QuitmtError]:
        sizes = [len(update.state.order) for update in updates]
        news = [update.state.add_texts(update.candidates) for update in updates]
        self.utility.encode([(update.state.arena, new) for update, new in zip(updates, news, strict=True) if new])
        return [
            self._extend_one(update, size, len(new)) for update, size, new in zip(updates, sizes, news, strict=True)
        ]

    def _extend_one(self, update: Update[Pool[Arena]], size: int, new: int) -> list[Standing] | QuitmtError:
        pool = update.state
        total = len(pool.number)
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
        except QuitmtError as error:
            return error
        return pool.standings(size, update.stride)


def _check(pool: Pool[Any], rows: range, utilities: npt.NDArray[Any]) -> None:
    if not np.isfinite(utilities).all():
        row, column = np.argwhere(~np.isfinite(utilities))[0]
        first, second = pool.order.index(rows[row]), pool.order.index(int(column))
        raise RerankError(
            f"segment {pool.segment.id}: the utility of candidates {first} and {second} is {utilities[row, column]}, "
            "not a finite number"
        )


def _grown(array: Floats, shape: tuple[int, ...]) -> Floats:
    larger = np.zeros(shape)
    larger[tuple(slice(length) for length in array.shape)] = array
    return larger
