"""MBR among the best candidates by quality estimation.

After n samples, QE keeps the m best anchors and samples (ties: anchors in their order, then the lowest index). MBR
chooses among them as if they were the whole pool: the kept samples judge, duplicates included. A better candidate
replaces another one, so the support changes as the pool grows; each snapshot therefore adds up its sums again, in index
order, from the utilities computed so far.

If no sample is kept, there is no judge, and QE's best anchor wins. Its score is its utility with itself, as for a
single sample: a number on the usual scale that carries no information.

Invariants: a snapshot depends only on the candidates so far, bit for bit if the utility of a pair doesn't depend on
the other texts; only texts that are kept at some snapshot are encoded and compared.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic

import numpy as np

from quitmt.defaults import KEEP
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
from quitmt.rerank.anchors import SAMPLES, Support, best_first, check_first, check_support, divided, field, over_judges
from quitmt.rerank.pairs import Pairs, compare_new
from quitmt.rerank.qe import Quality, ScoredTexts
from quitmt.types import Candidate, Effort, Segment, Snapshot


def check_keep(keep: int | None) -> None:
    if keep is not None and (type(keep) is not int or keep < 1):
        raise UsageError(f"a filter must keep at least 1 candidate, not {keep}")


Cut = list[tuple[int, int]]
"""The candidates that MBR chooses among, as (index, number of the text): anchors, then samples, each in their order. An
anchor whose text is among the kept samples counts as a sample. Without a sample there is only the best anchor."""


class KeptPool(Generic[Arena]):
    """One segment's kept candidates, and the utilities of all that were ever kept."""

    __slots__ = ("_others", "anchors", "kept", "means", "pairs", "scored", "size", "snapshot")

    def __init__(self, segment: Segment, arena: Arena, *, others: bool = False) -> None:
        self.scored = ScoredTexts(segment)
        self.pairs = Pairs(segment, arena)
        self._others = others
        self.size = 0
        self.anchors = 0
        self.kept: list[tuple[float, int, str]] = []
        """(minus the score, precedence in ties, text), best first."""
        self.means: dict[int, tuple[int, float]] = {}
        """Number of a text in the last cut → its index and score."""
        self.snapshot: tuple[Cut, int, float] | None = None
        """The last cut, and its best candidate's index and score."""

    def take_anchors(self, scores: Sequence[float], anchors: Sequence[Candidate], keep: int) -> None:
        check_first(self.pairs.segment, anchors, self.size or self.anchors)
        self.anchors += len(anchors)
        for place, (score, anchor) in enumerate(zip(scores, anchors, strict=True)):
            insort(self.kept, (-score, place - len(anchors), anchor.text))
        del self.kept[keep:]

    def take(self, score: float, text: str, keep: int) -> None:
        insort(self.kept, (-score, self.size, text))
        del self.kept[keep:]
        self.size += 1

    def cut(self) -> Cut:
        """Return the candidates that are kept now, with numbered texts."""
        in_order = sorted((place, text) for _, place, text in self.kept)
        if in_order[-1][0] < 0:
            in_order = [self.kept[0][1:]]
        sampled = {text for place, text in in_order if place >= 0}
        indexed = [
            (place if place >= 0 else -1 - self.anchors - place, text)
            for place, text in in_order
            if place >= 0 or text not in sampled
        ]
        return [(index, self.pairs.add(text, index)) for index, text in indexed]

    def stand(self, size: int, cut: Cut) -> Snapshot:
        if self.snapshot is None or self.snapshot[0] != cut:
            self.snapshot = cut, *self._best(cut)
        return Snapshot(size, *self.snapshot[1:])

    def _best(self, cut: Cut) -> tuple[int, float]:
        """Return the index and score of the best candidate of a cut."""
        numbers = [number for _, number in cut]
        judges = [number for index, number in cut if index >= 0]
        if len(judges) == 0 or (self._others and len(cut) == 1):  # its only judge is itself
            alone = cut[0][0], float(self.pairs.utilities[numbers[0], numbers[0]])
            self.means = {numbers[0]: alone}
            return alone
        places = {number: place for place, number in reversed(list(enumerate(judges)))}
        copies = [places[number] if self._others and index >= 0 else -1 for index, number in cut]
        sums, size = over_judges(self.pairs.utilities[judges][:, numbers], np.array(copies))
        means = divided(sums, size).tolist()
        # Without leave-one-out all texts have the same judges: dividing could round different sums to the same mean.
        best = int(np.argmax(means if self._others else sums))
        self.means = {number: (index, mean) for (index, number), mean in zip(cut[::-1], means[::-1], strict=True)}
        return cut[best][0], means[best]


class Filtered(Generic[Arena]):
    """QE-filtered MBR: ``estimator`` keeps ``keep`` candidates, ``utility`` chooses among them."""

    TRAITS = RerankerTraits("mbr", takes_anchors=True)

    def __init__(
        self, estimator: QualityEstimator, utility: Utility[Arena], *, keep: int = KEEP, support: Support = "all"
    ) -> None:
        check_keep(keep)
        check_support(support, SAMPLES)
        self._quality, self._utility, self._keep, self.support = Quality(estimator), utility, keep, support
        self.scores_with = (estimator, utility)
        needs_source = (
            traits_of(estimator, EstimatorTraits).needs_source or traits_of(utility, UtilityTraits).needs_source
        )
        self.traits = replace(self.TRAITS, needs_source=needs_source)
        self.signature = f"mbr:{utility.signature}|filter:{estimator.signature}|m:{keep}{field(support)}"

    def open(self, segment: Segment) -> KeptPool[Arena]:
        return KeptPool(segment, self._utility.open(segment), others=self.support == "others")

    def ranked(self, state: KeptPool[Arena]) -> list[tuple[int, float]]:
        """Return the kept candidates; the others have no score."""
        return best_first(state.means.values())

    def effort(self, state: KeptPool[Arena]) -> Effort:
        return Effort(state.pairs.encoded**2, (state.size + state.anchors) ** 2, state.pairs.encoded)

    def extend(self, updates: Sequence[Update[KeptPool[Arena]]]) -> list[list[Snapshot] | QuitmtError]:
        found = self._quality.score(
            [(update.state.scored, [*update.anchors, *update.candidates]) for update in updates]
        )
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
        """Return the cut of each snapshot: after each ``stride`` candidates and after the last."""
        state, cuts, anchors = update.state, [], len(update.anchors)
        state.take_anchors(scores[:anchors], update.anchors, self._keep)
        for count, (candidate, score) in enumerate(zip(update.candidates, scores[anchors:], strict=True), start=1):
            state.take(score, candidate.text, self._keep)
            if count % update.stride == 0 or count == len(update.candidates):
                cuts.append((state.size, state.cut()))
        return cuts
