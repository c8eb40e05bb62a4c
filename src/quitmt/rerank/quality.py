"""Scores of candidates by a quality estimator, as pools grow: what QE reranking and filtering begin with.

New candidates of many segments are scored in one call, each distinct text of a segment once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError, RerankError
from quitmt.loops.faults import FAULTS, blamed
from quitmt.metrics.combined import Pair, score_all
from quitmt.protocols import EstimatorTraits, QualityEstimator, traits_of
from quitmt.types import Candidate, Segment


class Scored:
    """One segment, and the score of each distinct text of it so far."""

    __slots__ = ("scores", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.scores: dict[str, float] = {}


class Quality:
    def __init__(self, estimator: QualityEstimator) -> None:
        self._estimator = estimator
        self._distinct = traits_of(estimator, EstimatorTraits).distinct

    def score(self, batch: Sequence[tuple[Scored, Sequence[Candidate]]]) -> list[list[float] | QuitmtError]:
        """For each segment, the scores of its new candidates in their order, or why it failed."""
        wanted = [self._unscored(scored, candidates) for scored, candidates in batch]
        found = self._score(wanted)
        return [
            scores if isinstance(scores, QuitmtError) else self._take_in(scored, candidates, pairs, scores.tolist())
            for (scored, candidates), pairs, scores in zip(batch, wanted, found, strict=True)
        ]

    def _unscored(self, scored: Scored, candidates: Sequence[Candidate]) -> list[Pair]:
        if not self._distinct:
            return [(scored.segment, candidate) for candidate in candidates]
        new: dict[str, Candidate] = {}
        for candidate in candidates:
            if candidate.text not in scored.scores:
                new.setdefault(candidate.text, candidate)
        return [(scored.segment, candidate) for candidate in new.values()]

    def _take_in(
        self, scored: Scored, candidates: Sequence[Candidate], pairs: list[Pair], scores: list[float]
    ) -> list[float]:
        if not self._distinct:
            return scores
        scored.scores.update((pair[1].text, score) for pair, score in zip(pairs, scores, strict=True))
        return [scored.scores[candidate.text] for candidate in candidates]

    def _score(self, wanted: list[list[Pair]]) -> list[npt.NDArray[np.float64] | QuitmtError]:
        """Everything in one call; if that fails, segment by segment, so that only the guilty ones fail."""
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
