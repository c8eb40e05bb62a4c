"""Paired bootstrap of systems against a base: CPU seconds of quitmt.evaluate.equivalence beside scipy.stats.bootstrap.

    python benchmarks/compare.py [--segments 12010] [--systems 8] [--resamples 10000]

Made-up scores: the first system is the base, the others differ from it on half of the segments. Ours compares all
systems at once, after a first run that compiles or loads the kernel. scipy compares one of them with all resamples, in
batches of the size that suited it best here; its figure for all is that times their number. Both are the best of three.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy import stats

from quitmt.evaluate.equivalence import Comparison, Pair, compare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=12_010)
    parser.add_argument("--systems", type=int, default=8)
    parser.add_argument("--resamples", type=int, default=10_000)
    args = parser.parse_args()
    pairs = made_up(args.segments, args.systems - 1)
    compare(pairs, resamples=1)
    runs = [ours(pairs, args.resamples) for _ in range(3)]
    mine, found = min(seconds for seconds, _ in runs), runs[0][1]
    theirs, interval, error = min(scipys(pairs[0], args.resamples) for _ in range(3))
    apart = max(abs(a - b) for a, b in zip(found[0].interval, interval, strict=True)) / error
    print(f"{args.segments:,} segments, {args.systems} systems, {args.resamples:,} resamples\n")
    print("| | CPU seconds | |\n|---|---:|---|")
    print(f"| quitmt, {len(pairs)} systems against a base | {mine:.2f} | measured, best of 3 |")
    print(f"| scipy.stats.bootstrap, 1 system | {theirs:.2f} | measured, best of 3 |")
    total = theirs * len(pairs)
    print(f"| scipy.stats.bootstrap, {len(pairs)} systems | {total:.1f} ({total / mine:.0f}×) | extrapolated |")
    print(f"\nEnds of the 95% interval differ by {apart:.3f} standard errors at most (both are random).")


def made_up(segments: int, others: int) -> list[Pair]:
    rng = np.random.default_rng(0)
    base = rng.normal(55, 20, segments)
    changed = rng.random((others, segments)) < 0.5
    return [Pair(base, base + row * rng.normal(0, 8, segments)) for row in changed]


def ours(pairs: list[Pair], resamples: int) -> tuple[float, list[Comparison]]:
    start = time.process_time()
    found = compare(pairs, resamples=resamples)
    return time.process_time() - start, found


def scipys(pair: Pair, resamples: int) -> tuple[float, tuple[float, float], float]:
    start = time.process_time()
    found = stats.bootstrap(
        (pair.base, pair.other),
        lambda base, other, axis: np.mean(other - base, axis=axis),
        paired=True,
        method="percentile",
        n_resamples=resamples,
        batch=5,
        rng=np.random.default_rng(1),
    )
    interval = found.confidence_interval
    return time.process_time() - start, (interval.low, interval.high), float(found.standard_error)


if __name__ == "__main__":
    main()
