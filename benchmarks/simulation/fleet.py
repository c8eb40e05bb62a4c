"""Many GPUs fed in batches: how long a corpus takes, extrapolated from runs of one worker.

A worker owns a GPU, takes whole batches and has some of them under way; a batch counts as one task, so its place is
free only when its last segment is done. Workers share nothing but the queue of batches. So one is simulated, twice:
with n and with 2n segments. The difference of the two is its steady rate, and what is left of the first run, start and
end, is paid once by the whole job:

    seconds = segments / (GPUs x rate) + start and end

Left out: reading, writing and moving rows, loading models, workers that differ or die.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quitmt.protocols import StoppingRule
from simulation.loop import RerankCost, Result, simulate
from simulation.replay import Recording
from simulation.server import Server
from simulation.tables import head, row

SIZES = (8, 16, 32, 64, 128, 256, 512)
LAYOUTS = tuple((size, under_way) for size in SIZES for under_way in (1, 2, 8) if size * under_way <= 512)
"""Segments a batch, and batches under way at a worker."""
CORPORA = (5_000_000, 100_000_000)
GPUS = (8, 64, 512)


@dataclass(frozen=True)
class Worker:
    rate: float
    """Segments a second."""
    tokens: float
    """A second."""
    ends: float
    """Seconds of start and end beyond the steady rate."""
    mean_size: float

    def hours(self, segments: int, gpus: int) -> float:
        return (segments / (gpus * self.rate) + self.ends) / 3600


def measure(
    recording: Recording, rule: StoppingRule, server: Server, cost: RerankCost, batch: int, under_way: int, least: int
) -> Worker:
    """Every pool comes equally often, so that both runs have the same mix of segments."""
    pools = len(recording.pools)
    rounds = max(math.ceil(least / pools), math.ceil(1.5 * batch * under_way / pools))

    def run(rounds: int) -> Result:
        rng = np.random.default_rng(0)
        segments = [int(pool) for _ in range(rounds) for pool in rng.permutation(pools)]
        return simulate(segments, recording, rule, server, cost, in_flight=batch * under_way, batch=batch)

    one, two = run(rounds), run(2 * rounds)
    seconds = two.seconds - one.seconds
    rate = rounds * pools / seconds
    ends = max(0.0, one.seconds - rounds * pools / rate)
    return Worker(rate, (two.tokens - one.tokens) / seconds, ends, float(np.mean(two.sizes)))


def show(
    recording: Recording, rules: dict[str, StoppingRule], server: Server, cost: RerankCost, most: float, least: int
) -> None:
    """``most`` tokens a second that a GPU can do."""
    best: dict[str, tuple[str, Worker]] = {}
    print(f"A GPU can do {most:,.0f} tokens a second.\n")
    head("rule", "mean N", "batch", "under way", "segments/s a GPU", "utilisation", "start and end, s")
    for name, rule in rules.items():
        for batch, under_way in LAYOUTS:
            worker = measure(recording, rule, server, cost, batch, under_way, least)
            shown = (f"{worker.rate:.2f}", f"{worker.tokens / most:.0%}", f"{worker.ends:.0f}")
            row(name, f"{worker.mean_size:.0f}", batch, under_way, *shown)
            if name not in best or worker.rate > best[name][1].rate:
                best[name] = (f"{under_way} × {batch}", worker)
    print()
    _show_hours(best, CORPORA, GPUS)


def _show_hours(best: dict[str, tuple[str, Worker]], corpora: Sequence[int], gpus: Sequence[int]) -> None:
    names = [f"{segments // 10**6} million on {count}" for segments in corpora for count in gpus]
    head("rule", "batches", *(f"{name}, hours" for name in names), "GPU hours per million")
    for name, (layout, worker) in best.items():
        hours = [f"{worker.hours(segments, count):,.1f}" for segments in corpora for count in gpus]
        row(name, layout, *hours, f"{10**6 / worker.rate / 3600:,.0f}")
