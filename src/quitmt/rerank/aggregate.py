"""Reference aggregation (Vamvas & Sennrich 2024): the mean of the support is the one reference.

For chrF it is the mean of the n-gram counts, for COMET the mean of the vectors. All candidates are scored against it,
and the ``top`` best of them against the whole support, exactly. With ``top`` 0 the aggregate alone decides.

Anchors are scored like samples, and are no part of the mean. Where a sample is not its own judge, a mean without it
would be a reference of its own for each sample, at the price of exact MBR. Instead the method's own assumption is used
a second time: if u(h, mean) is the mean of the utilities r, the mean without one copy of h is (n·r − u(h, h))/(n − 1),
which takes one more utility for each sampled text. It is exact where the method is: for utilities that are linear in
the reference.
"""

from __future__ import annotations

from typing import Any

from quitmt.errors import UsageError, setting
from quitmt.protocols import Utility
from quitmt.rerank.cells import Cells, Floats


class Aggregate:
    signature = "aggregate"

    def check(self, utility: Utility[Any]) -> None:
        if not hasattr(utility, "against"):
            raise UsageError(
                f"an aggregate needs a utility with counts or vectors of texts, and {utility.signature} has neither",
                hint=f"take mbr:chrf or mbr:comet, or another {setting('rerank.variant')}",
            )

    def estimate(self, cells: Cells[Any], size: int) -> Floats:
        counts = cells.counts(size)
        return cells.without_own(cells.against((counts / size)[None])[:, 0], size)
