"""``--max-cost`` where no curve is known: does the mean cost come out as asked, and what is lost by not knowing it?

    python benchmarks/pacing.py POOLS.jsonl.gz [--score likelihood] [--costs 32 64 100] [--segments 200] [--runs 50]

Every pool is shuffled ``--orders`` times and cut into pools of ``--budget`` candidates. A run is so many of these in a
random order, steered as ``quitmt rerank --max-cost`` would, with its length known or, by ``--stream``, not known. The
rerankers are some that quitmt knows no curve of: chrF with 4-grams, a function of word overlap as a utility (both by
``--support``, which is that of the paper unless told), and as QE the logarithm of a recorded score, whose highest value
nobody tells.

The error is that of a run's mean cost. The rule in hindsight has the one threshold with which the same segments cost,
on average, what the run did cost; fixed N is the same number for each segment, at that cost. Regret is the mean over
runs. Anchors in the pools are used, and cost.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import quitmt
from quitmt import rerank
from quitmt.calibrate.observe import Observed, observe
from quitmt.files.pools import read_pools
from quitmt.plan.choose import Scored, Target, choose
from quitmt.protocols import RerankerTraits, traits_of
from quitmt.rerank import specs
from quitmt.stop.steering import Aimed, Steered
from quitmt.types import Outcome, RecordedPool, StopReason


def overlap(hypothesis: str, reference: str) -> float:
    """The F1 of words."""
    ours, theirs = set(hypothesis.split()), set(reference.split())
    return 2 * len(ours & theirs) / max(1, len(ours) + len(theirs))


class LogScore:
    """A quality estimator by a recorded score."""

    signature = "log"

    def __init__(self, name: str) -> None:
        self._name = name

    def score(self, pairs: Any) -> list[float]:
        return [math.log((candidate.scores or {})[self._name] + 1e-4) for _, candidate in pairs]


@dataclass(frozen=True)
class Seen:
    """What is needed of one pool: at the rule's looks, and of every size."""

    signals: Any
    scores: Any
    means: Any
    losses: Any
    anchors: int

    @classmethod
    def of(cls, one: Observed, steered: Steered, looks: list[int], anchors: int) -> Seen:
        snapshots = [one.snapshots[size - 1] for size in looks]
        signals = np.array([steered.rule.signal(snapshot) for snapshot in snapshots])
        means = [snapshot.score if snapshot.mean is None else snapshot.mean for snapshot in snapshots]
        losses = one.final[one.best[-1]] - one.final[one.best]
        return cls(signals, np.array([snapshot.score for snapshot in snapshots]), np.array(means), losses, anchors)

    def under(self, aimed: Aimed, looks: Any) -> Any:
        rule: Any = aimed.rule
        return rule.room(self.scores, self.means) / looks if aimed.records_mean else self.signals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools")
    parser.add_argument("--score", default="likelihood")
    parser.add_argument("--budget", type=int, default=256)
    parser.add_argument("--costs", type=float, nargs="+", default=[32, 64, 100])
    parser.add_argument("--step", type=int, default=8)
    parser.add_argument("--support", default="all", help="who judges a sample; anchor is the default of quitmt")
    parser.add_argument("--segments", type=int, default=200)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--stream", action="store_true", help="nobody knows how many segments come, as on a pipe")
    parser.add_argument("--only", help="rerankers with this in their name")
    parser.add_argument("--limit", type=int, help="the first pools only")
    args = parser.parse_args()
    pools = list(cut(asyncio.run(collected(args.pools))[: args.limit], args.budget, args.orders))
    scored = [pool for pool in pools if args.score in (pool.candidates[0].scores or {})]
    rerankers = {
        "mbr:chrf:order=4": (rerank.load("mbr:chrf:order=4", support=args.support), pools),
        "mbr: word overlap": (quitmt.mbr(overlap, support=args.support), pools),
        f"qe: log {args.score}": (quitmt.qe(LogScore(args.score)), scored),
    }
    print(f"{args.segments} segments, {args.runs} runs, pools of {args.budget}\n")
    print(
        "| reranker | pools | asked | mean cost | error, mean | 90% of runs | worst | regret / hindsight | / fixed N |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    for name, (reranker, own) in rerankers.items():
        if own and (args.only or "") in name:
            report(name, reranker, own, args)


def report(name: str, reranker: Any, pools: list[RecordedPool], args: Any) -> None:
    rules = {cost: granted(reranker, cost, args.step, args.budget) for cost in args.costs}
    rows: dict[float, list[Seen]] = {cost: [] for cost in rules}
    for pool in pools:
        (one,) = observe(reranker, [pool])
        for cost, steered in rules.items():
            rows[cost].append(Seen.of(one, steered, looks_of(steered), len(pool.anchors)))
    for cost, steered in rules.items():
        found = np.array([one_run(steered, rows[cost], args, seed) for seed in range(args.runs)])
        mean, regret, hindsight, fixed = found.T
        error, ratio = abs(mean / cost - 1), regret.mean() / hindsight.mean()
        print(
            f"| {name} | {len(pools)} | {cost:g} | {mean.mean():.1f} | {error.mean():.1%} | "
            f"{np.quantile(error, 0.9):.1%} | {error.max():.1%} | {ratio:.2f} | {regret.mean() / fixed.mean():.2f} |",
            flush=True,
        )


def granted(reranker: Any, cost: float, step: int, budget: int) -> Steered:
    """The rule that ``--max-cost`` gives."""
    traits, signed = traits_of(reranker, RerankerTraits), reranker.signature.partition("|")[0]
    scored = Scored(signed, traits, specs.entry_of(signed), k=step, n=budget)
    found = choose(scored, Target(max_cost=cost)).rule
    assert isinstance(found, Steered)
    return found


def looks_of(steered: Steered) -> list[int]:
    return list(steered.rule.sizes())[:-1]


def one_run(steered: Steered, rows: list[Seen], args: Any, seed: int) -> tuple[float, ...]:
    """Mean cost, regret, and the regrets of the rule in hindsight and of a fixed N at this cost."""
    looks = looks_of(steered)
    order = np.random.default_rng(seed).permutation(len(rows))[: args.segments]
    chosen, steering = [rows[place] for place in order], steered.steer()
    steering.expect(None if args.stream else len(chosen))
    ends, places = [*looks, steered.budget], np.array(looks)
    costs, losses, last = [], [], steering
    for position, row in enumerate(chosen):
        aimed: Any = steering.next(position)
        outcome = replayed(aimed, row, ends, places)
        steering.add(position, outcome)
        costs.append(outcome.cost)
        losses.append(row.losses[outcome.size - 1])
        last = aimed if aimed.rule.threshold > 0 else last  # the last segments all get the same number
    mean = float(np.mean(costs))
    table = np.array([row.losses for row in chosen])
    whole = mean - np.mean([row.anchors for row in chosen])
    fixed = np.interp(whole, np.arange(1, table.shape[1] + 1), table.mean(axis=0))
    signals = np.array([row.under(last, places) for row in chosen])
    return mean, float(np.mean(losses)), hindsight(signals, np.array(ends), table, float(whole)), float(fixed)


def replayed(aimed: Aimed, row: Seen, ends: list[int], places: Any) -> Outcome:
    signals, step = row.under(aimed, places), aimed.rule.step
    stops = [size for size, signal in zip(places, signals, strict=True) if signal <= aimed.rule.threshold]
    size = min([*stops, aimed.most, ends[-1]])
    stop_reason = StopReason.DECIDED if size in stops else StopReason.BUDGET
    seen = int((places <= size).sum())
    trajectory = np.zeros(size // step)
    trajectory[[one // step - 1 for one in ends[:seen]]] = row.scores[:seen]
    kept = (row.means if aimed.records_mean else signals)[:seen]
    found = Outcome("", "s", "t", 0, float(row.scores[seen - 1]), size, stop_reason, tuple(trajectory.tolist()))
    return replace(found, budget=aimed.budget, anchors=row.anchors, signals=tuple(kept.tolist()))


def hindsight(signals: Any, ends: Any, losses: Any, cost: float) -> float:
    """The regret of the one threshold with this mean cost; between two thresholds, of their mixture."""
    lowest = np.minimum.accumulate(signals, axis=1)
    grid = np.unique(np.quantile(lowest, np.linspace(0, 1, 400)))
    sizes = ends[(lowest[None] > grid[:, None, None]).sum(axis=2)]
    means = sizes.mean(axis=1)
    lost = np.take_along_axis(losses, sizes.T - 1, axis=1).mean(axis=0)
    order = np.argsort(means)
    return float(np.interp(cost, means[order], lost[order]))


def cut(pools: list[RecordedPool], budget: int, orders: int) -> Iterator[RecordedPool]:
    for order in range(orders):
        for number, pool in enumerate(pools):
            places = np.random.default_rng([order, number]).permutation(len(pool.candidates))
            for start in range(0, len(places) - budget + 1, budget):
                candidates = tuple(pool.candidates[place] for place in places[start : start + budget])
                yield replace(pool, candidates=candidates)


async def collected(path: str) -> list[RecordedPool]:
    return [pool async for pool in read_pools(path)]


if __name__ == "__main__":
    main()
