"""CentroidMBR (Deguchi et al. 2024): candidates are scored against a few centroids instead of all of the support.

The support's vectors are clustered by k-means, and the centroids stand in for references; a candidate's estimate is the
mean of its utilities with them. As published, all centroids count alike; ``weighted`` counts each by the candidates of
its cluster, which is nearer to exact MBR. Up to ``centroids`` candidates the support is itself, and the method exact.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from quitmt.errors import UsageError
from quitmt.protocols import Utility
from quitmt.rerank.cells import Cells, Floats


class Centroid:
    def __init__(self, centroids: int = 64, iterations: int = 10, weighted: bool = False, seed: int = 0) -> None:
        if centroids < 1 or iterations < 1:
            raise UsageError("centroids and iterations must be 1 or more")
        self.centroids, self.iterations, self.weighted, self.seed = centroids, iterations, weighted, seed
        self.signature = f"centroid,k:{centroids},i:{iterations}{',weighted' if weighted else ''},seed:{seed}"

    def check(self, utility: Utility[Any]) -> None:
        if not (hasattr(utility, "vectors") and hasattr(utility, "against")):
            raise UsageError(
                f"centroids need a utility with vectors of texts, and {utility.signature} has none",
                hint="take mbr:comet, or another --mbr",
            )

    def estimate(self, cells: Cells[Any], size: int) -> Floats:
        counts = cells.counts(size)
        clusters = self._clusters(cells, size)
        numbers = np.array(cells.order[:size])
        members = np.zeros((clusters.max() + 1, len(counts)))
        np.add.at(members, (clusters, numbers), 1.0)
        members = members[members.any(axis=1)]  # k-means may leave a cluster empty
        sizes = members.sum(axis=1)
        utilities = cells.utility.against(cells.arena, range(len(counts)), members / sizes[:, None])  # type: ignore[attr-defined]
        cells.evaluations += utilities.size
        share = sizes / size if self.weighted or len(sizes) < self.centroids else np.full(len(sizes), 1 / len(sizes))
        return np.asarray(utilities @ share)

    def _clusters(self, cells: Cells[Any], size: int) -> Any:
        """The cluster of each candidate."""
        from scipy.cluster.vq import kmeans2

        numbers = np.array(cells.order[:size])
        if len(cells.counts(size)) <= self.centroids:
            return numbers  # each text is its own centroid, with as much weight as it has candidates
        vectors = cells.utility.vectors(cells.arena)[numbers]  # type: ignore[attr-defined]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of empty clusters
            return kmeans2(
                vectors, self.centroids, iter=self.iterations, minit="++", rng=cells.random(self.seed, size)
            )[1]
