"""CentroidMBR (Deguchi et al. 2024): candidates are scored against a few centroids instead of the whole support.

The support's vectors are clustered by k-means, and the centroids serve as references; a candidate's estimate is the
mean of its utilities with them. As published, all centroids count alike; ``weighted`` weighs each centroid by the
candidates in its cluster, which is closer to exact MBR. With at most ``centroids`` distinct texts, each text is its own
centroid, weighted by its copies, and the method is exact.

Only samples are clustered; anchors are scored like samples. Where a sample doesn't judge itself, one copy of it is
taken out of its own centroid as if the utility were linear in the reference (``Cells.over_means``). A cluster without
another member doesn't count for this sample.
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
        if not cells.others:
            return np.asarray(np.average(utilities, axis=1, weights=sizes if self.weighted else None))
        sums, judges = cells.over_means(utilities, members)
        if self.weighted:
            return np.asarray(sums.sum(axis=1) / judges.sum(axis=1))
        means = np.where(judges > 0, sums / np.maximum(judges, 1), 0.0)
        return np.asarray(means.sum(axis=1) / (judges > 0).sum(axis=1))

    def _clusters(self, cells: Cells[Any], size: int) -> Any:
        """Return the cluster of each candidate; identical texts have the same vector and so the same cluster."""
        from scipy.cluster.vq import kmeans2

        vectors = cells.utility.vectors(cells.arena)[cells.order[:size]]  # type: ignore[attr-defined]
        distinct, same = np.unique(vectors, axis=0, return_inverse=True)
        if len(distinct) <= self.centroids:  # k-means would look for more centroids than there are vectors
            return same
        rng = cells.random(self.seed, size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about empty clusters
            return kmeans2(vectors, self.centroids, iter=self.iterations, minit="++", rng=rng)[1]
