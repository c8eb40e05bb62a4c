"""CentroidMBR (Deguchi et al. 2024): candidates are scored against a few centroids instead of all of the support.

The support's vectors are clustered by k-means, and the centroids stand in for references; a candidate's estimate is the
mean of its utilities with them. As published, all centroids count alike; ``weighted`` counts each by the candidates of
its cluster, which is nearer to exact MBR. With no more than ``centroids`` distinct texts each is its own centroid,
as heavy as it is often, and the method exact.

Only samples are clustered; anchors are scored like them. Where a sample is not its own judge, its own centroid is to be
without one copy of it. As with the mean of all (``quitmt.rerank.aggregate``), that would be a reference of its own for
each sample, so the utility with it is computed as if it were linear in the reference: with m candidates in the cluster,
(m·u(h, centroid) − u(h, h))/(m − 1). A cluster that has no other member does not count for this one.
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
        counts = cells.counts(size)
        texts = len(counts)
        if np.count_nonzero(counts) <= self.centroids:
            return cells.mean(cells.over(np.arange(texts), size), size)
        numbers, clusters = np.array(cells.order[:size]), self._clusters(cells, size)
        members = np.zeros((clusters.max() + 1, texts))
        np.add.at(members, (clusters, numbers), 1.0)
        members = members[members.any(axis=1)]  # k-means may leave a cluster empty
        sizes = members.sum(axis=1)
        utilities = cells.against(members / sizes[:, None])
        if cells.others:
            return self._without_own(cells, size, members, utilities)
        return np.asarray(np.average(utilities, axis=1, weights=sizes if self.weighted else None))

    def _without_own(self, cells: Cells[Any], size: int, members: Floats, utilities: Floats) -> Floats:
        """The means over the centroids, each sample without one copy of itself."""
        (samples,) = np.nonzero(members.any(axis=0))
        own = members[:, samples].argmax(axis=0)  # identical texts have one vector, so they are in one cluster
        sizes = np.tile(members.sum(axis=1), (len(utilities), 1))
        sums = utilities * sizes
        sums[samples, own] -= cells.pairs(samples, samples)
        sizes[samples, own] -= 1
        if self.weighted:
            return np.asarray(sums.sum(axis=1) / sizes.sum(axis=1))
        left = sizes > 0
        means = np.where(left, sums / np.maximum(sizes, 1), 0.0)
        return np.asarray(means.sum(axis=1) / left.sum(axis=1))

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
