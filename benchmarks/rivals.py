"""Stopping rules of others beside ours, on segments that their thresholds were not chosen on.

    python benchmarks/rivals.py POOLS.jsonl … [--rerank mbr:chrf] [--support all] [--orders 2] [--splits 200]

A cell is the regret of a rule as a share of that of a fixed N of exactly the same mean cost: below 1 the rule is
better. Every pool is taken in several random orders. On one half of the segments the threshold for a cost is chosen, on
the other half it is judged, for many random halves; in brackets the 5th and 95th percentile over them. QUIT has no
threshold to choose: its mean N stands before its share. Anchors, if pools have any, are not shuffled, and cost the same
for all. ``benchmarks/rules.py`` has more about ours alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from quitmt import rerank, stop
from quitmt.calibrate.observe import observe
from quitmt.files.pools import read_pools
from quitmt.lab.frames import Trajectories
from quitmt.lab.replay import frontier
from quitmt.lab.replay.frontier import Halved
from quitmt.lab.replay.rules import quit_rule
from quitmt.protocols import RerankerTraits, traits_of
from quitmt.stop.threshold import Threshold
from quitmt.types import RecordedPool

sys.path.append(str(Path(__file__).parents[1] / "examples"))  # for rival_rules
RULES = (
    "loss",
    "loss:new=0.1,scale=1,minimum=32",
    "headroom:top=1,minimum=16,looks=2",
    *(f"rival_rules:{rule}" for rule in ("Race", "Pandora", "Pandora:scale=20", "Beacon")),
)
VOTES = "consistency"
COSTS = (12, 16, 24, 32, 48, 64, 100, 150, 200, 250)
WINDOWS = (2, 4, 8)
STEP = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="+")
    parser.add_argument("--rerank", default="mbr:chrf", help="mbr:chrf, mbr:vote:builtins:str, qe:recorded:NAME …")
    parser.add_argument("--support", default="all", help="who judges, for mbr: (all)")
    parser.add_argument("--rules", nargs="+", metavar="RULE")
    parser.add_argument("--costs", nargs="+", type=int, default=COSTS)
    parser.add_argument("--orders", type=int, default=2)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--limit", type=int, help="the first pools only")
    parser.add_argument("-k", type=int, default=STEP)
    args = parser.parse_args()
    support = args.support if args.rerank.startswith("mbr:") else None
    reranker = rerank.load(args.rerank, support=support)
    for path in args.pools:
        pools = asyncio.run(collected(path, args.rerank))[: args.limit]
        if args.support == "all":  # plain pools, as in the paper
            pools = [replace(pool, anchors=()) for pool in pools]
        compare(path, pools, reranker, args)


async def collected(path: str, spec: str) -> list[RecordedPool]:
    pools = [pool async for pool in read_pools(path)]
    if spec.startswith("qe:recorded:"):  # not every pool of a file need have them
        name = spec.removeprefix("qe:recorded:")
        pools = [pool for pool in pools if name in (pool.candidates[0].scores or {})]
    return pools


def compare(path: str, pools: list[RecordedPool], reranker: Any, args: argparse.Namespace) -> None:
    budget = max(len(pool.candidates) for pool in pools)
    traits = traits_of(reranker, RerankerTraits)
    names = args.rules or (*RULES, *([VOTES] if traits.votes else []))
    loaded = {name: stop.load_threshold(name, k=args.k, n=budget) for name in names}
    rules = {name: rule for name, rule in loaded.items() if stop.fits(rule, traits)}
    one = observed(reranker, args.rerank, pools, args.orders, rules, budget)
    losses = frontier.losses(one, {}, budget)
    split = np.tile(frontier.halves(len(pools), args.splits, 0), (1, args.orders))
    fixed = Halved.of(frontier.fixed_curve(losses), split)
    costs = [cost for cost in args.costs if cost < budget]
    print(
        f"\n{path}: {args.rerank}, support {args.support}, {len(pools)} pools of up to {budget}, {args.orders} orders\n"
    )
    print(f"| rule | {' | '.join(f'N = {cost}' for cost in costs)} |")
    print("|---|" + "---|" * len(costs))
    for name, rule in rules.items():
        curve = Halved.of(frontier.threshold_curve(name, rule, one.signals[name], losses), split)
        print(f"| `{name}` | {' | '.join(cell(curve, fixed, cost) for cost in costs)} |", flush=True)
    for w in WINDOWS:
        size = quit_rule(one, k=args.k, w=w, alpha=1e-3, budget=budget).size
        curve = Halved.of(frontier.single(f"quit w={w}", size, losses), split)
        print(f"| quit, w = {w} | {size.mean():.0f}: {cell(curve, fixed, None)} |" + " |" * (len(costs) - 1))


def cell(curve: Halved, fixed: Halved, cost: float | None) -> str:
    held = frontier.at_cost(curve, fixed, cost)
    if held is None:
        return "–"
    found = frontier.versus(held.lost[0], held.rival_lost[0])
    if found.ratio is None or found.span is None:
        return "–"
    return f"{found.ratio:.2f} [{found.span[0]:.2f}, {found.span[1]:.2f}]"


def observed(
    reranker: Any, spec: str, pools: list[RecordedPool], orders: int, rules: dict[str, Threshold], budget: int
) -> Trajectories:
    """Every pool in several random orders, the orders one after the other."""
    anchors = max(len(pool.anchors) for pool in pools)
    shape = orders * len(pools), budget
    best, score = np.empty(shape, np.int64), np.empty(shape)
    final = np.full((shape[0], budget + anchors), np.nan)
    signals: dict[str, list[Any]] = {name: [] for name in rules}
    sizes = np.array([len(pool.candidates) for pool in pools] * orders)
    for row, size in enumerate(sizes):
        order, number = divmod(row, len(pools))
        pool = pools[number]
        places = np.random.default_rng([order, number]).permutation(size)
        (one,) = observe(reranker, [replace(pool, candidates=tuple(pool.candidates[place] for place in places))])
        best[row, :size], best[row, size:] = one.best, one.best[-1]
        score[row, :size], score[row, size:] = one.score, one.score[-1]
        final[row, :size] = one.final[:size]
        if pool.anchors:
            final[row, -len(pool.anchors) :] = one.final[size:]
        for name, rule in rules.items():
            signals[name].append(one.signals(rule))
    ids = tuple(f"{pools[row % len(pools)].segment.id}/{row // len(pools)}" for row in range(len(sizes)))
    nothing, found = np.zeros(len(sizes)), {name: tuple(own) for name, own in signals.items()}
    return Trajectories(spec, reranker.signature, ids, sizes, best, score, final, nothing, nothing, found)


if __name__ == "__main__":
    main()
