"""Weighted sums of quality estimators: 0.7·kiwi + 0.3·likelihood.

The scores are added without scaling; the user's weights must take care of different scales. Each estimator scores all
pairs in one call, and one that looks only at texts scores each distinct text of a segment once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from quitmt.errors import RerankError
from quitmt.metrics.combination import terms
from quitmt.protocols import EstimatorTraits, QualityEstimator, traits_of
from quitmt.signature import field
from quitmt.types import Candidate, Segment

Floats = npt.NDArray[np.float64]
Pair = tuple[Segment, Candidate]


class Combined:
    """``weights[i]`` times the score of ``estimators[i]``, summed in that order."""

    def __init__(self, estimators: Sequence[QualityEstimator], weights: Sequence[float]) -> None:
        self._terms = terms(estimators, weights)
        self.scores_with = tuple(estimators)
        traits = [traits_of(estimator, EstimatorTraits) for estimator in estimators]
        self.traits = EstimatorTraits(any(one.needs_source for one in traits), all(one.distinct for one in traits))
        self.signature = "+".join(f"{field(weight)}*{estimator.signature}" for estimator, weight in self._terms)

    def score(self, pairs: Sequence[Pair]) -> Floats:
        total = np.zeros(len(pairs))
        for estimator, weight in self._terms:
            once = traits_of(estimator, EstimatorTraits).distinct and not self.traits.distinct
            total += weight * (_score_once(estimator, pairs) if once else score_all(estimator, pairs))
        return total


def score_all(estimator: QualityEstimator, pairs: Sequence[Pair]) -> Floats:
    """One score per pair; raises if the estimator returns another number of scores."""
    scores = np.asarray(estimator.score(pairs), dtype=np.float64)
    if scores.shape != (len(pairs),):
        raise RerankError(f"{estimator.signature} gave {scores.size} scores for {len(pairs)} candidates")
    return scores


def _score_once(estimator: QualityEstimator, pairs: Sequence[Pair]) -> Floats:
    first: dict[tuple[Segment, str], Pair] = {}
    for segment, candidate in pairs:
        first.setdefault((segment, candidate.text), (segment, candidate))
    scores = dict(zip(first, score_all(estimator, list(first.values())), strict=True))
    return np.array([scores[segment, candidate.text] for segment, candidate in pairs])
