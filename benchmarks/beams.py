"""Growing beams against sampling: CPU seconds and chrF++ at sizes, with the embedded model.

    python benchmarks/beams.py NTREX.tsv [--lines 300:360] [--first 4] [--temperature 1.0] [--sizes 8 16 32 64]

NTREX.tsv has a source and a reference a line, tab-separated. A pool is drawn step by step, as a rule would ask for it:
seconds are of all that was drawn up to a size, of all threads and all segments in one batch. The best candidate of a
pool is that of chrF-MBR with all candidates as judges. Beam search is the first hypothesis of a beam of the first size.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics import CHRF

from quitmt import rerank
from quitmt.plan.build import build_generator
from quitmt.plan.recipe import ModelRecipe
from quitmt.protocols import Update
from quitmt.types import Candidate, Request, Segment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--lines", default="300:360")
    parser.add_argument("--first", type=int, default=4)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 16, 32, 64])
    args = parser.parse_args()
    start, stop = map(int, args.lines.split(":"))
    pairs = [line.split("\t")[:2] for line in args.pairs.read_text("utf-8").splitlines()[start:stop]]
    references = [reference for _, reference in pairs]
    segments = [Segment(str(number), source) for number, (source, _) in enumerate(pairs)]
    recipes = {
        "beams": ModelRecipe(name="embedded:en-pt", beams=args.first),
        f"samples, T = {args.temperature:g}": ModelRecipe(name="embedded:en-pt", temperature=args.temperature),
        "greedy": ModelRecipe(name="embedded:en-pt", temperature=0.0),
    }
    print("| candidates | size | of them | CPU s per segment | best |")
    print("|---|---:|---:|---:|---:|")
    for name, recipe in recipes.items():
        asyncio.run(measured(name, recipe, segments, references, [1] if name == "greedy" else args.sizes))


async def measured(
    name: str, recipe: ModelRecipe, segments: list[Segment], references: list[str], sizes: list[int]
) -> None:
    generator: Any = build_generator(recipe)
    await generator.warm()
    pools: dict[str, list[Candidate]] = {segment.id: [] for segment in segments}
    spent, before = 0.0, 0
    for size in sizes:
        began = time.process_time()
        async for draw in generator.draw([Request(segment, before, size) for segment in segments]):
            pools[draw.segment.id] += draw.candidates
        spent, before = spent + time.process_time() - began, size
        if name == "beams" and size == sizes[0]:
            first = mean([pools[segment.id][0].text for segment in segments], references)
            print(f"| beam search, its best | 1 | 1.0 | | {first:.2f} |")
        best = mean(chosen(pools, segments), references)
        count = np.mean([len({one.text for one in pool}) for pool in pools.values()])
        cost = spent / len(segments)
        print(f"| {name} | {size} | {count:.1f} | {cost:.3f} | {best:.2f} |", flush=True)


def chosen(pools: dict[str, list[Candidate]], segments: list[Segment]) -> list[str]:
    reranker = rerank.load("mbr:chrf", support="all")
    found = []
    for segment in segments:
        pool = pools[segment.id]
        [snapshots] = reranker.extend([Update(reranker.open(segment), pool, len(pool))])
        if not isinstance(snapshots, list):
            raise snapshots
        found.append(pool[snapshots[-1].best].text)
    return found


def mean(texts: list[str], references: list[str]) -> float:
    metric = CHRF(word_order=2)
    return float(
        np.mean([metric.sentence_score(text, [own]).score for text, own in zip(texts, references, strict=True)])
    )


if __name__ == "__main__":
    main()
