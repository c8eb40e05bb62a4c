"""MBR by methods that compute fewer utilities: the reranker they share.

A method looks at the first n candidates of a segment and says how good each distinct text of them is, by fewer
utilities than all; the winner is the best of them (ties: the lowest index). At each snapshot it is run on those n
alone, with the segment's own random stream, and utilities that were computed before are not computed again: the winner
after n candidates is that of the method on those n, whatever the steps in which the pool grew.

Anchors and support are those of exact MBR (``quitmt.rerank.anchors``); what a method makes of them is in its module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol

import numpy as np

from quitmt.errors import QuitmtError
from quitmt.loops.faults import FAULTS
from quitmt.protocols import Arena, RerankerTraits, Update, Utility, UtilityTraits, traits_of
from quitmt.rerank.anchors import SAMPLES, Support, best_of, check_support, field
from quitmt.rerank.cells import Cells, Floats, encode_new, failed
from quitmt.rerank.ranked import best_first
from quitmt.types import Effort, Segment, Snapshot


class Method(Protocol):
    """A way of estimating expected utilities."""

    @property
    def signature(self) -> str: ...

    def check(self, utility: Utility[Any]) -> None:
        """Refuse a utility that lacks what the method needs."""
        ...

    def estimate(self, cells: Cells[Any], size: int) -> Floats:
        """The expected utility of each distinct text of the anchors and the first ``size`` samples; −inf for those that
        are ruled out, or that nobody judges."""
        ...


class Accelerated(Generic[Arena]):
    """MBR with a utility, by a method, which runs again for each snapshot."""

    TRAITS = RerankerTraits("mbr", snapshots_cost=True, segments_at_once=4, takes_anchors=True)

    def __init__(self, utility: Utility[Arena], method: Method, support: Support = "all") -> None:
        check_support(support, SAMPLES)
        method.check(utility)
        self.utility, self.method, self.support, self.scores_with = utility, method, support, (utility,)
        self.traits = replace(self.TRAITS, needs_source=traits_of(utility, UtilityTraits).needs_source)
        self.signature = f"mbr:{utility.signature}|{method.signature}{field(support)}"

    def open(self, segment: Segment) -> Cells[Arena]:
        return Cells(segment, self.utility, others=self.support == "others")

    def ranked(self, state: Cells[Arena]) -> list[tuple[int, float]]:
        """As the method estimated them, which may have ruled some out."""
        return best_first(state.ranking)

    def effort(self, state: Cells[Arena]) -> Effort:
        return state.effort

    def extend(self, updates: Sequence[Update[Cells[Arena]]]) -> list[list[Snapshot] | QuitmtError]:
        starts = [update.state.size for update in updates]
        for update in updates:
            update.state.add(update.candidates, update.anchors)
        if errors := encode_new(self.utility, [update.state for update in updates]):
            return [*errors]
        return [self._walk(update, start) for update, start in zip(updates, starts, strict=True)]

    def _walk(self, update: Update[Cells[Arena]], start: int) -> list[Snapshot] | QuitmtError:
        cells = update.state
        ends = [*range(start + update.stride, cells.size, update.stride), cells.size] if cells.size > start else []
        try:
            return [self._stand(cells, size) for size in ends]
        except FAULTS as error:
            return failed(cells, error)

    def _stand(self, cells: Cells[Arena], size: int) -> Snapshot:
        estimates = self.method.estimate(cells, size)
        cells.ranking = list(zip(cells.index(size).tolist(), estimates.tolist(), strict=True))
        best = best_of(estimates, cells.precedence(size))
        score = float(estimates[best])
        if cells.others and np.isneginf(score):  # a single sample, and no anchor but itself
            score = float(cells.pairs(np.array([best]), np.array([best]))[0])
        return Snapshot(size, int(cells.index(size)[best]), score)
