"""Whether rules differ by more than chance: the pairs to compare, and which way a comparison came out.

A comparison is of one metric on one data set. It is significant if the 95% interval of the paired bootstrap's mean
difference, two-sided, excludes 0; n↓ and n↑ of the alpha ablation count those significantly worse and better than
alpha = 1e-3. As many comparisons as there are metrics and data sets are counted, without correction.
"""

from __future__ import annotations

import numpy as np

from quitmt.errors import InputError
from quitmt.evaluate.equivalence import Comparison, Pair
from quitmt.lab.frames import Floats, QualityScores, Replayed


def direction(comparison: Comparison, *, lower_is_better: bool) -> int:
    """1 if the other is significantly better than the base, −1 if worse, 0 if neither."""
    low, high = comparison.interval
    sign = int(low > 0) - int(high < 0)
    return -sign if lower_is_better else sign


def pair_of(base: Replayed, other: Replayed, quality: QualityScores | None) -> Pair:
    """Two rules on the same segments by one metric; without one, by the reranker's own score on the whole pool."""
    lower = quality is not None and quality.lower_is_better
    return Pair(_scores(base, quality), _scores(other, quality), lower)


def _scores(replayed: Replayed, quality: QualityScores | None) -> Floats:
    if quality is None:
        return replayed.score
    found = quality.of(replayed)
    for row in np.flatnonzero(~np.isfinite(found)):
        raise InputError(
            f"segment {row + 1}: candidate {replayed.index[row] + 1}, which {replayed.name} chose, has no score "
            f"by {quality.metric}",
            hint="every translation that is compared must be evaluated first",
        )
    return found
