"""Stop when a segment has little left to gain: (top − best) / n ≤ share.

This rule is for QE, where the best score is a running maximum. A segment whose best candidate is close to what good
translations score has little to gain; a segment far below is worth more candidates. ``top`` is what good translations
score, which is usually well below the end of the metric's scale (0.90 for CometKiwi-22). With ``top=auto`` the rule
learns it from the best scores of earlier segments of the run, and with ``share=auto`` also how far a usual segment is
below it (its *room*), so that candidates are proportional to room on any scale. ``learned.py`` has the learning.

Two guards keep the budget from segments that never get better, such as lines of code or emoji: with ``reach``, the room
is at most so many times the distance between the best and the mean candidate, and ``cap`` bounds the candidates.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from quitmt.defaults import BUDGET
from quitmt.errors import UsageError
from quitmt.names import without_options
from quitmt.protocols import RuleTraits, Watch
from quitmt.signature import field as text
from quitmt.stop.learned import Level, LevelSteering
from quitmt.stop.threshold import Counts, Floats, Threshold
from quitmt.types import Snapshot

AUTO = "auto"
USUAL_CAP = 10
"""With ``share=auto`` and no cap, a segment gets at most so many times ``usual``."""
REACH_FROM = 16
"""Candidates from which ``reach`` applies: the mean of fewer says little."""
UNKNOWN = -sys.float_info.max
"""The top of a segment about which nothing is known: below every score."""
SHARE = 2e-3
"""The share for a known top, for scores from 0 to 1."""


@dataclass(frozen=True)
class Headroom(Threshold):
    limit: ClassVar[str] = "share"
    traits: ClassVar[RuleTraits] = RuleTraits(needs_running_best=True)

    step: int = 1
    share: float | str = AUTO
    """A number in units of the score; ``auto`` is the usual room divided by ``usual``, or 0.002 with a known top."""
    top: float | str = AUTO
    """A number, or ``auto`` to learn it. Replays in no order (the lab, calibrate) give it a number (``with_top``)."""
    usual: float = 12.0
    """With ``share=auto``: candidates for a segment with the usual room, and so about the mean number of candidates."""
    prior_top: float = 0.0
    """With ``top=auto``: the top and the room to start from, if the room is above 0."""
    prior_room: float = 0.0
    reach: float = 0.0
    """0 means no bound."""
    cap: int = 0
    """Maximum number of candidates; 0 means the budget."""
    minimum: int = 2
    looks: int = 4
    budget: int = BUDGET
    signature: str = field(init=False)

    def __post_init__(self) -> None:
        self._check(reach=self.reach, cap=self.cap, prior_room=self.prior_room)
        for name in ("share", "top"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        if not math.isfinite(self.prior_top):
            raise UsageError(f"prior_top of the headroom rule must be a number, not {self.prior_top}")
        if not (math.isfinite(self.usual) and self.usual >= 1):
            raise UsageError(f"usual of the headroom rule must be a number of at least 1, not {self.usual}")
        if self.share == AUTO and self.top != AUTO:
            object.__setattr__(self, "share", SHARE)
        if self.cap:
            object.__setattr__(self, "budget", min(self.budget, self.cap))
        share = f"c:{text(self.share)}" if isinstance(self.share, float) else f"usual:{text(self.usual)}"
        known = f"|prior:{text(self.prior_top)},{text(self.prior_room)}" if self.learns and self.prior_room else ""
        reach = f"|reach:{text(self.reach)}" if self.reach else ""
        top = self.top if isinstance(self.top, str) else "unknown" if self.top == UNKNOWN else text(self.top)
        name = f"headroom|k:{self.step}|{share}|top:{top}{known}{reach}|{self._shared}"
        object.__setattr__(self, "signature", name)

    @property
    def threshold(self) -> float:
        return self.share if isinstance(self.share, float) else (self.prior_room or SHARE * self.usual) / self.usual

    @property
    def learns(self) -> bool:
        return self.top == AUTO

    @property
    def prior(self) -> Level | None:
        return Level(self.prior_top, self.prior_room) if self.prior_room else None

    @property
    def unknown(self) -> int:
        return max(self.minimum, round(self.usual))

    def learned(self, level: Level | None) -> Self:
        """The rule of one segment, by what is known when it begins: ``usual`` candidates if that is nothing."""
        if level is None:
            return replace(self, top=UNKNOWN, share=0.0, minimum=self.unknown)
        if self.share != AUTO:
            return replace(self, top=level.top)
        return replace(
            self, top=level.top, share=level.room / self.usual, cap=self.cap or round(USUAL_CAP * self.usual)
        )

    def open(self) -> Watch:
        """For one segment. A rule that learns and belongs to no run knows what its prior says."""
        if not self.learns:
            return self
        return LevelSteering(self).next(0).open()

    def steer(self) -> LevelSteering | None:
        return LevelSteering(self) if self.learns else None

    def signal(self, snapshot: Snapshot) -> float:
        mean = -math.inf if snapshot.mean is None else snapshot.mean
        return float(self.room(snapshot.score, mean, snapshot.size)) / snapshot.size

    def signals_of(self, scores: Floats, kept: Floats, sizes: Counts) -> Floats:
        """A steered run whose top is learned keeps means, since signals change with the top."""
        signals: Floats = self.room(scores, kept, sizes) / sizes
        return signals

    def with_top(self, top: float, spec: str) -> str:
        """The same rule as ``spec``, with the top as a number: for replays, and for segments without an order."""
        name = without_options(spec)
        options = spec[len(name) + 1 :]
        learned = ("top", "usual", "prior_top", "prior_room")
        kept = [one for one in options.split(",") if one and one.partition("=")[0] not in learned]
        return f"{name}:{','.join([f'top={top:.4g}', *kept])}"

    def room(self, best: Any, mean: Any, size: Any) -> Any:
        """How much may be left above the best score; takes arrays, too."""
        top = self.top if isinstance(self.top, float) else self.prior_top if self.prior_room else 1.0
        left = top - best
        if not self.reach:
            return left
        return np.where(size >= REACH_FROM, np.minimum(left, self.reach * (best - mean)), left)


def _number(name: str, value: float | str) -> float | str:
    if value == AUTO:
        return AUTO
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found) or (name == "share" and found < 0):
        least = " of at least 0" if name == "share" else ""
        raise UsageError(f"{name} of the headroom rule must be a number{least} or {AUTO}, not {value}")
    return found
