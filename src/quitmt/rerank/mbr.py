"""Minimum Bayes risk: the candidate that the others agree with most (docs/method.md, "Reranking").

r(h) = mean over the support of u(h, h'), and the support is the pool itself, the candidate included. Exact and
incremental: only new pairs are compared, identical candidates are compared once and counted. Sums run over the
candidates in index order, one by one, so a score does not depend on the steps in which the pool grew, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Generic

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError
from quitmt.protocols import Arena, RerankerTraits, Update, Utility, UtilityTraits, traits_of
from quitmt.rerank.pairs import Floats, Pairs, compare_new, grown
from quitmt.rerank.ranked import best_first
from quitmt.rerank.rivals import rivals
from quitmt.types import Candidate, Effort, Segment, Standing


class Pool(Generic[Arena]):
    """One segment's candidates so far."""

    __slots__ = ("order", "pairs", "size", "summed", "sums", "walked")

    def __init__(self, segment: Segment, arena: Arena) -> None:
        self.pairs = Pairs(segment, arena)
        self.size = 0
        self.order: npt.NDArray[np.int64] = np.empty(0, np.int64)
        """Candidate index → the number of its text, for the first ``size``."""
        self.sums: Floats = np.empty(0)
        """Of each distinct text's utilities over the support: the first ``walked`` candidates."""
        self.walked = 0
        self.summed = 0
        """How many texts have their sums."""

    def add(self, candidates: Sequence[Candidate]) -> None:
        numbers = [self.pairs.add(one.text, index) for index, one in enumerate(candidates, start=self.size)]
        stop = self.size + len(numbers)
        if stop > len(self.order):
            self.order = grown(self.order, max(stop, 2 * len(self.order)))
        self.order[self.size : stop] = numbers
        self.size = stop

    def standings(self, stride: int) -> list[Standing]:
        """Walk the candidates that were added; a standing after each ``stride`` of them and after the last."""
        start, appeared, total = self.walked, self.summed, len(self.pairs.first)
        self._catch_up()
        sums, found = self.sums[:total], []
        for index, number in enumerate(self.order[start : self.size].tolist(), start=start):
            sums += self.pairs.utilities[number, :total]
            appeared = max(appeared, number + 1)
            size = index + 1
            if (size - start) % stride == 0 or size == self.size:
                best = int(sums[:appeared].argmax())
                told = partial(rivals, self.pairs.utilities, self.order[:size], best, appeared)
                found.append(Standing(size, self.pairs.first[best], float(sums[best] / size), told))
        self.walked = self.size
        return found

    def _catch_up(self) -> None:
        """The sums of new texts over the candidates that were there before them."""
        total, known = len(self.pairs.first), self.summed
        if total > len(self.sums):
            self.sums = grown(self.sums, max(total, 2 * len(self.sums)))
        if self.walked and total > known:
            rows = self.pairs.utilities[self.order[: self.walked], known:total]
            # cumsum, because sum() adds pairwise: not in index order.
            self.sums[known:total] = rows.cumsum(axis=0)[-1]
        self.summed = total


class Mbr(Generic[Arena]):
    """Exact MBR with any utility."""

    def __init__(self, utility: Utility[Arena]) -> None:
        self.utility = utility
        needs_source = traits_of(utility, UtilityTraits).needs_source
        self.traits = RerankerTraits("mbr", needs_source=needs_source, gives_rivals=True)
        self.signature = f"mbr:{utility.signature}"

    def open(self, segment: Segment) -> Pool[Arena]:
        return Pool(segment, self.utility.open(segment))

    def effort(self, state: Pool[Arena]) -> Effort:
        return Effort(state.pairs.compared**2, state.size**2, state.pairs.compared)

    def ranked(self, state: Pool[Arena]) -> list[tuple[int, float]]:
        scores = (state.sums[: state.summed] / max(1, state.walked)).tolist()
        return best_first(zip(state.pairs.first, scores, strict=False))

    def extend(self, updates: Sequence[Update[Pool[Arena]]]) -> list[list[Standing] | QuitmtError]:
        for update in updates:
            update.state.add(update.candidates)
        errors = compare_new(self.utility, [update.state.pairs for update in updates])
        return [error or update.state.standings(update.stride) for update, error in zip(updates, errors, strict=True)]
