"""Scores that came with a recorded pool, as a quality estimator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from quitmt.errors import RerankError
from quitmt.metrics.registry import Setup
from quitmt.protocols import EstimatorTraits
from quitmt.types import Candidate, Segment


class RecordedScores:
    traits = EstimatorTraits(distinct=False)
    """Candidates with equal texts may have different recorded scores."""

    def __init__(self, name: str, _: Setup | None = None) -> None:
        self.name = name
        self.signature = f"recorded:{name}"

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> npt.NDArray[np.float64]:
        return np.array([self._look_up(segment, candidate) for segment, candidate in pairs], np.float64)

    def _look_up(self, segment: Segment, candidate: Candidate) -> float:
        scores = candidate.scores or {}
        if self.name not in scores:
            known = f"its pool has {', '.join(sorted(scores))}" if scores else "its pool has none"
            raise RerankError(f"segment {segment.id}: no recorded score {self.name!r}", hint=known)
        return scores[self.name]
