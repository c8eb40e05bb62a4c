"""What is as good as the whole plain pool, and what it costs: configurations that were named before.

    python benchmarks/cheapest.py replay --plain POOLS.jsonl … --anchored POOLS.jsonl … --tsv NEWS.tsv
    python benchmarks/cheapest.py live --tsv NEWS.tsv --lines 701-998

By replay: how many samples each takes. Plain pools are judged by all of their samples, as in the paper; anchored ones
(``--keep-pools`` of a run with anchors and ``--stop full``) by ``--support``. Segments are those that both have.

Live: what each takes in CPU seconds with the embedded model, all in one process, without loading and compiling.

The file has source <tab> reference on each line. Differences in quality are to the whole plain pool, in its standard
deviations over segments, with paired bootstrap intervals; a margin is proven if the 90% interval lies within it (*not
worse*: its lower end does).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quitmt import rerank, stop
from quitmt.calibrate.observe import Observed, observe
from quitmt.cli import main as cli
from quitmt.evaluate import metrics
from quitmt.evaluate.metrics import TestSet
from quitmt.files.pools import read_pools
from quitmt.types import RecordedPool

Chosen = dict[str, list[tuple[int, str]]]
"""Samples and the translation of every segment, by configuration."""

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
LIVE = {
    "the whole plain pool": "--preset paper --stop full",
    "greedy": "--preset paper --temperature 0 --stop fixed:1",
    "beam:4 and one sample": "--anchors beam:4 --stop fixed:1",
    "default": "",
    "T = 1.2, no anchors, others": "--anchors none --support others --temperature 1.2 -n 512 --stop loss:most=0.005",
    "T = 1.2, beam:4, others": "--anchors beam:4 --support others --temperature 1.2 -n 96 --stop loss:most=0.005",
    "T = 1.2, beam:4, more careful": "--anchors beam:4 --temperature 1.2 -n 96 --stop loss:most=0.002",
}
MARGINS = (0.02, 0.05)
RESAMPLES = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("how", choices=["replay", "live"])
    parser.add_argument("--tsv", nargs="+", required=True)
    parser.add_argument("--metric", default="chrf++")
    parser.add_argument("--plain", nargs="+", default=[])
    parser.add_argument("--anchored", nargs="*", default=[])
    parser.add_argument("--support", default="anchor")
    parser.add_argument("--plain-rules", nargs="+", default=PLAIN)
    parser.add_argument("--anchored-rules", nargs="+", default=ANCHORED)
    parser.add_argument("--lines", default="1-", help="of the file, such as 701-998")
    args = parser.parse_args()
    lines = [line for path in args.tsv for line in Path(path).read_text("utf-8").splitlines()]
    first, _, last = args.lines.partition("-")
    pairs = [line.split("\t")[:2] for line in lines[int(first) - 1 : int(last) if last else None]]
    sources, chosen, seconds = (replayed if args.how == "replay" else live)(dict(pairs), args)
    report(chosen, seconds, sources, [dict(pairs)[source] for source in sources], metrics.load(args.metric))


def replayed(references: dict[str, str], args: Any) -> tuple[list[str], Chosen, dict[str, float]]:
    plain, anchored = asyncio.run(collected(args.plain)), asyncio.run(collected(args.anchored))
    sources = [source for source in plain if source in references and (not anchored or source in anchored)]
    chosen: Chosen = {}
    for source in sources:
        for name, size, text in choices(plain[source], anchored.get(source), args):
            chosen.setdefault(name, []).append((size, text))
    return sources, chosen, {}


def live(references: dict[str, str], _: Any) -> tuple[list[str], Chosen, dict[str, float]]:
    chosen: Chosen = {}
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        whole, one = Path(folder, "whole"), Path(folder, "one")
        whole.write_text("".join(f"{source}\n" for source in references), "utf-8")
        one.write_text("One two three.\n")
        for name, flags in LIVE.items():
            *_, loading = [translated(one, flags)[1] for _ in range(2)]  # the first time kernels may be compiled
            outcomes, spent = translated(whole, flags)
            seconds[name] = (spent - loading) / len(references)
            chosen[name] = [(outcome["size"], outcome["translation"]) for outcome in outcomes]
            print(f"{name}: {seconds[name]:.4f} CPU s per segment", flush=True)
    return list(references), chosen, seconds


def translated(source: Path, flags: str) -> tuple[list[dict[str, Any]], float]:
    """Outcomes, and CPU seconds."""
    output, started = source.with_suffix(".jsonl"), time.process_time()
    if cli.main(["translate", str(source), "-o", os.devnull, "--jsonl", str(output), "-q", *flags.split()]):
        raise SystemExit("quitmt translate failed")
    spent = time.process_time() - started
    return [json.loads(line) for line in output.read_text("utf-8").splitlines()], spent


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
    (seen,) = observe(rerank.load("mbr:chrf", support=args.support), [anchored])
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
        if watch.observe(seen.snapshots[size - 1]) is not None:
            return size
    return budget


def report(chosen: Chosen, seconds: dict[str, float], sources: list[str], references: list[str], metric: Any) -> None:
    judged = metric.evaluate(
        TestSet(tuple(sources), (tuple(references),)), [[text for _, text in rows] for rows in chosen.values()]
    )
    scores = dict(zip(chosen, (one.segments for one in judged), strict=True))
    whole, count = judged[0].segments, len(sources)
    spread = whole.std(ddof=1)
    print(f"{count} segments; the whole plain pool has {whole.mean():.2f}, σ {spread:.2f}\n")
    print("| | samples | CPU seconds | speedup | difference, in σ, 95% interval | proven with 95% confidence |")
    print("|---|---:|---:|---:|---|---|")
    drawn = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    for name, rows in chosen.items():
        gain = (scores[name] - whole) / spread
        low, lower, upper, high = np.quantile(gain[drawn].mean(axis=1), (0.025, 0.05, 0.95, 0.975))
        proven = [f"equivalent within {margin}σ" for margin in MARGINS if max(-lower, upper) < margin]
        proven += [f"not worse by {margin}σ" for margin in MARGINS if -lower < margin <= max(-lower, upper)]
        size = np.mean([size for size, _ in rows])
        paid = f"{seconds[name]:.3f} | {next(iter(seconds.values())) / seconds[name]:.1f}×" if seconds else "|"
        told = f"{gain.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        print(f"| {name} | {size:.1f} | {paid} | {told} | {', '.join(proven[:2])} |")


if __name__ == "__main__":
    main()
