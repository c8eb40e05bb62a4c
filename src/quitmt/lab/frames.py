"""The arrays that the lab computes with, over (segment, pool size) and (segment, candidate), one row per segment.

A replay never samples and never scores: these arrays hold everything it needs, and they are made from the pools once.

Invariants:
- ``best[s, n - 1]`` is the index of the winner among the first n candidates of segment s, and ``score[s, n - 1]`` its
  score at that point: exactly what a live run over the same pool would have seen. A pool with fewer than n candidates
  repeats its last snapshot.
- Seconds measured live and seconds estimated from a replay never share a column: ``RuleSeconds`` says which they are.
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
    """One reranker over all pools. N is the size of the largest pool."""

    reranker: str
    """Its name in the study: ``mbr:chrf``, ``qe:likelihood``."""
    signature: str
    ids: tuple[str, ...]
    sizes: Ints
    """[S]: the number of candidates in each pool."""
    best: Ints
    """[S, N]"""
    score: Floats
    """[S, N]"""
    final: Floats
    """[S, N + anchors]: each candidate's score on the whole pool; NaN where there is no candidate. Anchors are at the
    end of a row in reverse, so that their indices (-1 for the first, then downwards) find them."""
    generate_seconds: Floats
    """[S]: measured, for the whole pool."""
    rerank_seconds: Floats
    """[S]: measured, for the whole pool at once."""
    signals: Mapping[str, tuple[Floats, ...]] = field(default_factory=dict)
    """By rule, as the study names it: one array per segment with the rule's signal at each of its looks."""
    anchors: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    """[S], or [1] for all: the number of anchors in each pool."""
    anchor_seconds: Floats = field(default_factory=lambda: np.zeros(1))
    """[S], or [1] for all: measured; every rule pays for all anchors."""

    @property
    def is_mbr(self) -> bool:
        return self.reranker.startswith("mbr:")


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a rule would have done on each segment."""

    name: str
    """As tables show it: ``Unaccelerated``, ``QUIT w=8``, ``Fixed-N* (w=8)``, ``PruneMBR``."""
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
    """k, w, alpha and n of QUIT; n of a fixed size."""

    @property
    def key(self) -> str:
        """The name with the settings, which distinguishes the rules of one reranker, such as QUIT w=8 with different α.

        Rules with the same key made the same choices.
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
    """[S, N + anchors], as in ``Trajectories.final``; NaN for candidates that were not scored."""

    def of(self, replayed: Replayed) -> Floats:
        """[S]: the scores of a rule's choices."""
        return np.asarray(self.values[np.arange(len(replayed.index)), replayed.index])


@dataclass(frozen=True, slots=True)
class RuleSeconds:
    """A rule's total cost; ``live`` if it was measured in a run of that rule, otherwise estimated from a replay."""

    generate: float
    rerank: float
    live: bool

    @property
    def total(self) -> float:
        return self.generate + self.rerank
