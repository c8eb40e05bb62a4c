"""COMET's pair head at COMET-22's sizes, all pairs of a pool: ours beside the direct evaluation, in one run.

    python benchmarks/pair_head.py [--candidates 512]

Vectors of 1024, features of 6144 → 3072 → 1024 → 1, seeded random weights. Direct is one row of six features for each
ordered pair, in blocks of the same number of pairs as ours. The two take turns, a block of 64 candidates against all
before them and itself at a time, so that a noisy machine disturbs both alike. CPU seconds are those of all threads.
Peak memory is that of a process of its own for each size of the pool, less what it had before the first comparison.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor, nn

from quitmt.metrics.comet import PAIRS_PER_TILE, CometArena, CometUtility
from quitmt.metrics.neural.head import PairHead
from quitmt.rerank.pairs import BLOCK
from quitmt.types import Segment

WIDTH = 1024


def seeded_head() -> PairHead:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(6 * WIDTH, 3072), nn.Tanh(), nn.Identity(), nn.Linear(3072, 1024), nn.Tanh(), nn.Identity(),
        nn.Linear(1024, 1),
    )  # fmt: skip
    return PairHead(network.eval().requires_grad_(False), WIDTH)


def seeded_pool(head: PairHead, candidates: int) -> tuple[CometUtility, CometArena]:
    """Candidates that are much alike, as translations of one source are."""
    common, own = torch.randn(WIDTH), torch.randn(candidates, WIDTH)
    vectors, source = 0.5 * (common + 0.3 * own), 0.5 * (common + 0.5 * torch.randn(WIDTH))
    arena = CometArena(Segment("1"))
    arena.source, arena.vectors, arena.parts = source, vectors, head.parts(vectors, source)
    return CometUtility(SimpleNamespace(head=head, signature="seeded")), arena  # type: ignore[arg-type]


def direct(head: PairHead, arena: CometArena, rows: range, columns: range) -> tuple[np.ndarray, np.ndarray]:
    vectors, source = arena.vectors, arena.source
    assert vectors is not None and source is not None

    def scores(translations: Tensor, references: Tensor) -> list[float]:
        found: list[float] = []
        for one, other in zip(translations.split(PAIRS_PER_TILE), references.split(PAIRS_PER_TILE), strict=True):
            found += head.direct(vectors[one], vectors[other], source.expand(len(one), -1)).tolist()
        return found

    down, across = torch.meshgrid(torch.tensor(rows), torch.tensor(columns), indexing="ij")
    old = across < rows.start  # inside the block, one direction has all ordered pairs
    forward = np.array(scores(down.flatten(), across.flatten())).reshape(down.shape)
    backward = np.zeros(down.shape)
    backward[old.numpy()] = scores(across[old], down[old])
    square = forward[:, rows.start - columns.start : rows.stop - columns.start]
    backward[:, rows.start - columns.start : rows.stop - columns.start] = square.T
    return forward, backward


def compare(candidates: int) -> None:
    head = seeded_head()
    utility, arena = seeded_pool(head, candidates)
    utility.compare(arena, range(8), range(8))
    seconds, largest = [0.0, 0.0], 0.0
    for start in range(0, candidates, BLOCK):
        rows = range(start, min(start + BLOCK, candidates))
        began = time.process_time()
        ours = utility.compare(arena, rows, range(rows.stop))
        between = time.process_time()
        theirs = direct(head, arena, rows, range(rows.stop))
        seconds[0] += between - began
        seconds[1] += time.process_time() - between
        largest = max(largest, *(float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True)))
    print(f"\n{candidates} candidates, {candidates**2:,} ordered pairs\n")
    print("| | CPU seconds | |\n|---|---:|---:|")
    print(f"| direct | {seconds[1]:.1f} | 1.00× |")
    print(f"| quitmt | {seconds[0]:.1f} | {seconds[1] / seconds[0]:.2f}× less |")
    print(f"\nlargest difference {largest:.1e}")


def peak(candidates: int) -> None:
    head = seeded_head()
    utility, arena = seeded_pool(head, candidates)
    with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123, starts the peak anew
        file.write("5")
    before = status("VmRSS")
    for start in range(0, candidates, BLOCK):
        rows = range(start, min(start + BLOCK, candidates))
        utility.compare(arena, rows, range(rows.stop))
    print(f"{status('VmHWM') - before:.0f}")


def status(name: str) -> float:
    """A field of the kernel's account of this process, in MB."""
    with open("/proc/self/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=512)
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        peak(args.peak)
        return
    compare(args.candidates)
    print("\n| candidates | peak memory of comparing, MB |\n|---:|---:|")
    for size in (128, 256, 512):
        command = [sys.executable, __file__, "--peak", str(size)]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        print(f"| {size} | {found} |")


if __name__ == "__main__":
    main()
