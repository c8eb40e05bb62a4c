"""Reference aggregation (Vamvas & Sennrich 2024): the mean of the support is the only reference.

For chrF this is the mean of the n-gram counts, for COMET the mean of the vectors. All candidates are scored against it.
Exact MBR over the whole support then decides among the ``top`` best of them (ties: anchors in their order, then the
lowest index); with ``top`` 0 the aggregate decides alone.

Anchors are scored like samples and don't contribute to the mean. Where a sample doesn't judge itself, each sample would
need a mean of its own, which costs as much as exact MBR. Instead we use the method's own assumption a second time: if
u(h, mean) is the mean of the utilities r, the mean without one copy of h is (n·r − u(h, h))/(n − 1), which takes one
more utility per sampled text. It is exact where the method is: for utilities that are linear in the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quitmt.errors import UsageError, setting
from quitmt.protocols import Utility
from quitmt.rerank.anchors import divided
from quitmt.rerank.cells import Cells, Floats

TOP = 20
"""The study of aggregation found that a short list of twenty loses nothing."""


class Aggregate:
    def __init__(self, top: int = TOP) -> None:
        if top < 0:
            raise UsageError(f"top must be 0 or more candidates, not {top}")
        self.top = top
        self.signature = f"aggregate,top:{top},exact" if top else "aggregate"

    def check(self, utility: Utility[Any]) -> None:
        if not hasattr(utility, "against"):
            raise UsageError(
                f"an aggregate needs a utility with counts or vectors of texts, and {utility.signature} has neither",
                hint=f"take mbr:chrf or mbr:comet, or another {setting('rerank.variant')}",
            )

    def estimate(self, cells: Cells[Any], size: int) -> Floats:
        counts = cells.counts(size)
        coarse = cells.against((counts / size)[None])
        if cells.others:
            coarse = divided(*cells.over_means(coarse, counts[None].astype(np.float64)))
        coarse = coarse[:, 0]
        if not self.top:
            return coarse
        rows = np.sort(np.lexsort((cells.precedence(size), -coarse))[: self.top])
        found = np.full(len(coarse), -np.inf)
        found[rows] = cells.mean(cells.over(rows, size), size, rows)
        return found
