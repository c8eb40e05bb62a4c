"""What the lab computes with: arrays over (segment, pool size) and (segment, candidate), one row a segment.

A replay never samples and never scores: everything it needs is in these arrays, which come from the pools once.

Invariants:
- ``best[s, n - 1]`` is the index of the winner among the first n candidates of segment s, ``score[s, n - 1]`` its score
  there: exactly what a live run over the same pool would have seen. Where a pool has fewer than n candidates, its last
  snapshot is repeated.
- Seconds that were measured live and seconds estimated from a replay never meet in one column: ``RuleSeconds`` says
  which they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Trajectories:
    """One reranker over all pools. N is the largest pool's size."""

    reranker: str
    """As the study names it: ``mbr:chrf``, ``qe:likelihood``."""
    signature: str
    ids: tuple[str, ...]
    sizes: Ints
    """[S]: how many candidates each pool has."""
    best: Ints
    """[S, N]"""
    score: Floats
    """[S, N]"""
    final: Floats
    """[S, N + anchors]: each candidate's score on the whole pool; NaN where there is no candidate. Anchors stand at the
    end of a row, the first one last, so that their indices, from -1 downwards, find them."""
    generate_seconds: Floats
    """[S]: measured, for the whole pool."""
    rerank_seconds: Floats
    """[S]: measured, for the whole pool at once."""
    signals: Mapping[str, tuple[Floats, ...]] = field(default_factory=dict)
    """By rule, as the study names it, a segment each: what the rule sees at its looks."""
    anchors: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    """[S], or [1] for all: how many anchors each pool has."""
    anchor_seconds: Floats = field(default_factory=lambda: np.zeros(1))
    """[S], or [1] for all: measured; every rule pays for all of them."""

    @property
    def is_mbr(self) -> bool:
        return self.reranker.startswith("mbr:")


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a rule would have done on each segment."""

    name: str
    """As tables have it: ``Unaccelerated``, ``QUIT w=8``, ``Fixed-N* (w=8)``, ``PruneMBR``."""
    reranker: str
    size: Ints
    """[S]: candidates used."""
    index: Ints
    """[S]: the winner."""
    score: Floats
    """[S]: the winner's score on the whole pool, which makes rules comparable."""
    full: npt.NDArray[np.bool_]
    """[S]: whether the whole budget was used."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """k, w, alpha, n of QUIT; n of a fixed size."""

    @property
    def key(self) -> str:
        """The name with the settings: tells the rules of one reranker apart, as QUIT w=8 with different α and k.

        Rules with the same key chose the same.
        """
        settings = ", ".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        return f"{self.name} ({settings})" if settings else self.name

    @property
    def mean_size(self) -> float:
        return float(self.size.mean())


@dataclass(frozen=True, slots=True)
class QualityScores:
    """One external metric's scores of candidates, in its published direction and scale."""

    metric: str
    signature: str
    lower_is_better: bool
    values: Floats
    """[S, N + anchors], as in ``Trajectories.final``: NaN where nobody needed it."""

    def of(self, replayed: Replayed) -> Floats:
        """[S]: of what a rule chose."""
        return np.asarray(self.values[np.arange(len(replayed.index)), replayed.index])


@dataclass(frozen=True, slots=True)
class RuleSeconds:
    """What a rule cost in all; ``live`` if it was measured in a run of that rule, else estimated from a replay."""

    generate: float
    rerank: float
    live: bool

    @property
    def total(self) -> float:
        return self.generate + self.rerank
