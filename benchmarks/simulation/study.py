"""Which runs are made, each once: cases (reranker and rule), schedulings, segments in flight, replicas."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import numpy as np

from quitmt.protocols import StoppingRule
from quitmt.stop.fixed import Fixed
from quitmt.stop.window import Quit
from quitmt.types import Candidate, RecordedPool, Segment, Snapshot
from simulation.loop import RerankCost, Result, simulate
from simulation.replay import CHARACTERS_PER_TOKEN, Recording, StepAtATime
from simulation.server import Server

STEP, WINDOW, SPECULATIVE = "k at a time", "window at once", "speculative"
SCHEDULINGS = (STEP, WINDOW, SPECULATIVE)
FULL_REQUEST = 64
"""Candidates in one request of the full budget at once; only a matter of speed."""


@dataclass(frozen=True)
class Case:
    """A reranker's recording with a rule; ``alpha`` None is the full budget."""

    name: str
    recording: Recording
    cost: RerankCost
    step: int = 8
    window: int = 8
    alpha: float | None = 1e-3
    budget: int = 512

    def rule(self, scheduling: str) -> StoppingRule:
        rule: StoppingRule
        if self.alpha is not None:
            rule = Quit(self.step, self.window, self.alpha, self.budget)
        elif scheduling == STEP:
            rule = Fixed(self.budget, self.step)
        else:
            rule = Fixed(self.budget, math.gcd(self.budget, FULL_REQUEST * self.step))
        return StepAtATime(rule) if scheduling == STEP else rule

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, self.step, self.window if self.alpha else 0, self.alpha, self.budget)


class Study:
    """Runs what it is asked for, and remembers it."""

    def __init__(self, server: Server, *, rounds: float, least: int, seed: int) -> None:
        self.server = server
        self._rounds = rounds
        self._least = least
        self._seed = seed
        self._known: dict[tuple[object, ...], Result] = {}

    def run(self, case: Case, scheduling: str, in_flight: int, replicas: int = 1, oldest_first: bool = False) -> Result:
        if case.alpha is None and scheduling == SPECULATIVE:
            scheduling = WINDOW  # the full budget has no stop reason to run ahead of
        key = (case.key, scheduling, in_flight, replicas, oldest_first)
        if key not in self._known:
            start = time.perf_counter()
            self._known[key] = simulate(
                self._segments(len(case.recording.pools), in_flight),
                case.recording,
                case.rule(scheduling),
                self.server,
                case.cost,
                in_flight=in_flight,
                replicas=replicas,
                speculate=scheduling == SPECULATIVE,
                oldest_first=oldest_first,
            )
            took = time.perf_counter() - start
            print(f"{case.key} {scheduling}, {in_flight} in flight, {replicas} replicas: {took:.1f} s", file=sys.stderr)
        return self._known[key]

    def _segments(self, pools: int, in_flight: int) -> list[int]:
        """Every pool equally often, each round in an order of its own: the same mix of segments in every run."""
        rounds = math.ceil(max(self._least, self._rounds * in_flight) / pools)
        rng = np.random.default_rng(self._seed)
        return [int(pool) for _ in range(rounds) for pool in rng.permutation(pools)]

    def most_tokens_a_second(self, recording: Recording) -> float:
        """Of one replica with all its slots taken by such candidates, in the steady state."""
        tokens = float(recording.tokens.mean())
        prompts = [
            self.server.template_tokens + len(pool.segment.source) // CHARACTERS_PER_TOKEN for pool in recording.pools
        ]
        uncached = float(np.mean([self.server.uncached_tokens(prompt) for prompt in prompts]))
        held = float(np.mean(prompts)) + tokens / 2
        slots = min(self.server.max_sequences, self.server.kv_tokens / (float(np.mean(prompts)) + tokens))
        return slots / self.server.step_seconds(slots * (1 + uncached / tokens), slots * held)


def published_workload(server: Server, concurrency: int, prompt: int = 128, output: int = 128) -> float:
    """Tokens a second of the closed loop that benchmarks publish: so many requests under way, no shared prompt."""
    pool = RecordedPool(Segment("0"), (Candidate("x", tokens=output),))
    recording = Recording([pool], np.array([[output]]), [[Snapshot(1, 0, 0.0)]], 1)
    alone = server.changed({"template_tokens": str(prompt)})
    result = simulate([0] * (5 * concurrency + 45), recording, Fixed(1, 1), alone, RerankCost(), in_flight=concurrency)
    return result.tokens / result.seconds
