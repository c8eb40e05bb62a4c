"""Accelerated MBR: the reranker shared by all methods that compute fewer utilities.

A method estimates how good each distinct text among a segment's first n candidates is; the best estimate wins (ties:
the lowest index). At each snapshot it runs on those n candidates only, with the segment's own random stream, and
reuses the utilities computed so far. So the winner after n candidates doesn't depend on the steps in which the pool
grew.

Anchors and support are those of exact MBR (``quitmt.rerank.anchors``); each method's module says how it treats them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol

import numpy as np

from quitmt.errors import QuitmtError
from quitmt.loops.faults import FAULTS
from quitmt.protocols import Arena, RerankerTraits, Update, Utility, UtilityTraits, traits_of
from quitmt.rerank.anchors import SAMPLES, Support, best_first, best_of, check_support, field
from quitmt.rerank.cells import Cells, Floats, encode_new
from quitmt.rerank.pairs import failed
from quitmt.types import Effort, Segment, Snapshot


class Method(Protocol):
    """Estimates expected utilities."""

    @property
    def signature(self) -> str: ...

    def check(self, utility: Utility[Any]) -> None:
        """Refuse a utility that lacks what the method needs."""
        ...

    def estimate(self, cells: Cells[Any], size: int) -> Floats:
        """Estimate the expected utility of each distinct text of the anchors and the first ``size`` samples; −inf for
        texts that are ruled out or have no judge."""
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
        """Return the method's last estimates without the candidates that it ruled out."""
        return best_first(state.ranking)

    def effort(self, state: Cells[Arena]) -> Effort:
        return state.effort

    def extend(self, updates: Sequence[Update[Cells[Arena]]]) -> list[list[Snapshot] | QuitmtError]:
        starts = [update.state.size for update in updates]
        for update in updates:
            update.state.extend(update.candidates, update.anchors)
        if errors := encode_new(self.utility, [update.state for update in updates]):
            return [*errors]
        return [self._walk(update, start) for update, start in zip(updates, starts, strict=True)]

    def _walk(self, update: Update[Cells[Arena]], start: int) -> list[Snapshot] | QuitmtError:
        cells = update.state
        ends = [*range(start + update.stride, cells.size, update.stride), cells.size] if cells.size > start else []
        try:
            return [self._stand(cells, size) for size in ends]
        except FAULTS as error:
            return failed(cells.segment, error)

    def _stand(self, cells: Cells[Arena], size: int) -> Snapshot:
        estimates = self.method.estimate(cells, size)
        cells.ranking = list(zip(cells.index(size).tolist(), estimates.tolist(), strict=True))
        best = best_of(estimates, cells.precedence(size))
        score = float(estimates[best])
        if cells.others and np.isneginf(score):  # a single sample, without another anchor
            score = float(cells.pairs(np.array([best]), np.array([best]))[0])
        return Snapshot(size, int(cells.index(size)[best]), score)
