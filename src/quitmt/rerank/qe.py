"""QE reranking: the candidate that a reference-free metric likes best.

A score never depends on the other candidates, so the best is a running maximum. New candidates of many segments are
scored in one call, each distinct text of a segment once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError, RerankError
from quitmt.protocols import QualityEstimator, Update
from quitmt.types import Candidate, Segment, Standing

Pair = tuple[Segment, Candidate]


class Ranking:
    """One segment's candidates so far: the best one, and the score of each distinct text."""

    __slots__ = ("best", "score", "scored", "segment", "size")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.scored: dict[str, float] = {}
        self.size = 0
        self.best = -1
        self.score = -np.inf

    def take(self, score: float) -> None:
        if score > self.score:
            self.best, self.score = self.size, score
        self.size += 1


class Qe:
    """QE reranking with any quality estimator.

    ``distinct=False`` is for an estimator that looks at more of a candidate than its text.
    """

    def __init__(self, estimator: QualityEstimator, *, distinct: bool = True) -> None:
        self.estimator = estimator
        self.distinct = distinct
        self.signature = f"qe:{estimator.signature}"

    def open(self, segment: Segment) -> Ranking:
        return Ranking(segment)

    def extend(self, updates: Sequence[Update[Ranking]]) -> list[list[Standing] | QuitmtError]:
        wanted = [self._unscored(update) for update in updates]
        scores = self._score(wanted)
        return [
            found if isinstance(found, QuitmtError) else self._walk(update, pairs, found)
            for update, pairs, found in zip(updates, wanted, scores, strict=True)
        ]

    def _unscored(self, update: Update[Ranking]) -> list[Pair]:
        ranking = update.state
        if not self.distinct:
            return [(ranking.segment, candidate) for candidate in update.candidates]
        new: dict[str, Candidate] = {}
        for candidate in update.candidates:
            if candidate.text not in ranking.scored:
                new.setdefault(candidate.text, candidate)
        return [(ranking.segment, candidate) for candidate in new.values()]

    def _score(self, wanted: list[list[Pair]]) -> list[npt.NDArray[np.float64] | QuitmtError]:
        """Everything in one call; if that fails, segment by segment, so that only the guilty ones fail."""
        try:
            flat = self._checked([pair for pairs in wanted for pair in pairs])
        except Exception as error:
            if len(wanted) > 1:
                return [self._score([pairs])[0] for pairs in wanted]
            if isinstance(error, QuitmtError):
                return [error]
            return [RerankError(f"segment {wanted[0][0][0].id}: scoring failed: {type(error).__name__}: {error}")]
        ends = accumulate(len(pairs) for pairs in wanted)
        return [flat[end - len(pairs) : end] for pairs, end in zip(wanted, ends, strict=True)]

    def _checked(self, pairs: list[Pair]) -> npt.NDArray[np.float64]:
        if not pairs:
            return np.empty(0)
        scores = np.asarray(self.estimator.score(pairs), dtype=np.float64)
        if scores.shape != (len(pairs),):
            raise RerankError(f"{self.signature} gave {scores.size} scores for {len(pairs)} candidates")
        for index in np.flatnonzero(~np.isfinite(scores)):
            segment, candidate = pairs[index]
            raise RerankError(f"segment {segment.id}: the score of candidate {candidate.text!r} is {scores[index]}")
        return scores

    def _walk(self, update: Update[Ranking], pairs: list[Pair], scores: npt.NDArray[np.float64]) -> list[Standing]:
        ranking, found = update.state, []
        if self.distinct:
            ranking.scored.update((pair[1].text, score) for pair, score in zip(pairs, scores.tolist(), strict=True))
            sequence = [ranking.scored[candidate.text] for candidate in update.candidates]
        else:
            sequence = scores.tolist()
        for count, score in enumerate(sequence, start=1):
            ranking.take(score)
            if count % update.stride == 0 or count == len(sequence):
                found.append(Standing(ranking.size, ranking.best, ranking.score))
        return found
