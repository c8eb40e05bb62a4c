"""What is as good as the whole plain pool, and with how many samples: configurations that were named before, by replay.

    python benchmarks/cheapest.py --plain POOLS.jsonl … --anchored POOLS.jsonl … --tsv NEWS.tsv

Plain pools are judged by all of their samples, as in the paper; anchored ones (``--keep-pools`` of a run with anchors
and ``--stop full``) by the others and the first anchor. Segments are those that both have. The file has source <tab>
reference on each line. Differences in quality are to the whole plain pool, in its standard deviations over segments,
with paired bootstrap intervals; a margin is proven if the 90% interval lies within it (*not worse*: its lower end
does).
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quitmt import rerank, stop
from quitmt.calibrate.observe import Observed, observe
from quitmt.evaluate import metrics
from quitmt.evaluate.metrics import TestSet
from quitmt.files.pools import read_pools
from quitmt.types import RecordedPool

PLAIN = (
    "fixed:16",
    "fixed:32",
    "fixed:64",
    "loss:most=0.005",
    "loss:most=0.002",
    "loss:most=0.001",
    "loss:most=0.0005",
)
ANCHORED = ("fixed:4", "fixed:8", "fixed:16", "loss:most=0.02", "loss:most=0.01", "loss:most=0.005", "loss:most=0.001")
MARGINS = (0.02, 0.05)
RESAMPLES = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", nargs="+", required=True)
    parser.add_argument("--anchored", nargs="*", default=[])
    parser.add_argument("--tsv", nargs="+", required=True)
    parser.add_argument("--metric", default="chrf++")
    parser.add_argument("--plain-rules", nargs="+", default=PLAIN)
    parser.add_argument("--anchored-rules", nargs="+", default=ANCHORED)
    args = parser.parse_args()
    lines = [line for path in args.tsv for line in Path(path).read_text("utf-8").splitlines()]
    references = dict(line.split("\t")[:2] for line in lines)
    plain, anchored = asyncio.run(collected(args.plain)), asyncio.run(collected(args.anchored))
    sources = [source for source in plain if source in references and (not anchored or source in anchored)]
    chosen = {}
    for source in sources:
        for name, size, text in choices(plain[source], anchored.get(source), args):
            chosen.setdefault(name, []).append((size, text))
    report(chosen, sources, [references[source] for source in sources], metrics.load(args.metric))


async def collected(paths: list[str]) -> dict[str, RecordedPool]:
    return {pool.segment.source: pool for path in paths async for pool in read_pools(path)}


def choices(plain: RecordedPool, anchored: RecordedPool | None, args: Any) -> Iterator[tuple[str, int, str]]:
    (seen,) = observe(rerank.load("mbr:chrf", support="all"), [plain])
    size = len(plain.candidates)
    yield "the whole plain pool", size, text_at(plain, seen, size)
    yield "one plain sample", 1, plain.candidates[0].text
    for spec in args.plain_rules:
        size = stopped(seen, spec, 8, len(plain.candidates))
        yield f"plain, {spec}", size, text_at(plain, seen, size)
    if anchored is None:
        return
    yield "the first anchor", 0, anchored.anchors[0].text
    (seen,) = observe(rerank.load("mbr:chrf", support="anchor"), [anchored])
    for spec in args.anchored_rules:
        size = stopped(seen, spec, 4, len(anchored.candidates))
        yield f"anchored, {spec}", size, text_at(anchored, seen, size)


def text_at(pool: RecordedPool, seen: Observed, size: int) -> str:
    index = seen.best[size - 1]
    return (pool.candidates[index] if index >= 0 else pool.anchors[-1 - index]).text


def stopped(seen: Observed, spec: str, step: int, budget: int) -> int:
    rule = stop.load(spec, k=step, n=budget)
    watch, size = rule.open(), 0
    while size < budget:
        size = min(budget, watch.horizon(size))
        if watch.observe(seen.standings[size - 1]) is not None:
            return size
    return budget


def report(chosen: dict[str, Any], sources: list[str], references: list[str], metric: Any) -> None:
    judged = metric.evaluate(
        TestSet(tuple(sources), (tuple(references),)), [[text for _, text in rows] for rows in chosen.values()]
    )
    scores = dict(zip(chosen, (one.segments for one in judged), strict=True))
    whole, count = judged[0].segments, len(sources)
    spread = whole.std(ddof=1)
    print(f"{count} segments; the whole plain pool has {whole.mean():.2f}, σ {spread:.2f}\n")
    print("| | samples | difference, in σ, 95% interval | proven with 95% confidence |\n|---|---:|---|---|")
    drawn = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    for name, rows in chosen.items():
        gain = (scores[name] - whole) / spread
        low, lower, upper, high = np.quantile(gain[drawn].mean(axis=1), (0.025, 0.05, 0.95, 0.975))
        proven = [f"equivalent within {margin}σ" for margin in MARGINS if max(-lower, upper) < margin]
        proven += [f"not worse by {margin}σ" for margin in MARGINS if -lower < margin <= max(-lower, upper)]
        size = np.mean([size for size, _ in rows])
        print(f"| {name} | {size:.1f} | {gain.mean():+.3f} [{low:+.3f}, {high:+.3f}] | {', '.join(proven[:2])} |")


if __name__ == "__main__":
    main()
