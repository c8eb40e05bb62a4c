"""Why a rule that saves candidates saves less time: candidates share their beginnings, and the first of them pay.

    python benchmarks/prefixes.py POOLS [--limit 40] [--model embedded:en-pt]

POOLS are whole ones of the embedded model. Its sampler computes one decoder row for each distinct beginning and never
one twice, so the rows of the first N candidates are what N candidates cost at best. For each rule: its mean N, the
speedup if every candidate cost the same, the speedup in rows, and their ratio, which no scheduling can exceed.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from quitmt import rerank_pool
from quitmt.bergamot.models import Vocabulary, load
from quitmt.files.pools import read_pools
from quitmt.types import RecordedPool

RULES = {
    "quit w=4": {"rule": "quit", "w": 4},
    "loss:most=0.0005": {"rule": "loss:most=0.0005"},
    "loss:most=0.002": {"rule": "loss:most=0.002"},
    "fixed:144": {"rule": "fixed:144"},
    "fixed:16": {"rule": "fixed:16"},
    "fixed:4": {"rule": "fixed:4"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools")
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--model", default="embedded:en-pt")
    args = parser.parse_args()
    pools = asyncio.run(_read(args.pools))[: args.limit]
    target = load(args.model).target
    grown = [rows(pool, target) for pool in pools]
    size = len(pools[0].candidates)
    whole = sum(one[-1] for one in grown)
    print(f"| rule | mean N | {size} / mean N | rows of all / rows | at best |\n|---|---:|---:|---:|---:|")
    for name, rule in RULES.items():
        outcomes = [rerank_pool(pool.candidates, pool.segment.source, n=size, support="all", **rule) for pool in pools]
        sizes = [outcome.size for outcome in outcomes]
        fewer = size * len(sizes) / sum(sizes)
        faster = whole / sum(one[used] for one, used in zip(grown, sizes, strict=True))
        print(f"| {name} | {sum(sizes) / len(sizes):.0f} | {fewer:.2f} | {faster:.2f} | {faster / fewer:.2f} |")


async def _read(path: str) -> list[RecordedPool]:
    return [pool async for pool in read_pools(path)]


def rows(pool: RecordedPool, target: Vocabulary) -> Sequence[int]:
    """How many distinct beginnings the first 0, 1, 2, … candidates have: the decoder's rows."""
    seen: set[tuple[int, ...]] = set()
    counts = [0]
    for candidate in pool.candidates:
        ids = target.encode(candidate.text)
        seen.update(tuple(ids[:length]) for length in range(len(ids)))
        counts.append(len(seen))
    return counts


if __name__ == "__main__":
    main()
