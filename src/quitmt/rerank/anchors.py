"""What samples and anchors are to every kind of MBR (docs/method.md, "Anchored pools").

Samples are candidates and judges, anchors are candidates only; an anchor whose text comes up as a sample counts as one.
The support of a sample is all samples, itself included as in the paper ("all"), all without one copy of itself
("others"), or these and the first anchor, which counts as two judges, of itself too ("anchor"): few samples are easily
wrong, and the model's own best guess keeps them from moving far without cause (docs/anchors.md). Equally good
candidates: anchors first, in their order, then the lowest index.
"""

from __future__ import annotations

from collections.abc import Sequence
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
"""Those without anchors."""
TEXTS = "given"
"""The support that is a list of texts of the user's (``quitmt.rerank.supported``): no sample judges."""
VOTES = 2
"""Of the first anchor."""


def check_support(support: str, allowed: Sequence[str] = SUPPORTS) -> None:
    if support not in allowed:
        raise UsageError(f"{setting('rerank.support')} must be one of {', '.join(allowed)}, not {support!r}")


def field(support: Support) -> str:
    """What a signature says of it: nothing, for the paper's."""
    return "" if support == "all" else f"|s:{support}"


def check_first(segment: Segment, anchors: Sequence[Candidate], begun: Any) -> None:
    """Refuse anchors of a pool that has candidates already: snapshots without them have been given."""
    if anchors and begun:
        hint = "give them with its first candidates"
        raise RerankError(f"segment {segment.id}: anchors came after the pool had begun", hint=hint)


def precedence(index: Ints, anchors: int) -> Ints:
    """Of candidates by their index, where there are so many anchors: the lower one comes first."""
    found: Ints = np.where(index < 0, -1 - anchors - index, index)
    return found


def told(index: int, other: int | None = None) -> str:
    """A candidate, or two, in a message.

    >>> told(3), told(-2), told(24, 6), told(-1, 4)
    ('candidate 3', 'anchor 2', 'candidates 24 and 6', 'the first anchor and candidate 4')
    """
    if other is None:
        return f"candidate {index}" if index >= 0 else "the first anchor" if index == -1 else f"anchor {-index}"
    if index >= 0 and other >= 0:
        return f"candidates {index} and {other}"
    return f"{told(index)} and {'itself' if index == other else told(other)}"


def best_of(values: Floats, order: Ints) -> int:
    """The place of the highest value; of several, the one that ``order`` has lowest."""
    ties = np.flatnonzero(values == values.max())
    return int(ties[order[ties].argmin()])
