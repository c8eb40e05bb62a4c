"""QE reranking: the candidate that a reference-free metric likes best.

A score never depends on the other candidates, so the best is a running maximum; it begins with the anchors, if there
are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError
from quitmt.protocols import EstimatorTraits, QualityEstimator, RerankerTraits, Update, traits_of
from quitmt.rerank.anchors import check_first
from quitmt.rerank.quality import Quality, Scored
from quitmt.rerank.ranked import best_first
from quitmt.types import Candidate, Segment, Snapshot


class Ranking:
    """One segment's candidates so far: the index of the best one, and the score of each distinct text."""

    __slots__ = ("anchored", "best", "first", "score", "scored", "size", "values")

    def __init__(self, segment: Segment) -> None:
        self.scored = Scored(segment)
        self.size = 0
        self.anchored = False
        self.best = 0
        self.score = -np.inf
        self.first: dict[str, tuple[int, float]] = {}
        """Distinct text → the index of the candidate it came with, and its score."""
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
        """Of all candidates of some segments, whoever wins."""
        return self._quality.score([(Scored(segment), candidates) for segment, candidates in pools])

    def extend(self, updates: Sequence[Update[Ranking]]) -> list[list[Snapshot] | QuitmtError]:
        found = self._quality.score(
            [(update.state.scored, [*update.anchors, *update.candidates]) for update in updates]
        )
        return [
            scores if isinstance(scores, QuitmtError) else snapshots(update, scores)
            for update, scores in zip(updates, found, strict=True)
        ]


def snapshots(update: Update[Any], scores: list[float]) -> list[Snapshot]:
    """Of a ``Ranking`` that takes in the scores of an update: the anchors first, then the samples."""
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
