"""Whether calibrated guarantees are kept: calibrate on random samples of segments, measure on others.

    python benchmarks/calibration.py POOLS.jsonl [POOLS …] [--rerank mbr:chrf] [--max-loss 0.01] [--splits 200]

Two ways. *Halves*: calibrate on some, measure on the others, whose own share is a noisy estimate of the risk and
exceeds it by chance now and then. *Samples*: all segments are taken for the whole world, calibration sets are drawn
from it with replacement, and the risk of the chosen rule in that world is known exactly: the guarantee holds or not.
The share of broken guarantees comes with its 95% interval (Clopper-Pearson).
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace

import numpy as np
from scipy.stats import beta

from quitmt import rerank
from quitmt.calibrate import choose, families
from quitmt.calibrate.choose import LossRequest
from quitmt.calibrate.families import Family
from quitmt.calibrate.observe import observe
from quitmt.files.pools import read_pools
from quitmt.plan.choose import loss_in
from quitmt.types import RecordedPool

GUARANTEES = ((0.1, 0.9), (0.2, 0.9), (0.1, 0.8), (0.1, None))
"""Risk and confidence."""


async def collected(paths: list[str], name: str | None) -> list[RecordedPool]:
    found = {}
    for path in paths:
        async for pool in read_pools(path):
            if name is None or name in (pool.candidates[0].scores or {}):
                found.setdefault(pool.segment.source, pool)
    return list(found.values())


def interval(count: int, of: int) -> str:
    low = beta.ppf(0.025, count, of - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, of - count) if count < of else 1.0
    return f"{count / of:.1%} [{low:.1%}, {high:.1%}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="+")
    parser.add_argument("--rerank", default="mbr:chrf")
    parser.add_argument("--max-loss", default="0.01")
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--budget", type=int, default=512)
    args = parser.parse_args()
    name = args.rerank.removeprefix("qe:recorded:") if args.rerank.startswith("qe:recorded:") else None
    pools = asyncio.run(collected(args.pools, name))
    reranker = rerank.load(args.rerank)
    observed = [one for pool in pools for one in observe(reranker, [pool])]
    losses = families.losses(observed)
    spread = float(np.std([one.final[one.best[-1]] for one in observed], ddof=1))
    rules = choose.QE_RULES if args.rerank.startswith("qe:") else choose.MBR_RULES
    base = LossRequest(loss_in(args.max_loss, spread), 0.1, 0.9, budget=args.budget, rules=rules)
    found = choose.replayed(observed, base)
    print(f"{args.rerank}, {len(pools)} segments, max loss {base.max_loss:.4g} ({base.max_loss / spread:.3g} sd)\n")
    print(
        "| guarantee | calibrated on | candidates | broken in halves | broken in samples |\n|---|---:|---:|---:|---:|"
    )
    rng = np.random.default_rng(0)
    for risk, confidence in GUARANTEES:
        request = replace(base, risk=risk, confidence=confidence)
        half = len(pools) // 2
        for size in sorted({half, min(100, half)}):
            broken = {"halves": 0, "samples": 0}
            risks, costs = {"halves": list[float](), "samples": list[float]()}, list[float]()
            for _ in range(args.splits):
                order = rng.permutation(len(pools))
                for way, chosen, others in (
                    ("halves", order[:size], order[size:]),
                    ("samples", rng.integers(0, len(pools), size), order),
                ):
                    one = calibrated(found, losses, request, chosen)
                    rows = np.concatenate([family.sizes for family in found])
                    names = [spec for family in found for spec in family.specs]
                    sizes = rows[names.index(one)]
                    share = float((families.lost(losses, sizes[None])[0, others] > request.max_loss).mean())
                    risks[way].append(share)
                    broken[way] += share > risk
                    costs.append(float(sizes[others].mean()))
            sure = "on average" if confidence is None else f"{confidence:.0%} sure"
            if confidence is None:
                said = [f"mean risk {np.mean(risks[way]):.1%}" for way in broken]
            else:
                said = [interval(broken[way], args.splits) for way in broken]
            print(f"| {risk:.0%}, {sure} | {size} | {np.mean(costs):.0f} | {said[0]} | {said[1]} |")


def calibrated(found: list[Family], losses: np.ndarray, request: LossRequest, chosen: np.ndarray) -> str:
    own = [Family(one.name, one.specs, one.sizes[:, chosen]) for one in found]
    accepted, _ = choose.tested(own, losses[chosen], request)
    return min(accepted, key=lambda point: point.mean_size).rule


if __name__ == "__main__":
    main()
