"""What a long-lived run is fed with: a segment, and what is its own rather than the run's."""

from __future__ import annotations

from dataclasses import dataclass

from quitmt.engine.deadlines import Limit
from quitmt.protocols import StoppingRule
from quitmt.types import Segment


@dataclass(frozen=True, slots=True)
class Submission:
    segment: Segment
    rule: StoppingRule | None = None
    limit: Limit | None = None
    ranked: bool = False
    """Whether the scores of all candidates are wanted."""
