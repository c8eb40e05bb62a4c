"""Anchored pools against plain ones, by size: chrF++ of what chrF-MBR chooses, and votes of the first anchor.

    python benchmarks/anchors.py POOLS.jsonl [--orders 8] [--votes 0 1 2 4] [--sizes 4 8 16 32 64 256]

POOLS are recorded pools with anchors and references, and may have the greedy translation:
``{"id", "source", "reference", "candidates", "anchors", "greedy"}``. The baseline is ``greedy``, or the first anchor
where there is none.

A candidate's score is the mean of its utilities with the samples, without one copy of itself, and with the first
anchor, which counts as so many samples (``--votes``). Equally good candidates: anchors first, in their order, then the
lowest index. Plain pools are the paper's: samples only, themselves included. Sizes are prefixes of the pool in several
random orders, whose chrF++ is averaged before segments are resampled: brackets are paired 95% bootstrap intervals.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics import CHRF

from quitmt.files.pools import parse_pool
from quitmt.metrics.chrf import Chrf
from quitmt.rerank.pairs import Pairs

Array = np.ndarray
RESAMPLES = 5000


@dataclass(frozen=True)
class Pool:
    """Numbers of texts: the anchors come first, so that the lowest of equals is the right one."""

    utilities: Array
    """[hypothesis, reference]"""
    anchors: int
    samples: Array
    quality: Array
    baseline: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools")
    parser.add_argument("--orders", type=int, default=8)
    parser.add_argument("--votes", type=float, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 8, 16, 32, 64, 256])
    args = parser.parse_args()
    pools = [read(line) for line in Path(args.pools).read_text("utf-8").split("\n") if line.strip()]
    smallest = min(len(pool.samples) for pool in pools)
    sizes = [size for size in args.sizes if size <= smallest]
    baseline = np.array([pool.baseline for pool in pools])
    first, whole = (np.array([choice(pool) for pool in pools]) for choice in (first_anchor, plain))
    print(f"{len(pools)} pools of {smallest} samples or more. Baseline {baseline.mean():.2f}; ", end="")
    print(f"first anchor {first.mean():.2f} {interval(first - baseline)}; ", end="")
    print(f"all samples, plain {whole.mean():.2f} {interval(whole - baseline)}\n")
    print("| votes |" + "".join(f" n = {size} |" for size in sizes))
    print("|---:|" + "---|" * len(sizes))
    for votes in args.votes:
        found = np.array([averaged(pool, sizes, votes, args.orders, seed) for seed, pool in enumerate(pools)])
        cells = [f"{column.mean():.2f} {interval(column - baseline)}" for column in found.T]
        print(f"| {votes:g} | {' | '.join(cells)} |", flush=True)


def read(line: str) -> Pool:
    fields: dict[str, Any] = json.loads(line)
    recorded = parse_pool(line)
    if not recorded.anchors or "reference" not in fields:
        raise SystemExit(f"pool {recorded.segment.id!r} has no anchors or no reference")
    utility = Chrf()
    pairs = Pairs(recorded.segment, utility.open(recorded.segment))
    for place, one in enumerate(recorded.anchors):
        pairs.add(one.text, -1 - place)
    anchors = len(pairs.first)
    samples = np.array([pairs.add(one.text, index) for index, one in enumerate(recorded.candidates)])
    utility.encode([(pairs.arena, pairs.new)])
    pairs.compare(utility)
    texts = list(pairs.number)
    quality = np.array([chrf_pp(text, fields["reference"]) for text in texts])
    utilities = pairs.utilities[: len(texts), : len(texts)].T.copy()
    baseline = chrf_pp(fields["greedy"], fields["reference"]) if "greedy" in fields else float(quality[0])
    return Pool(utilities, anchors, samples, quality, baseline)


def chrf_pp(text: str, reference: str) -> float:
    return float(CHRF(word_order=2).sentence_score(text, [reference]).score)


def averaged(pool: Pool, sizes: Sequence[int], votes: float, orders: int, seed: int) -> Array:
    """The quality of the choices at some sizes, over random orders."""
    found = np.zeros(len(sizes))
    for order in range(orders):
        samples = np.random.default_rng([seed, order]).permutation(pool.samples)
        found += [pool.quality[chosen(pool, samples[:size], votes)] for size in sizes]
    return found / orders


def chosen(pool: Pool, samples: Array, votes: float) -> int:
    """The number of the best text, judged by these samples and the first anchor."""
    counts = np.bincount(samples, minlength=len(pool.quality))
    sampled = counts > 0
    sums = pool.utilities @ counts - np.where(sampled, pool.utilities.diagonal(), 0)
    judges = len(samples) - sampled + votes
    scores = (sums + votes * pool.utilities[:, 0]) / np.maximum(judges, 1e-9)
    allowed = sampled & (judges > 0)
    allowed[: pool.anchors] = True
    scores[~allowed] = -np.inf
    ties = np.flatnonzero(scores >= scores.max() - 1e-12)
    new = ties[ties >= pool.anchors]
    return int(ties[0]) if ties[0] < pool.anchors else int(samples[np.isin(samples, new).argmax()])


def first_anchor(pool: Pool) -> float:
    return float(pool.quality[0])


def plain(pool: Pool) -> float:
    """Of the paper's choice from all samples."""
    counts = np.bincount(pool.samples, minlength=len(pool.quality))
    scores = np.where(counts > 0, pool.utilities @ counts, -np.inf)
    return float(pool.quality[scores.argmax()])


def interval(differences: Array) -> str:
    draws = np.random.default_rng(0).integers(0, len(differences), (RESAMPLES, len(differences)))
    low, high = np.percentile(differences[draws].mean(axis=1), [2.5, 97.5])
    return f"({differences.mean():+.2f} [{low:+.2f}, {high:+.2f}])"


if __name__ == "__main__":
    main()
