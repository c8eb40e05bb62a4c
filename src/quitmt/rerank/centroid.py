"""CentroidMBR (Deguchi et al. 2024): candidates are scored against a few centroids instead of all of the support.

The support's vectors are clustered by k-means, and the centroids stand in for references; a candidate's estimate is the
mean of its utilities with them. As published, all centroids count alike; ``weighted`` counts each by the candidates of
its cluster, which is nearer to exact MBR. With no more than ``centroids`` distinct texts each is its own centroid,
as heavy as it is often, and the method exact.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from quitmt.errors import UsageError, setting
from quitmt.protocols import Utility
from quitmt.rerank.cells import Cells, Floats, checked_seed


class Centroid:
    def __init__(self, centroids: int = 64, iterations: int = 10, weighted: bool = False, seed: int = 0) -> None:
        if centroids < 1 or iterations < 1:
            raise UsageError("centroids and iterations must be 1 or more")
        self.centroids, self.iterations, self.weighted = centroids, iterations, weighted
        self.seed = checked_seed(seed)
        self.signature = f"centroid,k:{centroids},i:{iterations}{',weighted' if weighted else ''},seed:{seed}"

    def check(self, utility: Utility[Any]) -> None:
        if not (hasattr(utility, "vectors") and hasattr(utility, "against")):
            raise UsageError(
                f"centroids need a utility with vectors of texts, and {utility.signature} has none",
                hint=f"take mbr:comet, or another {setting('rerank.variant')}",
            )

    def estimate(self, cells: Cells[Any], size: int) -> Floats:
        texts = len(cells.counts(size))
        if texts <= self.centroids:
            return cells.mean(cells.block(np.arange(texts), range(texts)), size)
        numbers, clusters = np.array(cells.order[:size]), self._clusters(cells, size)
        members = np.zeros((clusters.max() + 1, texts))
        np.add.at(members, (clusters, numbers), 1.0)
        members = members[members.any(axis=1)]  # k-means may leave a cluster empty
        sizes = members.sum(axis=1)
        utilities = cells.against(members / sizes[:, None])
        return np.asarray(np.average(utilities, axis=1, weights=sizes if self.weighted else None))

    def _clusters(self, cells: Cells[Any], size: int) -> Any:
        """The cluster of each candidate."""
        from scipy.cluster.vq import kmeans2

        vectors = cells.utility.vectors(cells.arena)[cells.order[:size]]  # type: ignore[attr-defined]
        distinct, same = np.unique(vectors, axis=0, return_inverse=True)
        if len(distinct) <= self.centroids:  # so many that k-means would look for places where no vector is left
            return same
        rng = cells.random(self.seed, size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of empty clusters
            return kmeans2(vectors, self.centroids, iter=self.iterations, minit="++", rng=rng)[1]
