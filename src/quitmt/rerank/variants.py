"""Accelerated MBR by name: ``prune``, ``lowrank:reduction=16``, ``aggregate:top=50``.

The option ``seed`` and the segment's content determine the random numbers, not the seed of sampling, so replays of
recorded pools repeat the original run.
"""

from __future__ import annotations

from quitmt import names
from quitmt.errors import unknown
from quitmt.names import Name
from quitmt.rerank.accelerated import Method

METHODS = {
    "exact": Name("all utilities", "quitmt.rerank.mbr:Mbr", without=("utility", "support")),
    "prune": Name("PruneMBR: drop unlikely winners as the support grows", "quitmt.rerank.prune:Prune"),
    "lowrank": Name(
        "PMBR: compute one utility in every few (reduction), complete the rest", "quitmt.rerank.lowrank:LowRank"
    ),
    "centroid": Name(
        "CentroidMBR: candidates against centroids of the support",
        "quitmt.rerank.centroid:Centroid",
        extra="comet",
        needs=("scipy",),
    ),
    "aggregate": Name(
        "the mean of the support as the only reference, then exact MBR among the best (top); top=0 for the mean alone",
        "quitmt.rerank.aggregate:Aggregate",
    ),
}


def listed() -> dict[str, str]:
    """Usage and meaning of every method, for help texts."""
    return {name.usage(key): name.meaning for key, name in METHODS.items()}


def load(spec: str) -> Method | None:
    """Make the method that a text names; None means exact MBR, which has a reranker of its own."""
    key, _, rest = spec.partition(":")
    if key not in METHODS:
        raise unknown("kind of MBR", key, METHODS)
    name = METHODS[key]
    options = names.parsed(rest, name.options, f"{key} MBR")
    if key == "exact":
        return None
    name.require(f"{key} MBR")
    method: Method = name.factory(**options)
    return method
