"""The candidates of one source in columns, the best first.

A source has many candidates, and few of them become rows: an object is only made of one that does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from quitmt.types import Ranked


@dataclass(frozen=True, slots=True)
class RankedPool:
    """Distinct candidates that have a score. The columns are the fields of ``Ranked``."""

    indexes: Sequence[int] = ()
    texts: Sequence[str] = ()
    scores: Sequence[float] = ()
    counts: Sequence[int] = ()
    log_probabilities: Sequence[float | None] = ()
    origins: Sequence[str] = ()

    @classmethod
    def of(cls, ranked: Sequence[Ranked]) -> RankedPool:
        return cls(*zip(*map(_FIELDS, ranked), strict=True))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, place: int) -> Ranked:
        return Ranked(
            self.indexes[place],
            self.texts[place],
            self.scores[place],
            self.counts[place],
            self.log_probabilities[place],
            self.origins[place],
        )

    @property
    def weights(self) -> list[int]:
        """Each sample counts, and an anchor that is none counts once."""
        return [count or 1 for count in self.counts]


_FIELDS = attrgetter("index", "text", "score", "count", "log_probability", "origin")
