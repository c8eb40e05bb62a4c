"""Several rerankers combined, with scores made comparable within each pool.

At each snapshot every reranker scores the candidates so far; a candidate's score is the weighted sum of

- ``scaled``: its scores in standard deviations from the samples' mean (0 if all samples are equally good);
- ``rank``: the share of the samples that it beats; equally good samples, including itself, count half.

Duplicate samples each count. A candidate that a reranker can't judge, such as a single sample in MBR, comes last for
that reranker. Ties go to anchors in their order, then to the lowest index.

Invariant: a snapshot depends only on the rerankers' scores at its size, not on the steps in which the pool grew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError, UsageError
from quitmt.metrics.combination import BY_POOL, Method, terms
from quitmt.protocols import Reranker, RerankerTraits, Update, ranked, traits_of
from quitmt.rerank.anchors import best_first, best_of, precedence
from quitmt.signature import field
from quitmt.types import Candidate, Segment, Snapshot

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Members:
    """One segment's candidates so far, and each reranker's state."""

    __slots__ = ("_become_samples", "anchors", "copies", "first", "scored", "size", "states")

    def __init__(self, states: Sequence[Any], *, become_samples: bool) -> None:
        self.states = states
        self._become_samples = become_samples
        """Whether an anchor whose text comes up as a sample counts as a sample, as in MBR."""
        self.size = 0
        self.anchors = 0
        self.first: dict[str, int] = {}
        """Distinct text → its candidate: an anchor or its first sample."""
        self.copies: dict[str, int] = {}
        """Distinct text → number of its samples."""
        self.scored: list[tuple[int, float]] = []

    def add(self, candidates: Sequence[Candidate], anchors: Sequence[Candidate]) -> None:
        for place, anchor in enumerate(anchors):
            self.first.setdefault(anchor.text, -1 - place)
            self.copies.setdefault(anchor.text, 0)
        self.anchors = max(self.anchors, len(anchors))
        for index, candidate in enumerate(candidates, start=self.size):
            if candidate.text not in self.first or (self._become_samples and not self.copies[candidate.text]):
                self.first[candidate.text] = index
            self.copies[candidate.text] = self.copies.get(candidate.text, 0) + 1
        self.size += len(candidates)


class Ensemble:
    """Rerankers of one kind that score every candidate (exact MBR, QE), combined by a ``method``."""

    def __init__(self, rerankers: Sequence[Reranker[Any]], weights: Sequence[float], method: Method) -> None:
        if method not in BY_POOL:
            raise UsageError(f"scores are combined by {' or '.join(BY_POOL)}, not by {method!r}")
        self._terms, self._method = terms(rerankers, weights), method
        self.scores_with = tuple(rerankers)
        self.traits = self.traits_with([traits_of(one, RerankerTraits) for one in rerankers])
        names = [f"{field(weight)}*{one.signature}" for one, weight in self._terms]
        self.signature = f"{self.traits.kind}:{method}:{'+'.join(names)}"

    @staticmethod
    def traits_with(members: Sequence[RerankerTraits]) -> RerankerTraits:
        """The traits by those of the members, which are known before the members are loaded."""
        return RerankerTraits(
            members[0].kind,
            needs_source=any(one.needs_source for one in members),
            snapshots_cost=True,
            takes_anchors=all(one.takes_anchors for one in members),
            comparable=False,
        )

    def open(self, segment: Segment) -> Members:
        states = [reranker.open(segment) for reranker, _ in self._terms]
        return Members(states, become_samples=self.traits.kind == "mbr")

    def ranked(self, state: Members) -> list[tuple[int, float]]:
        return best_first(state.scored)

    def extend(self, updates: Sequence[Update[Members]]) -> list[list[Snapshot] | QuitmtError]:
        found: list[list[Snapshot] | QuitmtError] = [[] for _ in updates]
        anchored = [(place, Update(one.state, (), one.stride, one.anchors)) for place, one in enumerate(updates)]
        self._round([(place, one) for place, one in anchored if one.anchors], found)
        most = max((math.ceil(len(one.candidates) / one.stride) for one in updates), default=0)
        for number in range(most):
            parts = []
            for place, one in enumerate(updates):
                part = one.candidates[number * one.stride : (number + 1) * one.stride]
                if part and not isinstance(found[place], QuitmtError):
                    parts.append((place, Update(one.state, part, len(part))))
            self._round(parts, found)
        return found

    def _round(self, parts: Sequence[tuple[int, Update[Members]]], found: list[list[Snapshot] | QuitmtError]) -> None:
        """Give every reranker one stride of each segment, all segments in one call, and take its snapshot."""
        for number, (reranker, _) in enumerate(self._terms):
            sound = [
                (place, Update(one.state.states[number], one.candidates, one.stride, one.anchors))
                for place, one in parts
                if not isinstance(found[place], QuitmtError)
            ]
            for (place, _), result in zip(sound, reranker.extend([one for _, one in sound]), strict=True):
                if isinstance(result, QuitmtError):
                    found[place] = result
        for place, one in parts:
            snapshots = found[place]
            if not isinstance(snapshots, QuitmtError):
                one.state.add(one.candidates, one.anchors)
                if one.candidates:
                    snapshots.append(self._stand(one.state))

    def _stand(self, state: Members) -> Snapshot:
        index, copies = _in_order(state)
        total: Floats = np.zeros(len(index))
        for (reranker, weight), part in zip(self._terms, state.states, strict=True):
            scores = _scores(index, ranked(reranker, part))
            total += weight * (_ranks(scores, copies) if self._method == "rank" else _scaled(scores, copies))
        state.scored = list(zip(index.tolist(), total.tolist(), strict=True))
        best = best_of(total, precedence(index, state.anchors))
        return Snapshot(state.size, int(index[best]), float(total[best]))


def _in_order(state: Members) -> tuple[Ints, Ints]:
    """The indices of the distinct candidates in order, and the number of samples of each."""
    pairs = sorted((index, state.copies[text]) for text, index in state.first.items())
    return np.array([index for index, _ in pairs], np.int64), np.array([count for _, count in pairs], np.int64)


def _scores(index: Ints, listed: Sequence[tuple[int, float]]) -> Floats:
    """Arrange a reranker's scores by candidate; −inf for a missing score."""
    scores = dict(listed)
    return np.array([scores.get(one, -np.inf) for one in index.tolist()], np.float64)


def _ranks(scores: Floats, copies: Ints) -> Floats:
    """Return the share of the samples that each candidate beats."""
    order = np.argsort(scores, kind="stable")
    values, groups = np.unique(scores[order], return_inverse=True)
    weight = np.bincount(groups, copies[order], len(values))
    below = np.cumsum(weight) - weight
    found = np.empty(len(scores))
    found[order] = (below + weight / 2)[groups] / copies.sum()
    return found


def _scaled(scores: Floats, copies: Ints) -> Floats:
    """Return the scores in standard deviations from the samples' mean."""
    finite = np.isfinite(scores)
    if not finite.any():
        return np.zeros(len(scores))
    filled = np.where(finite, scores, scores[finite].min())
    if filled.min() == filled.max():
        return np.zeros(len(scores))
    mean = float((filled * copies).sum() / copies.sum())
    spread = math.sqrt(float((copies * (filled - mean) ** 2).sum() / copies.sum()))
    found: Floats = (filled - mean) / max(spread, np.finfo(np.float64).tiny)
    return found
