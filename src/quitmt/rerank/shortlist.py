"""Two methods in a row: a cheap one for a short list, then a better one for the winner among it.

The second sees only the ``top`` texts that the first likes best (ties: anchors in their order, then the lower index),
against the whole support. Anchors and samples are on one list: an anchor that the first thinks little of is dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quitmt.errors import UsageError
from quitmt.protocols import Utility
from quitmt.rerank.accelerated import Method
from quitmt.rerank.cells import Cells, Floats
from quitmt.rerank.prune import Prune


class Exact:
    """All of the support; a sample without itself, where samples are judged so."""

    signature = "exact"

    def among(self, cells: Cells[Any], size: int, rows: Any) -> Floats:
        found = np.full(len(cells.counts(size)), -np.inf)
        found[rows] = cells.mean(cells.over(rows, size), size, rows)
        return found


class Shortlist:
    def __init__(self, first: Method, second: Exact | Prune, top: int) -> None:
        if top < 1:
            raise UsageError(f"a short list must have at least 1 candidate, not {top}")
        self._first, self._second, self._top = first, second, top
        self.signature = f"{first.signature},top:{top},{second.signature}"

    def check(self, utility: Utility[Any]) -> None:
        self._first.check(utility)

    def estimate(self, cells: Cells[Any], size: int) -> Floats:
        coarse = self._first.estimate(cells, size)
        liked = np.lexsort((cells.precedence(size), -coarse))
        return self._second.among(cells, size, np.sort(liked[: self._top]))
