"""What it costs exact chrF-MBR to keep candidates and judges apart: CPU seconds beside those of the paper's pools.

    python benchmarks/anchored.py POOLS.jsonl [--anchors 5] [--rounds 7]

POOLS are recorded pools of 512 samples, as ``quitmt translate --stop full --keep-pools`` writes them. The anchors are
made from the first sample by leaving out a word, so that none of them is a sample: they are new texts, the dear case.

- *all*: the paper's pool, samples only.
- *all, as many texts*: the same with the anchors as further samples.
- *others*: anchors judged by the samples, samples by the others.

Each figure is the ratio of two sums of CPU seconds over the pools, from strings to the last snapshot. Rounds are
interleaved, pool by pool, and each pool counts with the least of its rounds. Growing: 8 samples at a time; at once: all
samples in one update, with snapshots at the same sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quitmt.metrics.chrf import Chrf
from quitmt.protocols import Update
from quitmt.rerank.mbr import Mbr
from quitmt.types import Candidate, Segment

THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SIZES = (64, 256, 512)


def seconds(reranker: Any, samples: Sequence[str], anchors: Sequence[str], step: int, stride: int) -> float:
    candidates, first = [Candidate(text) for text in samples], [Candidate(text) for text in anchors]
    began = time.process_time()
    state = reranker.open(Segment("s"))
    for start in range(0, len(candidates), step):
        update = Update(state, candidates[start : start + step], stride, first if start == 0 else ())
        [snapshots] = reranker.extend([update])
    took = time.process_time() - began
    assert snapshots[-1].size == len(samples)
    return took


def unsampled(texts: Sequence[str], count: int) -> list[str]:
    """Texts that are not among these, and like them."""
    known = set(texts)
    words = texts[0].split()
    made = dict.fromkeys(" ".join(words[:place] + words[place + 1 :]) for place in range(len(words)))
    return [text for text in made if text not in known][:count]


def measured(pools: Sequence[Sequence[str]], count: int, rounds: int, size: int, growing: bool) -> list[float]:
    """CPU seconds of the three."""
    plain, apart, total = Mbr(Chrf()), Mbr(Chrf(), "others"), [0.0, 0.0, 0.0]
    for pool in pools:
        samples, anchors = pool[:size], unsampled(pool, count)
        step = 8 if growing else len(pool) + count
        runs = [(plain, samples, ()), (plain, [*anchors, *samples], ()), (apart, samples, anchors)]
        least = [float("inf")] * len(runs)
        for turn in range(rounds):
            for place in (0, 1, 2) if turn % 2 else (2, 1, 0):
                least[place] = min(least[place], seconds(*runs[place], step, 8))
        total = [one + other for one, other in zip(total, least, strict=True)]
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", type=Path, metavar="POOLS", help="recorded pools of 512 samples, JSONL")
    parser.add_argument("--anchors", type=int, default=5, help="how many each pool has (5)")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    if not THREADS.items() <= os.environ.items():  # they are read when numpy is imported: start anew
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | THREADS)
    pools = [json.loads(line)["candidates"] for line in args.pools.read_text(encoding="utf-8").splitlines()]
    measured(pools[:1], args.anchors, 1, 64, True)  # compiles or loads the kernels
    print("| | samples | texts | all, s | others, s | to all | to all, as many texts |")
    print(f"|---|{'---:|' * 6}")
    for name, growing in (("at once", False), ("growing", True)):
        for size in SIZES:
            texts = sum(len(set(pool[:size])) for pool in pools) / len(pools)
            all_, equal, others = measured(pools, args.anchors, args.rounds, size, growing)
            cells = f"{all_ / len(pools):.5f} | {others / len(pools):.5f} | {others / all_:.3f} | {others / equal:.3f}"
            print(f"| {name} | {size} | {texts:.0f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
