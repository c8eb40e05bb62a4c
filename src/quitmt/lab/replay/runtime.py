"""What a rule cost in seconds, and how much faster that is: speedup = unaccelerated total / accelerated total.

A total is generation and reranking. Seconds that were measured in a run of the rule and seconds estimated from a replay
are never compared: a table is of one kind.
"""

from __future__ import annotations

import math

import numpy as np

from quitmt.errors import UsageError
from quitmt.lab.frames import Replayed, RuleSeconds, Trajectories

UNACCELERATED = "Unaccelerated"


def estimated(trajectories: Trajectories, replayed: Replayed) -> RuleSeconds:
    """An estimate of what a rule would have cost, from what each segment's whole pool of n candidates cost.

    For a rule that used m of them: m / n of its generation, as if all candidates took the same time and batches were as
    full; of its reranking m / n with QE and (m / n)² with MBR, which compares every pair. All anchors are decoded,
    and count as candidates, not as judges. The estimate knows neither what a live run loses in emptier batches nor what
    it gains where generating and reranking overlap, and nothing of accelerated MBR, whose reranking must be measured.
    """
    anchors = trajectories.anchors
    share = replayed.size / trajectories.sizes
    candidates = (replayed.size + anchors) / (trajectories.sizes + anchors)
    reranked = share * candidates if trajectories.is_mbr else candidates
    return RuleSeconds(
        generate=float(np.sum(trajectories.generate_seconds * share + trajectories.anchor_seconds)),
        rerank=float(np.sum(trajectories.rerank_seconds * reranked)),
        live=False,
    )


def speedup(base: RuleSeconds, other: RuleSeconds) -> float | None:
    """How many times faster ``other`` is than ``base``, the unaccelerated; None if that is not known.

    >>> speedup(RuleSeconds(90.0, 10.0, live=True), RuleSeconds(20.0, 5.0, live=True))
    4.0
    """
    if base.live != other.live:
        raise UsageError(
            "seconds measured live cannot be compared with seconds estimated from a replay",
            hint="measure both or estimate both",
        )
    if not (math.isfinite(base.total) and math.isfinite(other.total) and base.total > 0 and other.total > 0):
        return None
    return base.total / other.total
