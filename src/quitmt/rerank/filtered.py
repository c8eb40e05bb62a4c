"""MBR among the candidates that a quality estimator likes best.

After n candidates the m best by QE are kept (ties: the lower index), and MBR chooses among them: hypotheses and support
are the kept ones, duplicates counted. A better candidate takes another one's place, so the support changes as the pool
grows; sums are therefore taken anew, in index order, from utilities that are kept.

Invariants: a standing is that of the method on those candidates alone, bit for bit if the utility's numbers do not
depend on the texts around; only texts that are kept at some standing are ever encoded and compared.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import Generic

from quitmt.errors import QuitmtError, UsageError
from quitmt.protocols import (
    Arena,
    EstimatorTraits,
    QualityEstimator,
    RerankerTraits,
    Update,
    Utility,
    UtilityTraits,
    traits_of,
)
from quitmt.rerank.pairs import Pairs, compare_new
from quitmt.rerank.quality import Quality, Scored
from quitmt.rerank.ranked import best_first
from quitmt.types import Effort, Segment, Standing

KEEP = 64


def check_keep(keep: int | None) -> None:
    if keep is not None and (type(keep) is not int or keep < 1):
        raise UsageError(f"a filter must keep at least 1 candidate, not {keep}")


Cut = list[tuple[int, int]]
"""The kept candidates in index order: (index, number of its text)."""


class KeptPool(Generic[Arena]):
    """One segment's candidates so far: those that are kept, and the utilities of all that were."""

    __slots__ = ("kept", "pairs", "scored", "size", "standing")

    def __init__(self, segment: Segment, arena: Arena) -> None:
        self.scored = Scored(segment)
        self.pairs = Pairs(segment, arena)
        self.size = 0
        self.kept: list[tuple[float, int, str]] = []
        """(minus the score, index, text), the best first."""
        self.standing: tuple[Cut, int, float] | None = None
        """The last cut, and what MBR said of it: the best index and its score."""

    def take(self, score: float, text: str, keep: int) -> None:
        insort(self.kept, (-score, self.size, text))
        del self.kept[keep:]
        self.size += 1

    def cut(self) -> Cut:
        """What is kept now; its texts are numbered."""
        in_order = sorted((index, text) for _, index, text in self.kept)
        return [(index, self.pairs.add(text, index)) for index, text in in_order]

    def stand(self, size: int, cut: Cut) -> Standing:
        if self.standing is None or self.standing[0] != cut:
            numbers = [number for _, number in cut]
            # cumsum, because sum() adds pairwise: not in index order.
            sums = self.pairs.utilities[numbers][:, numbers].cumsum(axis=0)[-1]
            best = int(sums.argmax())
            self.standing = cut, cut[best][0], float(sums[best] / len(cut))
        return Standing(size, *self.standing[1:])


class Filtered(Generic[Arena]):
    """QE-filtered MBR: ``estimator`` keeps ``keep`` candidates, ``utility`` chooses among them."""

    def __init__(self, estimator: QualityEstimator, utility: Utility[Arena], *, keep: int = KEEP) -> None:
        check_keep(keep)
        self._quality, self._utility, self._keep = Quality(estimator), utility, keep
        needs_source = (
            traits_of(estimator, EstimatorTraits).needs_source or traits_of(utility, UtilityTraits).needs_source
        )
        self.traits = RerankerTraits("mbr", needs_source=needs_source)
        self.signature = f"mbr:{utility.signature}|filter:{estimator.signature}|m:{keep}"

    def open(self, segment: Segment) -> KeptPool[Arena]:
        return KeptPool(segment, self._utility.open(segment))

    def ranked(self, state: KeptPool[Arena]) -> list[tuple[int, float]]:
        """Of those that are kept: the others have no score."""
        if state.standing is None:
            return []
        cut = state.standing[0]
        numbers = [number for _, number in cut]
        means = (state.pairs.utilities[numbers][:, numbers].cumsum(axis=0)[-1] / len(cut)).tolist()
        first: dict[int, tuple[int, float]] = {}
        for (index, number), mean in zip(cut, means, strict=True):
            first.setdefault(number, (index, mean))
        return best_first(first.values())

    def effort(self, state: KeptPool[Arena]) -> Effort:
        return Effort(state.pairs.compared**2, state.size**2, state.pairs.compared)

    def extend(self, updates: Sequence[Update[KeptPool[Arena]]]) -> list[list[Standing] | QuitmtError]:
        found = self._quality.score([(update.state.scored, update.candidates) for update in updates])
        failed = {place: scores for place, scores in enumerate(found) if isinstance(scores, QuitmtError)}
        cuts = {
            place: self._cuts(updates[place], scores)
            for place, scores in enumerate(found)
            if not isinstance(scores, QuitmtError)
        }
        compared = compare_new(self._utility, [updates[place].state.pairs for place in cuts])
        failed |= {place: error for place, error in zip(cuts, compared, strict=True) if error is not None}
        return [
            failed.get(place) or [update.state.stand(size, cut) for size, cut in cuts[place]]
            for place, update in enumerate(updates)
        ]

    def _cuts(self, update: Update[KeptPool[Arena]], scores: list[float]) -> list[tuple[int, Cut]]:
        """What is kept at each standing: after each ``stride`` candidates and after the last."""
        state, cuts = update.state, []
        for count, (candidate, score) in enumerate(zip(update.candidates, scores, strict=True), start=1):
            state.take(score, candidate.text, self._keep)
            if count % update.stride == 0 or count == len(scores):
                cuts.append((state.size, state.cut()))
        return cuts
