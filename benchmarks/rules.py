"""Stopping rules on segments that their thresholds were not chosen on: at equal cost, and against QUIT.

    python benchmarks/rules.py POOLS.jsonl.gz [--rerank mbr:chrf] [--orders 3] [--splits 200] [--references TSV]

Every pool is taken in several random orders, all of which are on the same side of a split. On one half of the segments
a threshold is chosen, on the other half it is judged: beside a fixed N of exactly the same mean cost, or beside QUIT
(alpha = 0.001), where it is the cheapest that loses no more there. Regret is the score lost against the whole pool's
winner, both on the whole pool. Ratios are of means over splits; in brackets their 5th and 95th percentile. With a file
of sources and references, tab-separated, change is how far the choice's chrF++ is from that of the whole pool's winner,
in standard deviations over segments.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics import CHRF

from quitmt import rerank, stop
from quitmt.calibrate.observe import observe
from quitmt.files.pools import read_pools
from quitmt.lab.frames import QualityScores, Trajectories
from quitmt.lab.pools.trajectories import fitting_rules
from quitmt.lab.replay import frontier
from quitmt.lab.replay.frontier import Curve, Halved, Versus
from quitmt.lab.replay.rules import quit_rule
from quitmt.metrics.devices import Hardware
from quitmt.types import RecordedPool

COSTS = (64, 100, 150, 200, 250)
WINDOWS = (2, 4, 8, 16)
STEP = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools")
    parser.add_argument("--rerank", default="mbr:chrf", help="mbr:chrf, mbr:embedding, mbr:comet, qe:recorded:NAME …")
    parser.add_argument("--rules", nargs="+", default=list(stop.thresholds()), metavar="RULE")
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--limit", type=int, help="the first pools only")
    parser.add_argument("--references", metavar="TSV", help="source and reference a line, for the change of chrF++")
    parser.add_argument("--by-length", action="store_true", help="a candidate costs what it is long, not 1")
    parser.add_argument("--from", dest="source", help="language code")
    parser.add_argument("--to", dest="target", help="language code")
    args = parser.parse_args()
    pools = asyncio.run(collected(args.pools))
    if args.rerank.startswith("qe:recorded:"):  # not every pool of a file need have them
        name = args.rerank.removeprefix("qe:recorded:")
        pools = [pool for pool in pools if name in (pool.candidates[0].scores or {})]
    pools = pools[: args.limit]
    budget = max(len(pool.candidates) for pool in pools)
    hardware = Hardware() if rerank.Reranking(args.rerank).neural else None
    reranker = rerank.load(args.rerank, languages=(args.source, args.target), hardware=hardware)
    one = observed(reranker, args.rerank, pools, args.orders, args.rules, budget)
    split = np.tile(frontier.halves(len(pools), args.splits, 0), (1, args.orders))
    print(f"{args.rerank}, {len(pools)} pools of up to {budget} in {args.orders} orders, {args.splits} splits\n")
    quality = {"chrf++": changed(one, pools, args.references)} if args.references else {}
    losses = frontier.losses(one, quality, budget)
    quits = [
        frontier.single(f"quit w={w}", quit_rule(one, k=STEP, w=w, alpha=1e-3, budget=budget).size, losses)
        for w in WINDOWS
    ]
    rules = fitting_rules(args.rerank, args.rules, STEP, budget)
    curves = [frontier.threshold_curve(name, rule, one.signals[name], losses) for name, rule in rules.items()]
    fixed = frontier.fixed_curve(losses)
    if args.by_length:
        lengths = np.tile([np.mean([len(one.text) for one in pool.candidates]) for pool in pools], args.orders)
        fixed, *weighed = (weigh(curve, lengths / lengths.mean()) for curve in (fixed, *quits, *curves))
        quits, curves = weighed[: len(quits)], weighed[len(quits) :]
    report(fixed, quits, curves, split, [cost for cost in COSTS if cost < budget])


def weigh(curve: Curve, weights: Any) -> Curve:
    """With sizes in candidates of mean length."""
    return replace(curve, size=curve.size * weights)


def report(fixed: Curve, quits: list[Curve], curves: list[Curve], split: frontier.Halves, costs: list[int]) -> None:
    whole, rivals = Halved.of(fixed, split), [Halved.of(curve, split) for curve in quits]
    more = " change | fixed N | ratio |" if len(fixed.lost) > 1 else ""
    print(f"| rule | cost | threshold | mean N | regret ×10³ | fixed N, same cost | ratio | better |{more}")
    print("|---|---:|---:|---:|---:|---:|---:|---:|" + "---:|" * more.count("|"))
    wanted: list[tuple[Curve, float | None]] = [(curve, None) for curve in quits]
    wanted += [(curve, cost) for curve in curves for cost in costs]
    for curve, cost in wanted:
        held = frontier.at_cost(Halved.of(curve, split), whole, cost)
        if held is None:
            continue
        lost = frontier.versus(held.lost[0], held.rival_lost[0])
        at = "" if cost is None else f"{curve.thresholds[np.abs(curve.size.mean(axis=1) - cost).argmin()]:.3g}"
        print(
            f"| {curve.rule} | {cost or ''} | {at} | {held.size.mean():.0f} | {1e3 * lost.value:.3f} | "
            f"{1e3 * lost.rival:.3f} | {shown(lost)} | {lost.better:.0%} |{changes(held)}"
        )
    more = " change, ratio |" if len(fixed.lost) > 1 else ""
    print(f"\n| rule | against | its mean N | mean N | ratio | regret, ratio |{more}")
    print("|---|---|---:|---:|---:|---:|" + "---:|" * more.count("|"))
    for curve in (*curves, fixed):
        for rival in rivals:
            held = frontier.at_quality(Halved.of(curve, split), rival)
            size = frontier.versus(held.size, held.rival_size)
            lost = frontier.versus(held.lost[0], held.rival_lost[0])
            cells = [curve.rule, rival.rule, f"{size.rival:.0f}", f"{size.value:.0f}", shown(size), shown(lost)]
            cells += [shown(frontier.versus(*both)) for both in zip(held.lost[1:], held.rival_lost[1:], strict=True)]
            print(f"| {' | '.join(cells)} |")


def changes(held: frontier.HeldOut) -> str:
    found = [frontier.versus(*both) for both in zip(held.lost[1:], held.rival_lost[1:], strict=True)]
    return "".join(f" {one.value:.4f} | {one.rival:.4f} | {shown(one)} |" for one in found)


def changed(one: Trajectories, pools: list[RecordedPool], path: str) -> QualityScores:
    """chrF++ of every candidate that is the best at some size."""
    lines = Path(path).read_text("utf-8").splitlines()
    references = {source: reference for source, reference, *_ in (line.split("\t") for line in lines)}
    metric, known = CHRF(word_order=2), dict[tuple[int, str], float]()
    values = np.full(one.final.shape, np.nan)
    for row, winners in enumerate(one.best):
        order, number = divmod(row, len(pools))
        pool = pools[number]
        places = shuffled(order, number, len(pool.candidates))
        for index in np.unique(winners):
            text = pool.candidates[places[index]].text
            if (number, text) not in known:
                known[number, text] = metric.sentence_score(text, [references[pool.segment.source]]).score
            values[row, index] = known[number, text]
    return QualityScores("chrf++", "", lower_is_better=False, values=values)


def shuffled(order: int, number: int, size: int) -> Any:
    return np.random.default_rng([order, number]).permutation(size)


def shown(one: Versus) -> str:
    return "–" if one.ratio is None or one.span is None else f"{one.ratio:.2f} [{one.span[0]:.2f}, {one.span[1]:.2f}]"


async def collected(path: str) -> list[RecordedPool]:
    return [pool async for pool in read_pools(path)]


def observed(
    reranker: Any, spec: str, pools: list[RecordedPool], orders: int, rules: list[str], budget: int
) -> Trajectories:
    """Every pool in several random orders, the orders one after the other."""
    shape = orders * len(pools), budget
    best, score, final = np.empty(shape, np.int64), np.empty(shape), np.full(shape, np.nan)
    signals: dict[str, list[Any]] = {name: [] for name in fitting_rules(spec, rules, STEP, budget)}
    sizes = np.array([len(pool.candidates) for pool in pools] * orders)
    for row, size in enumerate(sizes):
        order, number = divmod(row, len(pools))
        places = shuffled(order, number, size)
        candidates = tuple(pools[number].candidates[place] for place in places)
        (one,) = observe(reranker, [replace(pools[number], candidates=tuple(candidates))])
        best[row, :size], best[row, size:] = one.best, one.best[-1]
        score[row, :size], score[row, size:] = one.score, one.score[-1]
        final[row, :size] = one.final
        for name, rule in fitting_rules(spec, rules, STEP, budget).items():
            signals[name].append(one.signals(rule))
    ids = tuple(f"{pools[row % len(pools)].segment.id}/{row // len(pools)}" for row in range(len(sizes)))
    nothing, found = np.zeros(len(sizes)), {name: tuple(own) for name, own in signals.items()}
    return Trajectories(spec, reranker.signature, ids, sizes, best, score, final, nothing, nothing, found)


if __name__ == "__main__":
    main()
