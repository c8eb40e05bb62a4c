"""What is replayed: recorded pools with their snapshots computed once, and rules that ask for less at a time.

Snapshots come from the real rerankers, so a simulated run stops exactly where a live run over the same pools does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError
from quitmt.files.pools import read_pools
from quitmt.protocols import Reranker, StoppingRule, Update, Watch
from quitmt.types import Candidate, RecordedPool, Segment, Snapshot, StopReason

CHARACTERS_PER_TOKEN = 4
"""For pools that do not say how many tokens their candidates have, and for sources."""


@dataclass(frozen=True)
class Recording:
    """Pools of equal size with everything a simulation looks up. ``tokens`` is [pool, candidate]."""

    pools: list[RecordedPool]
    tokens: npt.NDArray[np.int64]
    snapshots: list[list[Snapshot]]
    """Of each pool, after each ``stride`` candidates."""
    stride: int

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        return np.array([[snapshot.score for snapshot in trajectory] for trajectory in self.snapshots])


def read(path: str) -> list[RecordedPool]:
    async def collect() -> list[RecordedPool]:
        return [pool async for pool in read_pools(path)]

    return asyncio.run(collect())


def record(pools: Sequence[RecordedPool], reranker: Reranker[object], stride: int, budget: int) -> Recording:
    """Rerank every pool once; what the reranker cannot score, or is shorter than the budget, is left out."""
    kept, trajectories = [], []
    for pool in pools:
        candidates = pool.candidates[:budget]
        if len(candidates) < budget:
            continue
        (result,) = reranker.extend([Update(reranker.open(pool.segment), candidates, stride)])
        if not isinstance(result, QuitmtError):
            kept.append(RecordedPool(pool.segment, candidates))
            trajectories.append(result)
    if not kept:
        raise SystemExit(f"no pool has {budget} candidates that {reranker.signature} can score")
    return Recording(kept, np.array([[tokens(c) for c in pool.candidates] for pool in kept]), trajectories, stride)


def tokens(candidate: Candidate) -> int:
    """As recorded, else estimated from the characters, with the token that ends it."""
    known = candidate.tokens or (candidate.scores or {}).get("tokens")
    return max(1, int(known)) if known else 1 + round(len(candidate.text) / CHARACTERS_PER_TOKEN)


def stopping_sizes(scores: npt.NDArray[np.float64], stride: int, window: int, alpha: float) -> npt.NDArray[np.int64]:
    """Where QUIT stops, for all pools at once, straight from its definition (docs/method.md)."""
    pools, steps = scores.shape
    whole = scores[:, : steps // window * window].reshape(pools, -1, window)
    stable = whole.max(axis=2) - whole.min(axis=2) <= alpha
    first = np.where(stable.any(axis=1), stable.argmax(axis=1) + 1, 0)
    return np.where(first > 0, first * window * stride, steps * stride)


def match_alpha(scores: npt.NDArray[np.float64], stride: int, window: int, mean_size: float) -> float:
    """The alpha with which QUIT stops at a given mean size on these pools, by bisection."""
    low, high = -7.0, 0.0
    for _ in range(40):
        middle = (low + high) / 2
        if stopping_sizes(scores, stride, window, 10**middle).mean() > mean_size:
            low = middle
        else:
            high = middle
    return float(10**high)


class Position:
    """How far a segment is: its number in the run, its pool, and the candidates reranked so far."""

    __slots__ = ("number", "pool", "size")

    def __init__(self, number: int, pool: int) -> None:
        self.number = number
        self.pool = pool
        self.size = 0


class ReplayReranker:
    """Answers from a recording. Segment ids are "number:pool"."""

    signature = "replay"

    def __init__(self, recording: Recording) -> None:
        self._snapshots = recording.snapshots
        self._stride = recording.stride

    def open(self, segment: Segment) -> Position:
        number, pool = segment.id.split(":")
        return Position(int(number), int(pool))

    def extend(self, updates: Sequence[Update[Position]]) -> list[list[Snapshot]]:
        return [self._extend_one(update) for update in updates]

    def _extend_one(self, update: Update[Position]) -> list[Snapshot]:
        position = update.state
        start, position.size = position.size, position.size + len(update.candidates)
        known = self._snapshots[position.pool]
        every, first = update.stride // self._stride, (start + update.stride) // self._stride - 1
        return known[first : position.size // self._stride : every]


@dataclass(frozen=True, slots=True)
class StepAtATime:
    """Any rule, asked for one step at a time: what an engine does that does not know of horizons."""

    rule: StoppingRule

    @property
    def signature(self) -> str:
        return f"{self.rule.signature}|step-at-a-time"

    @property
    def step(self) -> int:
        return self.rule.step

    @property
    def budget(self) -> int:
        return self.rule.budget

    def open(self) -> _OneStep:
        return _OneStep(self.rule.open(), self.rule)


@dataclass(frozen=True, slots=True)
class _OneStep:
    watch: Watch
    rule: StoppingRule

    def observe(self, snapshot: Snapshot) -> StopReason | None:
        return self.watch.observe(snapshot)

    def horizon(self, size: int) -> int:
        return min(self.rule.budget, (size // self.rule.step + 1) * self.rule.step)
