"""What a stopping rule costs beside scoring: CPU time of its looks over that of the reranker it watches.

    python benchmarks/rule_cost.py POOLS.jsonl.gz [--limit 40] [--rerank mbr:chrf]

Recorded pools go through the reranker in steps, as a live run would have it, until the rule stops; what the rule takes
to look is timed apart from what the reranker takes to score. The least of several rounds, in CPU seconds of this
process, everything compiled and warm.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from quitmt import rerank, stop
from quitmt.files.pools import read_pools
from quitmt.protocols import Reranker, StoppingRule, Update
from quitmt.types import RecordedPool

RULES = ("quit", "loss", "loss:most=0.00005", "headroom:top=1,minimum=16,looks=2")


async def collected(path: str, limit: int) -> list[RecordedPool]:
    pools = list[RecordedPool]()
    async for pool in read_pools(path):
        pools.append(pool)
        if len(pools) == limit:
            break
    return pools


def run(reranker: Reranker, rule: StoppingRule, pools: list[RecordedPool]) -> tuple[float, float, float]:  # type: ignore[type-arg]
    """CPU seconds of scoring, of the rule, and the mean number of candidates."""
    scoring = ruling = size = 0.0
    for pool in pools:
        state, watch, done = reranker.open(pool.segment), rule.open(), 0
        stop_reason = None
        while stop_reason is None and done < len(pool.candidates):
            stop_at = min(watch.horizon(done), len(pool.candidates))
            began = time.process_time()
            [snapshots] = reranker.extend([Update(state, pool.candidates[done:stop_at], rule.step)])
            scored = time.process_time()
            assert isinstance(snapshots, list)
            for snapshot in snapshots:
                stop_reason = watch.observe(snapshot)
                if stop_reason:
                    break
            ruling += time.process_time() - scored
            scoring += scored - began
            done = stop_at
        size += done
    return scoring, ruling, size / len(pools)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools")
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--rerank", default="mbr:chrf")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    pools = asyncio.run(collected(args.pools, args.limit))
    reranker = rerank.load(args.rerank)
    print(f"{args.rerank}, {len(pools)} pools, milliseconds of CPU a segment\n")
    print("| rule | mean N | scoring | rule | rule / scoring |\n|---|---:|---:|---:|---:|")
    for spec in RULES:
        rule = stop.load(spec)
        if getattr(rule, "needs_rivals", False) and not args.rerank.startswith("mbr:"):
            continue
        run(reranker, rule, pools[:2])
        rounds = [run(reranker, rule, pools) for _ in range(args.rounds)]
        scoring, ruling = min(one[0] for one in rounds), min(one[1] for one in rounds)
        cost = [1e3 * seconds / len(pools) for seconds in (scoring, ruling)]
        print(f"| {spec} | {rounds[0][2]:.0f} | {cost[0]:.2f} | {cost[1]:.3f} | {ruling / scoring:.1%} |")


if __name__ == "__main__":
    main()
