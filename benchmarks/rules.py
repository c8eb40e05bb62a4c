"""Stopping rules at equal cost: what each loses against the whole pool, beside a fixed number of candidates.

    python benchmarks/rules.py POOLS.jsonl.gz [--orders 3] [--rerank mbr:chrf]

Every pool is taken in several random orders. Regret is the score lost against the whole pool's winner, both on the
whole pool, ×10³; beside it that of the fixed N whose mean cost is the same, interpolated. The rules run in the real
engine over recorded pools.
"""

from __future__ import annotations

import argparse
import asyncio

import numpy as np

from quitmt import rerank, stop
from quitmt.engine.driver import Driver, in_order
from quitmt.files.pools import read_pools
from quitmt.generate.recorded import RecordedGenerator, RecordedPool
from quitmt.lab.sample import Pool
from quitmt.lab.trajectories import _running_maxima, _standings
from quitmt.rerank.mbr import Mbr
from quitmt.types import Segment

MBR_RULES = (
    ("quit", {"w": 2}), ("quit", {"w": 4}), ("quit", {"w": 8, "alpha": 1e-2}), ("quit", {"w": 8}),
    ("race:z=2,epsilon=0.002", {}), ("race:z=2.5,epsilon=0.003", {}), ("race:z=3,epsilon=0.002", {}),
    ("race:z=2.5,epsilon=0.005", {}),
)  # fmt: skip
QE_RULES = (
    ("quit", {"w": 2}), ("quit", {"w": 4}), ("quit", {"w": 8}), ("quit", {"w": 16}),
    ("headroom:share=0.008", {}), ("headroom:share=0.004", {}), ("headroom:share=0.002", {}),
    ("headroom:share=0.001", {}),
)  # fmt: skip


async def collected(path: str) -> list[RecordedPool]:
    return [pool async for pool in read_pools(path)]


def shuffled(pools: list[RecordedPool], orders: int) -> list[RecordedPool]:
    found = []
    for order in range(orders):
        for number, pool in enumerate(pools):
            places = np.random.default_rng([order, number]).permutation(len(pool.candidates))
            segment = Segment(f"{pool.segment.id}/{order}", pool.segment.source)
            found.append(RecordedPool(segment, tuple(pool.candidates[place] for place in places)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools")
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--rerank", default="mbr:chrf")
    parser.add_argument("--limit", type=int)
    args = parser.parse_args()
    found = asyncio.run(collected(args.pools))
    if args.rerank.startswith("qe:recorded:"):  # not every pool of a file need have them
        name = args.rerank.removeprefix("qe:recorded:")
        found = [pool for pool in found if name in (pool.candidates[0].scores or {})]
    pools = shuffled(found[: args.limit], args.orders)
    reranker = rerank.load(args.rerank)
    rows = [Pool(pool.segment, pool.candidates, 0.0) for pool in pools]
    if isinstance(reranker, Mbr):
        known = [row for one in rows for row in _standings(reranker, [one], keep_pairs=False)]
    else:
        known = [row for one in rows for row in _running_maxima(reranker, [one])]  # type: ignore[arg-type]
    budget = max(len(pool.candidates) for pool in pools)
    best = {pool.segment.id: row["final"].max() for pool, row in zip(pools, known, strict=True)}
    final = {pool.segment.id: row["final"] for pool, row in zip(pools, known, strict=True)}
    fixed = np.array(
        [
            np.mean([row["final"].max() - row["final"][row["best"][min(n, len(row["best"])) - 1]] for row in known])
            for n in range(1, budget + 1)
        ]
    )

    async def run(spec: str, settings: dict[str, float]) -> list[tuple[str, int, int]]:
        rule = stop.load(spec, n=budget, **settings)  # type: ignore[arg-type]
        driver = Driver(RecordedGenerator(pools), reranker, rule)
        segments = [pool.segment for pool in pools]
        outcomes = [one.outcome async for one in in_order(driver.run(segments))]
        return [(one.id, one.size, one.index or 0) for one in outcomes]

    print(f"{args.rerank}, {len(pools)} pools of up to {budget}\n")
    print("| rule | mean N | full | regret ×10³ | fixed N, same cost | ratio |\n|---|---:|---:|---:|---:|---:|")
    for spec, settings in MBR_RULES if isinstance(reranker, Mbr) else QE_RULES:
        found = asyncio.run(run(spec, dict(settings)))
        size = float(np.mean([n for _, n, _ in found]))
        lost = float(np.mean([best[id] - final[id][index] for id, _, index in found]))
        rival = float(np.interp(size, np.arange(1, budget + 1), fixed))
        name = " ".join([spec, *(f"{key}={value:g}" for key, value in settings.items())])
        full = np.mean([n >= budget for _, n, _ in found])
        print(f"| {name} | {size:.0f} | {full:.0%} | {1e3 * lost:.3f} | {1e3 * rival:.3f} | {lost / rival:.2f} |")


if __name__ == "__main__":
    main()
