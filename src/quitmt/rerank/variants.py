"""Accelerated MBR by name, as texts from users: ``prune``, ``lowrank:reduction=16``, ``aggregate:top=20+prune``.

    METHOD[:OPTION=VALUE,…][+exact|+prune[:OPTION=VALUE,…]]

What stands after the plus decides among the ``top`` candidates of the method before it. Random numbers follow the
option ``seed`` and the segment's id, not the seed of sampling: replays of recorded pools are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quitmt.errors import UsageError, unknown
from quitmt.rerank.accelerated import Method
from quitmt.rerank.aggregate import Aggregate
from quitmt.rerank.centroid import Centroid
from quitmt.rerank.lowrank import LowRank
from quitmt.rerank.prune import Prune
from quitmt.rerank.shortlist import Exact, Shortlist

TOP = 20
"""Candidates of a short list: the study of aggregation found that twenty lose nothing."""

METHODS = {
    "exact": "all utilities",
    "prune": "PruneMBR: drop unlikely winners as the support grows; confidence=0.99, resamples=500, "
    "schedule=8/16/…/512",
    "lowrank": "PMBR: compute one utility in reduction=8, complete the rest; rank=10, penalty=0.1",
    "sample": "the mean of one utility in reduction=8: the simplest rival of lowrank",
    "centroid": "CentroidMBR: centroids=64 of the support's vectors, iterations=10, weighted=no",
    "aggregate": "the mean of the support as the one reference, then exact MBR among the top=20; "
    "top=0 for the mean alone",
    "A+exact, A+prune": "A chooses the top=20, then exact MBR or pruning among them, as in lowrank+prune",
}


def _schedule(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split("/"))


def _flag(text: str) -> bool:
    return {"yes": True, "no": False}[text]


OPTIONS: Mapping[str, Mapping[str, Callable[[str], Any]]] = {
    "prune": {"confidence": float, "resamples": int, "schedule": _schedule, "seed": int},
    "lowrank": {"reduction": int, "rank": int, "penalty": float, "tolerance": float, "seed": int, "top": int},
    "sample": {"reduction": int, "seed": int, "top": int},
    "centroid": {"centroids": int, "iterations": int, "weighted": _flag, "seed": int, "top": int},
    "aggregate": {"top": int},
    "exact": {},
}


def load(spec: str) -> Method | None:
    """The method that a text names; None for exact MBR, which has a reranker of its own."""
    coarse, plus, fine = spec.partition("+")
    name, options = _parsed(coarse, spec)
    top = options.pop("top", TOP if plus or name == "aggregate" else 0)
    if name == "exact":
        if plus:
            raise UsageError(f"exact MBR needs no second method, as {spec!r} would have it")
        return None
    first = _method(name, options)
    if not plus and not top:
        return first
    fine_name, fine_options = _parsed(fine if plus else "exact", spec)
    if fine_name not in ("exact", "prune"):
        raise UsageError(f"{fine_name!r} in {spec!r} does not decide among few", hint="exact or prune can")
    if isinstance(first, Prune):
        raise UsageError(f"pruning gives no short list, as {spec!r} would have it", hint="turn them round")
    second = Prune(**fine_options) if fine_name == "prune" else Exact()
    return Shortlist(first, second, top)


def _parsed(text: str, spec: str) -> tuple[str, dict[str, Any]]:
    name, _, rest = text.partition(":")
    if name not in OPTIONS:
        raise unknown("kind of MBR", name, OPTIONS)
    kinds = OPTIONS[name]
    found: dict[str, Any] = {}
    for part in rest.split(",") if rest else []:
        option, _, value = part.partition("=")
        if not kinds:
            raise UsageError(f"{name} MBR has no options, as {spec!r} would have it")
        if option not in kinds:
            raise unknown(f"option of --mbr {name}", option, kinds)
        try:
            found[option] = kinds[option](value)
        except (ValueError, KeyError):
            raise UsageError(f"{part!r} in {spec!r} is not a setting", hint=f"write {option}=VALUE") from None
    return name, found


def _method(name: str, options: dict[str, Any]) -> Method:
    if name == "sample":
        return LowRank(**options, rank=0)
    make: Any = {"prune": Prune, "lowrank": LowRank, "centroid": Centroid, "aggregate": Aggregate}[name]
    return make(**options)  # type: ignore[no-any-return]
