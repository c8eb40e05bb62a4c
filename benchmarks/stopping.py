"""Where QUIT stops on recorded pools, for several windows, checked against the definition computed by other code.

    python benchmarks/stopping.py POOLS.jsonl.gz [--oracle]

With ``--oracle`` the utilities come from fastchrf (its own counting and F-score) and the stopping sizes from the
pseudo-code of the method, written out literally; every segment must agree.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import numpy as np
import numpy.typing as npt
from fastchrf import pairwise_chrf

from quitmt import rerank, stop
from quitmt.engine.driver import Driver, in_order
from quitmt.files.pools import read_pools
from quitmt.generate.recorded import RecordedGenerator
from quitmt.types import RecordedPool

WINDOWS = (2, 4, 8, 16)
K, ALPHA, BUDGET = 8, 1e-3, 512


async def load(path: str) -> list[RecordedPool]:
    return [pool async for pool in read_pools(path)]


async def sizes(pools: list[RecordedPool], w: int) -> list[int]:
    rule = stop.load("quit", k=K, w=w, alpha=ALPHA, n=BUDGET)
    driver = Driver(RecordedGenerator(pools), rerank.load("mbr:chrf"), rule)
    return [one.outcome.size async for one in in_order(driver.run([pool.segment for pool in pools]))]


def trajectory(pool: RecordedPool) -> npt.NDArray[np.float64]:
    """R after 1, 2, … candidates, from the whole matrix of fastchrf's sentence scores."""
    texts = [candidate.text for candidate in pool.candidates]
    distinct = list(dict.fromkeys(texts))
    number = {text: index for index, text in enumerate(distinct)}
    places = [number[text] for text in texts]
    matrix = np.array(pairwise_chrf([distinct], [distinct])[0], np.float64)[np.ix_(places, places)] / 100
    return np.array([matrix[:size, :size].mean(axis=1).max() for size in range(1, len(texts) + 1)])


def by_definition(best: npt.NDArray[np.float64], w: int) -> int:
    i, window = 0, list[float]()
    while i * K < BUDGET:
        i += 1
        window.append(best[min(i * K, BUDGET) - 1])
        if len(window) == w:
            if max(window) - min(window) <= ALPHA:
                return min(i * K, BUDGET)
            window = []
    return BUDGET


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", type=Path)
    parser.add_argument("--oracle", action="store_true", help="check every segment against fastchrf (minutes)")
    args = parser.parse_args()
    pools = asyncio.run(load(str(args.pools)))
    expected = [trajectory(pool) for pool in pools] if args.oracle else None
    print(f"{len(pools)} segments, mbr:chrf, k={K}, alpha={ALPHA}, budget {BUDGET}\n")
    print("| w | mean size | at full budget | segments that agree with the definition |\n|---|---|---|---|")
    for w in WINDOWS:
        found = asyncio.run(sizes(pools, w))
        full = sum(size == BUDGET for size in found) / len(found)
        agree = "not checked"
        if expected is not None:
            agree = f"{sum(by_definition(b, w) == s for b, s in zip(expected, found, strict=True))} of {len(found)}"
        print(f"| {w} | {np.mean(found):.1f} | {full:.1%} | {agree} |")


if __name__ == "__main__":
    main()
