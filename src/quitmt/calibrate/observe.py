"""The observations of rules on a recorded pool: the winner after each candidate, and the signals at their looks.

A replay of any rule needs only these, and no reranker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt import stop
from quitmt.errors import QuitmtError, UsageError, setting
from quitmt.protocols import Reranker, Update
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.qe import Qe
from quitmt.stop.threshold import Threshold
from quitmt.types import RecordedPool, Snapshot

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Observed:
    """One pool of n candidates."""

    best: Ints
    """[n]: the index of the winner among the first 1, 2, … candidates."""
    score: Floats
    """[n]: the winner's score there."""
    final: Floats
    """[n + anchors]: each candidate's score on the whole pool. Anchors come after the samples in reverse, so that their
    negative indices find them."""
    snapshots: Sequence[Snapshot]
    """After each candidate, for signals."""
    known: Mapping[str, Floats] = field(default_factory=dict)
    """Signals computed before the snapshots were dropped, by kind of rule."""

    def without_snapshots(self, rules: Sequence[Threshold]) -> Observed:
        """A copy with only the signals of these rules; snapshots would keep everything that MBR compared in memory.
        Snapshots of QE need no memory, so they stay."""
        if isinstance(self.snapshots, Running):
            return self
        known = {_kind(rule): self.signals(rule) for rule in rules}
        return replace(self, snapshots=(), known=known)

    def signals(self, rule: Threshold) -> Floats:
        """A rule's signals at its looks. It does not look at its budget, or at the end of a pool that ends earlier."""
        if _kind(rule) in self.known:
            return self.known[_kind(rule)]
        rule = stop.within(rule, len(self.snapshots))
        looks = [n for n in rule.sizes() if n < rule.budget]
        return np.array([rule.signal(self.snapshots[n - 1]) for n in looks])


def _kind(rule: Threshold) -> str:
    """The same text for rules that differ only in their threshold, which have the same signals."""
    return rule.at(0.0).signature


@dataclass(frozen=True, slots=True)
class Running(Sequence[Snapshot]):
    """The snapshots of QE after each candidate, made when they are read."""

    best: Ints
    score: Floats
    final: Floats

    def __len__(self) -> int:
        return len(self.best)

    def __getitem__(self, place: Any) -> Any:
        return Snapshot(
            place + 1, int(self.best[place]), float(self.score[place]), scores=partial(_first, self.final, place + 1)
        )


def observe(reranker: Reranker[Any], pools: Sequence[RecordedPool]) -> list[Observed]:
    """Several pools in one call, so that an encoder's batches are full."""
    observable = check(reranker)
    return _observe_mbr(observable, pools) if isinstance(observable, Mbr) else _observe_qe(observable, pools)


def check(reranker: Reranker[Any]) -> Mbr[Any] | Qe:
    """Raise an error if rules cannot be replayed on a reranker."""
    if isinstance(reranker, Mbr | Qe):
        return reranker
    raise UsageError(
        f"rules are replayed on exact mbr: and on qe:, not on {reranker.signature.partition('|')[0]}",
        hint=f"leave out {setting('rerank.variant')} and {setting('rerank.filter')}",
    )


def _observe_mbr(reranker: Mbr[Any], pools: Sequence[RecordedPool]) -> list[Observed]:
    states = [reranker.open(pool.segment) for pool in pools]
    updates = [Update(state, pool.candidates, 1, pool.anchors) for state, pool in zip(states, pools, strict=True)]
    found = []
    for state, snapshots in zip(states, reranker.extend(updates), strict=True):
        if isinstance(snapshots, QuitmtError):
            raise snapshots
        best = np.array([one.best for one in snapshots], np.int64)
        score = np.array([one.score for one in snapshots])
        final = state.scores(state.size, len(state.pairs.first))[[*state.order[: state.size], *state.anchors[::-1]]]
        found.append(Observed(best, score, final, snapshots))
    return found


def _observe_qe(reranker: Qe, pools: Sequence[RecordedPool]) -> list[Observed]:
    found = []
    ordered = [(pool.segment, [*pool.anchors, *pool.candidates]) for pool in pools]
    for scores, pool in zip(reranker.scores(ordered), pools, strict=True):
        if isinstance(scores, QuitmtError):
            raise scores
        anchors, every = len(pool.anchors), np.array(scores, np.float64)
        running = np.maximum.accumulate(every)
        record = np.concatenate(([True], every[1:] > running[:-1]))
        place = np.maximum.accumulate(np.where(record, np.arange(len(every)), 0))[anchors:]
        best, score = np.where(place < anchors, -1 - place, place - anchors), running[anchors:]
        final = np.concatenate([every[anchors:], every[:anchors][::-1]])
        found.append(Observed(best, score, final, Running(best, score, final)))
    return found


def _first(scores: Floats, count: int) -> Floats:
    return scores[:count]
