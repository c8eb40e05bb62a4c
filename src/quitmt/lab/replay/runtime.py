"""A rule's cost in seconds, and its speedup: unaccelerated total / accelerated total.

A total is generation and reranking. Seconds measured in a run of the rule and seconds estimated from a replay are never
compared with each other.
"""

from __future__ import annotations

import math

import numpy as np

from quitmt.errors import UsageError
from quitmt.lab.frames import Replayed, RuleSeconds, Trajectories


def estimated(trajectories: Trajectories, replayed: Replayed) -> RuleSeconds:
    """An estimate of a rule's cost from the cost of each segment's whole pool of n candidates.

    A rule that used m of them pays m / n of the generation, as if all candidates took the same time and batches stayed
    as full. It pays m / n of the reranking with QE, and (m / n)² with MBR, which compares every pair. All anchors are
    decoded, and count as candidates, not as judges. The estimate does not include losses of a live run from emptier
    batches, or gains from generating and reranking at the same time. It does not apply to accelerated MBR, whose
    reranking must be measured.
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
    """How many times faster ``other`` is than ``base``, the unaccelerated run; None if that is not known.

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
