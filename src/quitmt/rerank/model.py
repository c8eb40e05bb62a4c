"""Model-based MBR (Jinnai et al. 2023, arXiv:2311.05263): the model's own probabilities in place of counts.

MBR estimates how probable a translation is by how often it was sampled. A model knows: each distinct sample h′ judges
with the weight P(h′ | source), and how often it came up does not matter.

    r(h) = Σ over distinct h′ of w(h′)·u(h, h′) / Σ w(h′),    w = P(h′), or P(h′)^(1/tokens) with ``length``

Taken from the paper and its authors' published code: both weights, the second as their MBMBR_L. They weigh each sample,
copies too, and divide by words; here copies count once, as their text has it, and the length is in tokens where the
generator tells them, else in words. The support is all samples, as in the paper: with ``others`` the most probable one
would be without its best judge, which was worse in every test (docs/findings/rules.md).

Anchors judge nobody. A sample without a log-probability fails its segment: nothing can stand for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quitmt.errors import RerankError
from quitmt.protocols import Utility
from quitmt.rerank.cells import Cells, Floats


class ModelWeights:
    def __init__(self, length: bool = False) -> None:
        self._length = length
        self.signature = "model,length" if length else "model"

    def check(self, utility: Utility[Any]) -> None:
        """Any will do."""

    def estimate(self, cells: Cells[Any], size: int) -> Floats:
        counts = cells.counts(size)
        rows = np.arange(len(counts))
        weights = np.where(counts > 0, self._weights(cells, counts), 0.0)
        # One by one, as exact MBR adds: equal rows then have equal sums, and ties go to the lowest index.
        utilities = cells.over(rows, size)
        sums = (utilities * weights).cumsum(axis=1)[:, -1]
        total = weights.cumsum()[-1]
        if not cells.others:
            return np.asarray(sums / total)
        own = np.where(counts > 0, weights, 0.0)
        left = total - own
        judged = counts.nonzero()[0].size - (counts > 0) > 0
        sums = sums - own * utilities[rows, rows]
        return np.where(judged & (left > 0), sums / np.where(left > 0, left, 1.0), -np.inf)

    def _weights(self, cells: Cells[Any], counts: Any) -> Floats:
        """In proportion to the probabilities: the largest is 1."""
        logs = np.full(len(counts), -np.inf)
        for number in counts.nonzero()[0].tolist():
            candidate = cells.samples[number]
            recorded = candidate.scores or {}  # a pool that was kept has them as scores
            known = recorded.get("log_probability", candidate.log_probability)
            if known is None:
                hint = "take a generator that tells them, or pools that have them"
                told = f"candidate {cells.first[number]} has no log-probability, and model-based MBR weighs by it"
                raise RerankError(f"segment {cells.segment.id}: {told}", hint=hint)
            length = recorded.get("tokens", candidate.tokens) or max(len(candidate.text.split()), 1)
            logs[number] = known / (length if self._length else 1)
        weights: Floats = np.exp(logs - logs.max())
        return weights
