"""Whether guarantees about quality are kept, and what they cost: calibrate on random samples of segments, judge on all.

    python benchmarks/guarantees.py POOLS.jsonl [POOLS …] --tsv NEWS.tsv [--rerank mbr:chrf] [--splits 200]

Each line has source <tab> reference; references are found by the source. A guarantee is *broken* if the rule
that was chosen is not within the margin. Two ways to find out:

- *Samples*: all segments are taken for the whole world. Calibration sets are drawn from it with replacement. The mean
  difference of a rule in that world, and σ, are known exactly: the guarantee is broken or it is not. Nothing is noise.
- *Halves*: one random half calibrates, the other judges. Its mean difference is an estimate with an error of its own,
  so it lies outside the margin by chance now and then, also for a rule that keeps its guarantee.

The share of broken guarantees comes with its 95% interval (Clopper-Pearson). Where nothing is proven, the whole pool is
used, which breaks nothing and costs everything.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import beta

from quitmt import rerank, stop
from quitmt.calibrate import choose, quality
from quitmt.calibrate.families import Family
from quitmt.calibrate.observe import Observed, observe
from quitmt.calibrate.quality import SAVES, QualityRequest
from quitmt.calibrate.winners import JudgedRules, winners
from quitmt.evaluate import metrics
from quitmt.files.pools import read_pools
from quitmt.types import RecordedPool

WISHES = (QualityRequest(0.02), QualityRequest(0.02, not_worse=True), QualityRequest(0.05))


async def collected(paths: list[str], budget: int) -> list[RecordedPool]:
    found = {}
    for path in paths:
        async for pool in read_pools(path):
            if len(pool.candidates) >= budget:
                found.setdefault(pool.segment.source, replace(pool, candidates=pool.candidates[:budget]))
    return list(found.values())


@dataclass(frozen=True)
class World:
    found: list[Family]
    judged: JudgedRules
    budget: int

    def of(self, segments: np.ndarray) -> World:
        own = [Family(one.name, one.specs, one.sizes[:, segments]) for one in self.found]
        judged = replace(
            self.judged,
            whole=self.judged.whole[segments],
            chosen=tuple(values[:, segments] for values in self.judged.chosen),
        )
        return World(own, judged, self.budget)

    def chosen(self, request: QualityRequest) -> tuple[int, int] | None:
        """The family and the place in it of the cheapest rule that is proven to keep the guarantee, if there is one."""
        best, least = None, SAVES * self.budget
        for place, (family, one) in enumerate(zip(self.found, quality.tested([self.judged], request), strict=True)):
            sizes = family.sizes[: one.passed].mean(axis=1)
            if len(sizes) and sizes.min() <= least:
                best, least = (place, int(sizes.argmin())), sizes.min()
        return best

    def difference(self, family: int, rule: int) -> float:
        """In σ."""
        return float((self.judged.chosen[family][rule] - self.judged.whole).mean() / self.judged.whole.std())

    def size(self, family: int, rule: int) -> float:
        return float(self.found[family].sizes[rule].mean())


def interval(count: int, of: int) -> str:
    low = beta.ppf(0.025, count, of - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, of - count) if count < of else 1.0
    return f"{count / of:.1%} [{low:.1%}, {high:.1%}]"


def breaks(difference: float, request: QualityRequest) -> bool:
    return difference <= -request.margin or (not request.not_worse and difference >= request.margin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="+")
    parser.add_argument("--tsv", required=True)
    parser.add_argument("--rerank", default="mbr:chrf")
    parser.add_argument("--support", default=None)
    parser.add_argument("--metric", default="chrf++")
    parser.add_argument("--rule", nargs="+", default=["loss", "fixed"])
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--budget", type=int, default=512)
    parser.add_argument("--step", type=int, default=8)
    parser.add_argument("--sizes", type=int, nargs="+", default=[], help="calibration sets besides one half")
    parser.add_argument("--plain", action="store_true", help="without the pools' anchors")
    args = parser.parse_args()
    world, observed = load(args)
    segments = len(observed)
    described(world, observed, args)
    print("\n| guarantee | calibrated on | candidates | nothing proven | broken in halves | broken in samples |")
    print("|---|---:|---:|---:|---:|---:|")
    for wish in WISHES:
        request = replace(wish, rules=tuple(args.rule), budget=args.budget, step=args.step)
        for size in (*([segments // 2] if segments >= 2 * quality.LEAST else []), *args.sizes):
            row(world, request, size, args.splits, np.random.default_rng(0))


def load(args: argparse.Namespace) -> tuple[World, list[Observed]]:
    lines = Path(args.tsv).read_text("utf-8").split("\n")
    references = dict(line.split("\t")[:2] for line in lines if "\t" in line)
    pools = [pool for pool in asyncio.run(collected(args.pools, args.budget)) if pool.segment.source in references]
    pools = [replace(pool, anchors=()) for pool in pools] if args.plain else pools
    reranker = rerank.load(args.rerank, support=args.support)
    request = QualityRequest(0.02, rules=tuple(args.rule), budget=args.budget, step=args.step)
    rules = [request.rule(spec) for spec in request.rules if spec != "fixed"]
    observed = [one.without_snapshots(rules) for pool in pools for one in observe(reranker, [pool])]
    found = choose.replayed(observed, request)
    metric = metrics.load(args.metric)
    judged = winners(observed, pools, found).judged(metric, [[references[pool.segment.source] for pool in pools]])
    return World(found, judged, args.budget), observed


def described(world: World, observed: list[Observed], args: argparse.Namespace) -> None:
    """What there is to choose from, on all segments: in hindsight."""
    whole = world.judged.whole
    told = f"{len(observed)} segments, {world.judged.metric} {whole.mean():.2f} with all {args.budget}"
    print(f"{args.rerank}, {told}, σ {whole.std():.2f}\n")
    for w in (4, 8):
        sizes = []
        for one in observed:
            watch, size = stop.load("quit", k=args.step, w=w, n=args.budget).open(), 0
            for size in range(args.step, args.budget + 1, args.step):
                if watch.observe(_snapshot(one, size)) is not None:
                    break
            sizes.append(size)
        print(f"QUIT w={w}: {np.mean(sizes):.1f} candidates")
    for margin in (0.02, 0.05):
        for not_worse in (False, True):
            request = QualityRequest(margin, not_worse)
            for place, family in enumerate(world.found):
                kept = [r for r in range(len(family.specs)) if not breaks(world.difference(place, r), request)]
                longest = next((r for r in range(len(family.specs)) if r not in kept), len(family.specs)) - 1
                cheapest, name = (
                    min(kept, key=lambda r: world.size(place, r)),
                    "not worse" if not_worse else "equivalent",
                )
                first = f"{world.size(place, longest):.0f} until the first that is not"
                print(f"hindsight, {name} {margin}: {family.name} {world.size(place, cheapest):.1f}; {first}")


def _snapshot(one: Observed, size: int) -> stop.threshold.Snapshot:
    return stop.threshold.Snapshot(size, int(one.best[size - 1]), float(one.score[size - 1]))


def row(world: World, request: QualityRequest, size: int, splits: int, rng: np.random.Generator) -> None:
    broken, nothing, costs = {"halves": 0, "samples": 0}, 0, list[float]()
    segments = len(world.judged.whole)
    for _ in range(splits):
        order = rng.permutation(segments)
        ways = [("samples", rng.integers(0, segments, size), np.arange(segments))]
        if size <= segments // 2:
            ways.append(("halves", order[:size], order[size:]))
        for way, calibrating, judging in ways:
            one, others = world.of(calibrating).chosen(request), world.of(judging)
            if way == "samples":
                nothing += one is None
                costs.append(world.budget if one is None else world.size(*one))
            broken[way] += one is not None and breaks(others.difference(*one), request)
    name = "not worse" if request.not_worse else "equivalent"
    kind = f"{name} within {request.margin}σ"
    halves = interval(broken["halves"], splits) if size <= segments // 2 else "–"
    cells = [
        kind,
        str(size),
        f"{np.mean(costs):.0f}",
        f"{nothing / splits:.0%}",
        halves,
        interval(broken["samples"], splits),
    ]
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
