"""Accelerated MBR by name, as texts from users: ``prune``, ``lowrank:reduction=16``, ``aggregate:top=20+prune``.

    METHOD[:OPTION=VALUE,…][+exact|+prune[:OPTION=VALUE,…]]

What stands after the plus decides among the ``top`` candidates of the method before it. Random numbers follow the
option ``seed`` and the segment's id, not the seed of sampling: replays of recorded pools are the same.
"""

from __future__ import annotations

from typing import Any

from quitmt import names
from quitmt.errors import UsageError, unknown
from quitmt.names import INT, Name, Option
from quitmt.rerank.accelerated import Method
from quitmt.rerank.prune import Prune
from quitmt.rerank.shortlist import Exact, Shortlist

TOP = 20
"""Candidates of a short list: the study of aggregation found that twenty lose nothing."""

METHODS = {
    "exact": Name("all utilities", "quitmt.rerank.shortlist:Exact"),
    "prune": Name("PruneMBR: drop unlikely winners as the support grows", "quitmt.rerank.prune:Prune"),
    "lowrank": Name(
        "PMBR: compute one utility in every few (reduction), complete the rest", "quitmt.rerank.lowrank:LowRank"
    ),
    "sample": Name(
        "the mean of one utility in so many: the simplest rival of lowrank",
        "quitmt.rerank.lowrank:LowRank",
        given={"rank": 0},
        without=("penalty", "tolerance"),
    ),
    "centroid": Name(
        "CentroidMBR: candidates against centroids of the support",
        "quitmt.rerank.centroid:Centroid",
        extra="comet",
        needs=("scipy",),
    ),
    "aggregate": Name(
        f"the mean of the support as the one reference, then exact MBR among the top={TOP}; top=0 for the mean alone",
        "quitmt.rerank.aggregate:Aggregate",
    ),
    "model": Name(
        "model-based MBR: each distinct sample judges by its probability, or with length=yes by that of its mean token",
        "quitmt.rerank.model:ModelWeights",
    ),
}
COMBINED = {"A+exact, A+prune": f"A chooses the top={TOP}, then exact MBR or pruning among them, as in lowrank+prune"}
SHORT_LISTS = ("lowrank", "sample", "centroid", "aggregate")
"""Methods that say how good each candidate is, and so which are the best few: they have an option ``top``."""


def listed() -> dict[str, str]:
    """What there is, for people."""
    found = {}
    for key, name in METHODS.items():
        usage = name.usage(key)
        top = f"top={TOP if key == 'aggregate' else 0}" if key in SHORT_LISTS else ""
        found[f"{usage}{',' if ':' in usage else ':'}{top}" if top else usage] = name.meaning
    return found | COMBINED


def load(spec: str) -> Method | None:
    """The method that a text names; None for exact MBR, which has a reranker of its own."""
    coarse, plus, fine = spec.partition("+")
    name, options = _parsed(coarse)
    top = options.pop("top", TOP if plus or name == "aggregate" else 0)
    if name == "exact":
        if plus:
            raise UsageError(f"exact MBR needs no second method, as {spec!r} would have it")
        return None
    METHODS[name].require(f"{name} MBR")
    first: Any = METHODS[name].factory(**METHODS[name].given, **options)
    if not plus and not top:
        return first  # type: ignore[no-any-return]
    fine_name, fine_options = _parsed(fine if plus else "exact")
    if fine_name not in ("exact", "prune"):
        raise UsageError(f"{fine_name!r} in {spec!r} does not decide among few", hint="exact or prune can")
    if isinstance(first, Prune):
        raise UsageError(f"pruning gives no short list, as {spec!r} would have it", hint="turn them round")
    second = Prune(**fine_options) if fine_name == "prune" else Exact()
    return Shortlist(first, second, top)


def _parsed(text: str) -> tuple[str, dict[str, Any]]:
    name, _, rest = text.partition(":")
    if name not in METHODS:
        raise unknown("kind of MBR", name, METHODS)
    options = dict(METHODS[name].options)
    if name in SHORT_LISTS:
        options["top"] = Option(INT, TOP)
    return name, names.parsed(rest, options, f"{name} MBR")
