"""Candidates and judges in every kind of MBR (docs/method.md, "Anchored pools").

Samples are candidates and judges, anchors are only candidates; an anchor whose text comes up as a sample counts as a
sample. The support of a sample is "all" samples, including itself as in the paper; or the "others", all samples except
one copy of itself; or "anchor", the others and the first anchor, which has two votes and also votes for itself. A few
samples can agree by chance, and the votes of the model's best guess outweigh weak evidence (docs/anchors.md). Ties go
to anchors in their order, then to the lowest index.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from quitmt.errors import RerankError, UsageError, setting
from quitmt.types import Candidate, Segment

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Support = Literal["all", "others", "anchor"]
SUPPORTS = ("anchor", "others", "all")
SAMPLES = SUPPORTS[1:]
"""Supports in which anchors never judge."""
TEXTS = "given"
"""Support of texts that the user supplies (``quitmt.rerank.supported``): samples don't judge."""
VOTES = 2
"""Votes of the first anchor."""


def check_support(support: str, allowed: Sequence[str] = SUPPORTS) -> None:
    if support not in allowed:
        raise UsageError(f"{setting('rerank.support')} must be one of {', '.join(allowed)}, not {support!r}")


def field(support: Support) -> str:
    """The support's part of a signature; empty for the paper's support."""
    return "" if support == "all" else f"|s:{support}"


def check_first(segment: Segment, anchors: Sequence[Candidate], begun: Any) -> None:
    """Refuse anchors that come after the first candidates, since earlier snapshots lack them."""
    if anchors and begun:
        hint = "give them with its first candidates"
        raise RerankError(f"segment {segment.id}: anchors came after the pool had begun", hint=hint)


def over_judges(utilities: Floats, copies: Ints) -> tuple[Floats, Ints]:
    """Sum each text's utilities over its judges, and count the judges: all samples except the text's own copy.

    ``utilities`` are [sample, text] and are overwritten; ``copies`` has the sample that is each text's own copy, or −1
    for a text that all samples judge. Samples are added one by one in index order, as in exact MBR: a product of
    matrices or sum(), which adds pairwise, would round equal columns differently, and ties would not go to the lowest
    index.
    """
    (places,) = np.nonzero(copies >= 0)
    utilities[copies[places], places] = 0.0
    return utilities.cumsum(axis=0)[-1], len(utilities) - (copies >= 0)


def divided(sums: Floats, judges: Floats | Ints) -> Floats:
    """Means over the judges; −inf without a judge."""
    return np.where(judges > 0, sums / np.maximum(judges, 1), -np.inf)


def precedence(index: Ints, anchors: int) -> Ints:
    """Rank equally good candidates by their indices, lowest first; ``anchors`` counts the pool's anchors."""
    order: Ints = np.where(index < 0, -1 - anchors - index, index)
    return order


def named(index: int, other: int | None = None) -> str:
    """Name a candidate or a pair of candidates in a message.

    >>> named(3), named(-2), named(24, 6), named(-1, 4)
    ('candidate 3', 'anchor 2', 'candidates 24 and 6', 'the first anchor and candidate 4')
    """
    if other is None:
        return f"candidate {index}" if index >= 0 else "the first anchor" if index == -1 else f"anchor {-index}"
    if index >= 0 and other >= 0:
        return f"candidates {index} and {other}"
    return f"{named(index)} and {'itself' if index == other else named(other)}"


def best_of(values: Floats, order: Ints) -> int:
    """Return the place of the highest value; ties go to the lowest ``order``."""
    ties = np.flatnonzero(values == values.max())
    return int(ties[order[ties].argmin()])


def best_first(scored: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    """Sort (index, score), best first; ties go to anchors in their order, then to the lowest index. Scores that are not
    finite are left out.

    >>> best_first([(0, 0.5), (1, 0.7), (2, 0.7), (3, -math.inf), (-2, 0.7), (-1, 0.7)])
    [(-1, 0.7), (-2, 0.7), (1, 0.7), (2, 0.7), (0, 0.5)]
    """
    finite = (one for one in scored if math.isfinite(one[1]))
    return sorted(finite, key=lambda one: (-one[1], one[0] >= 0, abs(one[0])))
