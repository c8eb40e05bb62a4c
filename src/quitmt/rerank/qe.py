"""QE reranking: choose the candidate with the best score of a reference-free metric.

A score never depends on the other candidates, so the best score is a running maximum, which starts with the anchors.
New candidates of many segments are scored in one call, each distinct text of a segment once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError, RerankError
from quitmt.loops.faults import FAULTS, blamed
from quitmt.metrics.combined import Pair, score_all
from quitmt.protocols import EstimatorTraits, QualityEstimator, RerankerTraits, Update, traits_of
from quitmt.rerank.anchors import best_first, check_first
from quitmt.types import Candidate, Segment, Snapshot


class ScoredTexts:
    """One segment, and the scores of its distinct texts so far."""

    __slots__ = ("scores", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.scores: dict[str, float] = {}


class Quality:
    """Scores new candidates by a quality estimator as pools grow."""

    def __init__(self, estimator: QualityEstimator) -> None:
        self._estimator = estimator
        self._distinct = traits_of(estimator, EstimatorTraits).distinct

    def score(self, batch: Sequence[tuple[ScoredTexts, Sequence[Candidate]]]) -> list[list[float] | QuitmtError]:
        """Return the scores of each segment's new candidates in their order, or its error."""
        wanted = [self._unscored(scored, candidates) for scored, candidates in batch]
        found = self._score(wanted)
        return [
            scores if isinstance(scores, QuitmtError) else self._take_in(scored, candidates, pairs, scores.tolist())
            for (scored, candidates), pairs, scores in zip(batch, wanted, found, strict=True)
        ]

    def _unscored(self, scored: ScoredTexts, candidates: Sequence[Candidate]) -> list[Pair]:
        if not self._distinct:
            return [(scored.segment, candidate) for candidate in candidates]
        new: dict[str, Candidate] = {}
        for candidate in candidates:
            if candidate.text not in scored.scores:
                new.setdefault(candidate.text, candidate)
        return [(scored.segment, candidate) for candidate in new.values()]

    def _take_in(
        self, scored: ScoredTexts, candidates: Sequence[Candidate], pairs: list[Pair], scores: list[float]
    ) -> list[float]:
        if not self._distinct:
            return scores
        scored.scores.update((pair[1].text, score) for pair, score in zip(pairs, scores, strict=True))
        return [scored.scores[candidate.text] for candidate in candidates]

    def _score(self, wanted: list[list[Pair]]) -> list[npt.NDArray[np.float64] | QuitmtError]:
        """Score everything in one call; if that fails, go segment by segment, so that only the faulty ones fail."""
        try:
            flat = self._checked([pair for pairs in wanted for pair in pairs])
        except FAULTS as error:
            if len(wanted) > 1:
                return [self._score([pairs])[0] for pairs in wanted]
            if isinstance(error, QuitmtError):
                return [error]
            return [blamed(RerankError, f"segment {wanted[0][0][0].id}: scoring failed", error)]
        ends = accumulate(len(pairs) for pairs in wanted)
        return [flat[end - len(pairs) : end] for pairs, end in zip(wanted, ends, strict=True)]

    def _checked(self, pairs: list[Pair]) -> npt.NDArray[np.float64]:
        if not pairs:
            return np.empty(0)
        scores = score_all(self._estimator, pairs)
        for index in np.flatnonzero(~np.isfinite(scores)):
            segment, candidate = pairs[index]
            raise RerankError(f"segment {segment.id}: the score of candidate {candidate.text!r} is {scores[index]}")
        return scores


class Ranking:
    """One segment's candidates so far: the best one's index, and the score of each distinct text."""

    __slots__ = ("anchored", "best", "first", "score", "scored", "size", "values")

    def __init__(self, segment: Segment) -> None:
        self.scored = ScoredTexts(segment)
        self.size = 0
        self.anchored = False
        self.best = 0
        self.score = -np.inf
        self.first: dict[str, tuple[int, float]] = {}
        """Distinct text → index of the candidate that introduced it, and its score."""
        self.values: list[float] = []
        """The score of each sample."""

    def take_anchors(self, scores: Sequence[float], anchors: Sequence[Candidate]) -> None:
        check_first(self.scored.segment, anchors, self.size or self.anchored)
        self.anchored |= bool(anchors)
        for place, (anchor, score) in enumerate(zip(anchors, scores, strict=True)):
            self.first.setdefault(anchor.text, (-1 - place, score))
            if score > self.score:
                self.best, self.score = -1 - place, score

    def take(self, text: str, score: float) -> None:
        self.first.setdefault(text, (self.size, score))
        if score > self.score:
            self.best, self.score = self.size, score
        self.values.append(score)
        self.size += 1

    def snapshot(self) -> Snapshot:
        return Snapshot(self.size, self.best, self.score, scores=partial(_first, self.values, self.size))


class Qe:
    """QE reranking with any quality estimator."""

    TRAITS = RerankerTraits("qe", running_best=True, takes_anchors=True, gives_scores=True)

    def __init__(self, estimator: QualityEstimator) -> None:
        self._quality = Quality(estimator)
        self.scores_with = (estimator,)
        self.traits = replace(self.TRAITS, needs_source=traits_of(estimator, EstimatorTraits).needs_source)
        self.signature = f"qe:{estimator.signature}"

    def open(self, segment: Segment) -> Ranking:
        return Ranking(segment)

    def ranked(self, state: Ranking) -> list[tuple[int, float]]:
        return best_first(state.first.values())

    def scores(self, pools: Sequence[tuple[Segment, Sequence[Candidate]]]) -> list[list[float] | QuitmtError]:
        """Return the scores of all candidates of several segments."""
        return self._quality.score([(ScoredTexts(segment), candidates) for segment, candidates in pools])

    def extend(self, updates: Sequence[Update[Ranking]]) -> list[list[Snapshot] | QuitmtError]:
        found = self._quality.score(
            [(update.state.scored, [*update.anchors, *update.candidates]) for update in updates]
        )
        return [
            scores if isinstance(scores, QuitmtError) else snapshots(update, scores)
            for update, scores in zip(updates, found, strict=True)
        ]


def snapshots(update: Update[Any], scores: list[float]) -> list[Snapshot]:
    """Add an update's scores, anchors first, to its ``Ranking``; return the snapshots."""
    ranking: Ranking = update.state
    found, anchors = list[Snapshot](), len(update.anchors)
    ranking.take_anchors(scores[:anchors], update.anchors)
    for count, (candidate, score) in enumerate(zip(update.candidates, scores[anchors:], strict=True), start=1):
        ranking.take(candidate.text, score)
        if count % update.stride == 0 or count == len(update.candidates):
            found.append(ranking.snapshot())
    return found


def _first(values: list[float], size: int) -> npt.NDArray[np.float64]:
    return np.array(values[:size])
