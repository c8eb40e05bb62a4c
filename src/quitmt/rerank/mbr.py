"""Minimum Bayes risk: the candidate that the others agree with most (docs/method.md, "Reranking").

r(h) = mean over the support of u(h, h'), where ``quitmt.rerank.anchors`` defines the support. A single sample has no
judge but itself, so if such a pool also has an anchor, the anchor wins.

Only new pairs are compared, and identical candidates are compared once and counted. Sums run over the samples one by
one in index order, so scores are bitwise the same, whether the pool grew in small steps or in large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Generic

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError
from quitmt.protocols import Arena, RerankerTraits, Update, Utility, UtilityTraits, traits_of
from quitmt.rerank.anchors import SUPPORTS, VOTES, Support, best_first, check_first, check_support, divided, field
from quitmt.rerank.pairs import Floats, Pairs, compare_new, grown
from quitmt.rerank.sums import add_up, leader, rivals, sample_scores, walk
from quitmt.types import Candidate, Effort, Segment, Snapshot

__all__ = ["SUPPORTS", "Mbr", "Pool", "Support"]


class Pool(Generic[Arena]):
    """One segment's candidates so far."""

    __slots__ = ("_others", "_trusts", "anchors", "index", "order", "pairs", "size", "summed", "sums", "walked")

    def __init__(self, segment: Segment, arena: Arena, support: Support) -> None:
        self.pairs = Pairs(segment, arena)
        self._others = support != "all"
        self._trusts = support == "anchor"
        self.size = 0
        self.anchors: list[int] = []
        """The number of each anchor's text."""
        self.index: npt.NDArray[np.int64] = np.empty(0, np.int64)
        """Text number → candidate index: its first sample, or its anchor if none of its samples has been walked yet."""
        self.order: npt.NDArray[np.int64] = np.empty(0, np.int64)
        """Candidate index → text number. Only the first ``size`` entries are in use."""
        self.sums: Floats = np.empty(0)
        """Sum of each distinct text's utilities over its judges among the first ``walked`` samples."""
        self.walked = 0
        self.summed = 0
        """How many texts have sums."""

    def add(self, candidates: Sequence[Candidate], anchors: Sequence[Candidate] = ()) -> None:
        check_first(self.pairs.segment, anchors, self.size or self.anchors)
        self.anchors += [self.pairs.add(one.text, -1 - place) for place, one in enumerate(anchors)]
        numbers = [self.pairs.add(one.text, index) for index, one in enumerate(candidates, start=self.size)]
        stop = self.size + len(numbers)
        if stop > len(self.order):
            self.order = grown(self.order, max(stop, 2 * len(self.order)))
        self.order[self.size : stop] = numbers
        self.size = stop

    @property
    def _votes(self) -> float:
        """Votes of the first anchor, which is text 0, because anchors come first."""
        return float(VOTES) if self._trusts and self.anchors else 0.0

    def snapshots(self, stride: int) -> list[Snapshot]:
        """Walk the new candidates; return a snapshot after each ``stride`` of them and after the last."""
        total = len(self.pairs.first)
        appeared = max(self.summed, max(self.anchors, default=-1) + 1)
        self._catch_up()
        utilities, found = self.pairs.utilities, list[Snapshot]()
        while self.walked < self.size:
            start, self.walked = self.walked, min(self.walked + stride, self.size)
            order = self.order[: self.walked]
            appeared = walk(utilities, order, start, total, appeared, self._others, self.index, self.sums)
            best, score = leader(self.sums, self.index, appeared, self.walked, self._others, self._votes)
            if score == -np.inf:  # a single sample, and no anchor with another text
                score = float(utilities[best, best])
            compared = partial(rivals, utilities, order, best, appeared, self._others, self._votes)
            scores = partial(sample_scores, utilities, order, appeared, self._others, self._votes)
            found.append(Snapshot(self.walked, int(self.index[best]), score, compared, scores))
        return found

    def scores(self, size: int, texts: int) -> Floats:
        """Return the scores of the first ``texts`` texts after ``size`` samples; a text without a judge gets −inf."""
        judges = np.asarray(size - (self._others & (self.index[:texts] >= 0)) + self._votes, np.float64)
        return divided(self.sums[:texts], judges)

    def _catch_up(self) -> None:
        """Sum the utilities of new texts over the samples that came before them."""
        total, known = len(self.pairs.first), self.summed
        if total > len(self.sums):
            capacity = max(total, 2 * len(self.sums))
            self.sums, self.index = grown(self.sums, capacity), grown(self.index, capacity)
        self.index[known:total] = self.pairs.first[known:]
        if (self.walked or self._votes) and total > known:
            add_up(self.pairs.utilities, self.order[: self.walked], known, total, self._votes, self.sums)
        self.summed = total


class Mbr(Generic[Arena]):
    """Exact MBR with any utility."""

    def __init__(self, utility: Utility[Arena], support: Support = "all") -> None:
        check_support(support)
        self.utility, self.support, self.scores_with = utility, support, (utility,)
        traits = traits_of(utility, UtilityTraits)
        self.traits = self.traits_with(support, needs_source=traits.needs_source, votes=traits.votes)
        self.apart = traits.apart
        self.signature = f"mbr:{utility.signature}{field(support)}"

    @staticmethod
    def traits_with(support: Support, *, needs_source: bool, votes: bool) -> RerankerTraits:
        """The traits for a utility, which are known before the utility is loaded."""
        return RerankerTraits(
            "mbr",
            needs_source=needs_source,
            gives_rivals=True,
            takes_anchors=True,
            judges_itself=support == "all",
            gives_scores=True,
            votes=votes and support == "all",
        )

    def open(self, segment: Segment) -> Pool[Arena]:
        return Pool(segment, self.utility.open(segment), self.support)

    def effort(self, state: Pool[Arena]) -> Effort:
        candidates = state.size + len(state.anchors)
        return Effort(state.pairs.encoded**2, candidates**2, state.pairs.encoded)

    def ranked(self, state: Pool[Arena]) -> list[tuple[int, float]]:
        if not state.walked:
            return []
        scores = state.scores(state.walked, state.summed).tolist()
        return best_first(zip(state.index[: state.summed].tolist(), scores, strict=True))

    def extend(self, updates: Sequence[Update[Pool[Arena]]]) -> list[list[Snapshot] | QuitmtError]:
        for update in updates:
            update.state.add(update.candidates, update.anchors)
        errors = compare_new(self.utility, [update.state.pairs for update in updates])
        return [error or update.state.snapshots(update.stride) for update, error in zip(updates, errors, strict=True)]
