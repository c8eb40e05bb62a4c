"""Candidates in the order of their scores."""

from __future__ import annotations

import math
from collections.abc import Iterable


def best_first(scored: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    """From (index, score): the best first, ties by the lower index; those that a method ruled out are left out.

    >>> best_first([(0, 0.5), (1, 0.7), (2, 0.7), (3, -math.inf)])
    [(1, 0.7), (2, 0.7), (0, 0.5)]
    """
    return sorted((one for one in scored if math.isfinite(one[1])), key=lambda one: (-one[1], one[0]))
