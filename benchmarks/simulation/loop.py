"""The simulated driver: the real engine on a virtual clock, with replicas and a reranker that take simulated time.

It does what ``quitmt.engine.driver`` does: whatever is asked for goes out at once, whatever has arrived is reranked in
one batch while generation goes on, a segment that stops is closed (what runs for it is aborted) and its slot refilled.
A request becomes calls of one step each (n = k), each sent to the replica with the fewest sequences outstanding; a
request arrives as a whole, as vLLM gives it without streaming.

Events are handled in the order of time: the end of a replica's step, and the end of a reranking.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quitmt.engine.driver import LOOKAHEAD
from quitmt.engine.engine import Engine
from quitmt.protocols import StoppingRule, Update
from quitmt.types import Draw, Request, Segment, Snapshot
from simulation.replay import CHARACTERS_PER_TOKEN, Position, Recording, ReplayReranker
from simulation.server import Replica, Server


@dataclass(frozen=True, slots=True)
class RerankCost:
    """Seconds of one reranking: a fixed part, and what each new candidate and each new ordered pair adds."""

    fixed: float = 0.0
    per_candidate: float = 0.0
    per_pair: float = 0.0

    def seconds(self, before: int, new: int) -> float:
        return self.per_candidate * new + self.per_pair * ((before + new) ** 2 - before**2)


@dataclass(slots=True)
class Result:
    """What a run did. Times in seconds of the virtual clock."""

    sizes: list[int]
    seconds: float = 0.0
    steady_rate: float = 0.0
    """Segments a second in the middle 60% of the time; a reranked candidate counts as its share of a segment."""
    latencies: list[float] = field(default_factory=list)
    tokens: int = 0
    used_tokens: int = 0
    requested: int = 0
    arrived: int = 0
    aborted: int = 0
    """Candidates asked for and dropped before they were complete."""
    rerank_seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.sizes) / self.seconds

    @property
    def wasted_share(self) -> float:
        return 1 - self.used_tokens / self.tokens


@dataclass(slots=True)
class _Open:
    """A segment in flight: its pool, when it was admitted, its running requests, the replicas that know its prompt."""

    segment: Segment
    pool: int
    position: int
    since: float
    running: set[tuple[int, int]] = field(default_factory=set)
    prefilled: set[int] = field(default_factory=set)


class Simulation:
    def __init__(
        self,
        recording: Recording,
        rule: StoppingRule,
        server: Server,
        cost: RerankCost,
        *,
        in_flight: int,
        replicas: int = 1,
        speculate: bool = False,
        oldest_first: bool = False,
        batch: int | None = None,
    ) -> None:
        """With ``batch`` segments come in batches of that size, as Ray gives them: a whole one is given when a whole
        one has been returned."""
        self._recording = recording
        self._rule = rule
        self._server = server
        self._cost = cost
        self._in_flight = in_flight
        self._batch = batch
        self._left: dict[int, int] = {}
        """Of each batch under way, how many of its segments are not done."""
        self._oldest_first = oldest_first
        self._reranker = ReplayReranker(recording)
        self._engine: Engine[Position] = Engine(self._reranker, rule, speculate=speculate)
        lengths = np.ascontiguousarray(recording.tokens).ravel()
        self._replicas = [Replica(server, lengths) for _ in range(replicas)]
        self._prompts = [
            server.template_tokens + len(pool.segment.source) // CHARACTERS_PER_TOKEN for pool in recording.pools
        ]
        self._used = np.cumsum(recording.tokens, axis=1)
        self._open: dict[str, _Open] = {}
        self._requested: dict[tuple[int, int], tuple[_Open, int, int]] = {}
        """(replica, request) → whose it is and which candidates."""
        self._reranking: tuple[Sequence[Update[Position]], Sequence[list[Snapshot]], float] | None = None
        self._rerank_end = math.inf
        self._submitted = 0
        self._progress = array("d")
        """Time, segment, candidates before and after, of each update that was reranked."""

    def run(self, pools: Sequence[int]) -> Result:
        """Simulate segments made of these pools, in this order."""
        self._waiting = deque(enumerate(pools))
        self._result = Result([0] * len(pools))
        self._turn(0.0)
        while self._open:
            times = [replica.clock if replica.stepping else math.inf for replica in self._replicas]
            now = min(times)
            if self._rerank_end <= now:
                self._end_reranking()
            else:
                number = times.index(now)
                times[number] = self._rerank_end
                self._end_step(number, min(times))
        self._result.tokens = sum(replica.tokens for replica in self._replicas)
        self._result.steady_rate = self._steady_rate()
        return self._result

    def _end_step(self, number: int, horizon: float) -> None:
        replica = self._replicas[number]
        for request in replica.run(horizon):
            opened, start, stop = self._requested.pop((number, request))
            opened.running.discard((number, request))
            candidates = self._recording.pools[opened.pool].candidates[start:stop]
            self._result.arrived += stop - start
            self._engine.feed(Draw(opened.segment, start, candidates))
        if not replica.stepping:
            self._turn(replica.clock)

    def _end_reranking(self) -> None:
        now, self._rerank_end = self._rerank_end, math.inf
        assert self._reranking is not None
        updates, snapshots, seconds = self._reranking
        self._reranking = None
        self._engine.settle(updates, snapshots, seconds)
        for update in updates:
            after = update.state.size
            self._progress.extend((now, update.state.number, after - len(update.candidates), after))
        self._turn(now)

    def _turn(self, now: float) -> None:
        """Start everything that can be started at this moment."""
        while True:
            self._close_finished(now)
            self._admit(now)
            requests = self._engine.requests()
            if not requests:
                break
            for request in requests:
                self._send(request)
        if self._reranking is None and self._engine.has_updates:
            self._rerank(now)
        for replica in self._replicas:
            replica.start(now)

    def _admit(self, now: float) -> None:
        while self._waiting and len(self._open) < self._in_flight:
            position, _ = self._waiting[0]
            if self._batch:
                number = position // self._batch
                if number not in self._left:
                    if len(self._left) * self._batch >= self._in_flight:
                        return
                    self._left[number] = min(self._batch, len(self._result.sizes) - number * self._batch)
                self._start(now)
                continue
            first = next(iter(self._open.values())).position if self._open else position
            if position - first >= LOOKAHEAD * self._in_flight:
                return
            self._start(now)

    def _start(self, now: float) -> None:
        position, pool = self._waiting.popleft()
        segment = Segment(f"{position}:{pool}")
        self._open[segment.id] = _Open(segment, pool, position, now)
        self._engine.admit(segment)

    def _send(self, request: Request) -> None:
        opened, step = self._open[request.segment.id], self._rule.step
        prompt, width = self._prompts[opened.pool], self._recording.tokens.shape[1]
        self._result.requested += request.stop - request.start
        for start in range(request.start, request.stop, step):
            stop = min(start + step, request.stop)
            number = min(range(len(self._replicas)), key=lambda n: self._replicas[n].outstanding)
            each = self._server.uncached_tokens(prompt)
            first = each if number in opened.prefilled else prompt
            opened.prefilled.add(number)
            key = opened.position if self._oldest_first else self._submitted
            self._submitted += 1
            offset = opened.pool * width + start
            call = self._replicas[number].submit(key, offset, stop - start, prompt, first, each)
            opened.running.add((number, call))
            self._requested[number, call] = (opened, start, stop)

    def _rerank(self, now: float) -> None:
        updates = self._engine.updates()
        new = sum(self._cost.seconds(update.state.size, len(update.candidates)) for update in updates)
        seconds = self._cost.fixed + new / len(self._replicas)  # one reranker a replica, which share each batch
        self._reranking = (updates, self._reranker.extend(updates), seconds)
        self._rerank_end = now + seconds
        self._result.rerank_seconds += seconds

    def _close_finished(self, now: float) -> None:
        for finished in self._engine.finished():
            opened = self._open.pop(finished.segment.id)
            if self._batch:
                number = opened.position // self._batch
                self._left[number] -= 1
                if not self._left[number]:
                    del self._left[number]
            for number, call in opened.running:
                self._replicas[number].abort(call)
                _, start, stop = self._requested.pop((number, call))
                self._result.aborted += stop - start
            size = finished.outcome.size
            self._result.sizes[opened.position] = size
            self._result.used_tokens += int(self._used[opened.pool, size - 1])
            self._result.latencies.append(now - opened.since)
            self._result.seconds = now

    def _steady_rate(self) -> float:
        times, numbers, before, after = np.array(self._progress).reshape(-1, 4).T
        sizes = np.array(self._result.sizes, float)[numbers.astype(int)]
        shares = (np.minimum(after, sizes) - np.minimum(before, sizes)) / sizes  # what came too late counts for nothing
        total = np.concatenate([[0.0], shares.cumsum()])
        start, stop = np.interp([0.2 * times[-1], 0.8 * times[-1]], np.concatenate([[0.0], times]), total)
        return float((stop - start) / (0.6 * times[-1]))


def simulate(pools: Sequence[int], *arguments: Any, **options: Any) -> Result:
    return Simulation(*arguments, **options).run(pools)
