"""Preference pairs from pools that stopped early, beside those of full pools and of a fixed N at equal cost.

    python benchmarks/pairs.py POOLS.jsonl [--rerank mbr:chrf] [--limit 300] [--orders 2]

The pair of a pool is its best and its worst candidate, by its own scores when it stopped. Both are then judged by the
scores of the full pool: *chosen* is how far the chosen one is below the full pool's best, *rejected* how far the
rejected one is above its worst, *margin* the difference of the two as a share of the full pool's. Rules are those at
some threshold, chosen on the even segments for a mean cost; everything that is printed is of the odd ones, beside a
fixed N of the same mean cost there (between two sizes, in proportion). *both* watches the margin in QUIT's windows in
place of the best score: a rule for pairs.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from typing import Any

import numpy as np

from quitmt import rerank, stop
from quitmt.files.pools import read_pools
from quitmt.protocols import RerankerTraits, Update, ranked, traits_of
from quitmt.types import RecordedPool, Snapshot

STEP = 8
COSTS = (24, 48, 96, 160)
FAMILIES = {
    "loss": [f"loss:most={most:g}" for most in np.geomspace(1e-4, 3e-2, 14)],
    "headroom": [f"headroom:top=1,minimum=16,looks=2,share={share:g}" for share in np.geomspace(1e-4, 3e-2, 14)],
    "quit": [f"quit:{window}" for window in (2, 3, 4, 6, 8, 12, 16)],
    "both": [f"both:{alpha:g}" for alpha in np.geomspace(1e-4, 1e-1, 14)],
}


class Walked:
    """One pool, step by step: where it stands, and the pair it would give. Judged by the full pool."""

    def __init__(self, reranker: Any, pool: RecordedPool, order: np.ndarray) -> None:
        candidates = [pool.candidates[place] for place in order]
        state = reranker.open(pool.segment)
        self.snapshots: list[Snapshot] = []
        self.pairs: list[tuple[int, int]] = []
        self.margins: list[float] = []
        for start in range(0, len(candidates), STEP):
            [found] = reranker.extend([Update(state, candidates[start : start + STEP], STEP)])
            [snapshot] = found
            if snapshot.rivals:  # its numbers are wanted when it is watched, and they are of now
                told = snapshot.rivals()
                snapshot = replace(snapshot, rivals=lambda told=told: told)
            scores = ranked(reranker, state)
            self.snapshots.append(snapshot)
            self.pairs.append((scores[0][0], scores[-1][0]))
            self.margins.append(scores[0][1] - scores[-1][1])
        self.final = dict(scores)
        texts = {
            one.text: self.final[index] for index, one in reversed(list(enumerate(candidates))) if index in self.final
        }
        self.judged = {index: texts[candidates[index].text] for pair in self.pairs for index in pair}
        self.best, self.worst = scores[0][1], scores[-1][1]

    def at(self, step: int) -> tuple[float, float, float, float]:
        """Cost, what the chosen one lacks, what the rejected one has too much, and the margin's share."""
        chosen, rejected = (self.judged[index] for index in self.pairs[step])
        whole = self.best - self.worst
        share = (chosen - rejected) / whole if whole > 0 else 1.0
        return self.snapshots[step].size, self.best - chosen, rejected - self.worst, share

    def stop(self, spec: str, budget: int) -> int:
        """The step at which a rule stops."""
        name, _, value = spec.partition(":")
        if name == "both":
            return _windows(self.margins, 4, float(value))
        rule = stop.load("quit", w=int(value), n=budget) if name == "quit" else stop.load(spec, n=budget, k=STEP)
        watch = rule.open()
        for step, snapshot in enumerate(self.snapshots):
            if watch.observe(snapshot) is not None:
                return step
        return len(self.snapshots) - 1


def _windows(values: list[float], width: int, alpha: float) -> int:
    for end in range(width, len(values) + 1, width):
        window = values[end - width : end]
        if max(window) - min(window) <= alpha:
            return end - 1
    return len(values) - 1


def fixed(walks: list[Walked], cost: float) -> np.ndarray:
    """The mean figures of a fixed N: between two sizes, in proportion."""
    low = min(max(int(cost // STEP), 1), len(walks[0].snapshots)) - 1
    high = min(low + 1, len(walks[0].snapshots) - 1)
    one, other = (np.mean([walk.at(step) for walk in walks], axis=0) for step in (low, high))
    share = (cost - one[0]) / (other[0] - one[0]) if other[0] > one[0] else 0.0
    return one + min(max(share, 0.0), 1.0) * (other - one)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools")
    parser.add_argument("--rerank", default="mbr:chrf")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--orders", type=int, default=1)
    args = parser.parse_args()
    reranker = rerank.load(args.rerank, support="others" if args.rerank.startswith("mbr:") else None)
    pools = asyncio.run(_collected(args.pools, args.limit, args.rerank))
    budget = len(pools[0].candidates)
    generator = np.random.default_rng(0)
    walks: list[list[Walked]] = [[], []]
    for number, pool in enumerate(pools):
        for turn in range(args.orders):
            order = np.arange(budget) if turn == 0 else generator.permutation(budget)
            walks[number % 2].append(Walked(reranker, pool, order))
    spread = float(np.mean([walk.best - walk.worst for walk in walks[1]]))
    print(f"{len(pools)} pools of {budget}, {args.rerank}; held out: {len(walks[1])}; full margin: {spread:.4f}")
    print(f"{'rule':24} {'cost':>6} {'chosen':>8} {'rejected':>8} {'margin':>7}   fixed N: chosen, rejected, margin")
    for family, specs in FAMILIES.items():
        if family in ("loss", "headroom") and not stop.fits(
            stop.load(specs[0], n=budget), traits_of(reranker, RerankerTraits)
        ):
            continue
        report(specs, walks, budget)


def report(specs: list[str], walks: list[list[Walked]], budget: int) -> None:
    costs = [np.mean([walk.at(walk.stop(spec, budget))[0] for walk in walks[0]]) for spec in specs]
    for spec in dict.fromkeys(specs[int(np.argmin(np.abs(np.log(np.array(costs) / cost))))] for cost in COSTS):
        own = np.mean([walk.at(walk.stop(spec, budget)) for walk in walks[1]], axis=0)
        rival = fixed(walks[1], own[0])
        print(
            f"{spec:24} {own[0]:6.1f} {own[1]:8.4f} {own[2]:8.4f} {own[3]:7.1%}   "
            f"{rival[1]:8.4f} {rival[2]:8.4f} {rival[3]:7.1%}"
        )


async def _collected(path: str, limit: int, name: str) -> list[RecordedPool]:
    found: list[RecordedPool] = []
    async for pool in read_pools(path):
        if name.startswith("qe:recorded:") and name.split(":")[2] not in (pool.candidates[0].scores or {}):
            continue
        if not found or len(pool.candidates) == len(found[0].candidates):
            found.append(pool)
        if len(found) == limit:
            break
    return found


if __name__ == "__main__":
    main()
