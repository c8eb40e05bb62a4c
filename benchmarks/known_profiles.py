"""The profiles that come with quitmt, from pools of the embedded English-Portuguese model.

    python benchmarks/known_profiles.py mbr:chrf POOLS.jsonl
    python benchmarks/known_profiles.py qe:likelihood POOLS.jsonl

For QE the scores recorded with the pools are taken for those of ``qe:likelihood``, which made them: scoring again would
take most of an hour.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path

from quitmt import calibrate, rerank
from quitmt.calibrate import choose, profile
from quitmt.calibrate.choose import LossRequest, PoolOrigin
from quitmt.calibrate.observe import observe
from quitmt.defaults import AUTO_BUDGET, AUTO_STEP
from quitmt.files.pools import read_pools
from quitmt.plan.choose import KNOWN, loss_in
from quitmt.types import RecordedPool

FOLDER = Path(calibrate.__file__).parent / "known"
MAX_LOSS = {"mbr:chrf": "0.1sd", "qe:likelihood": "0.3sd"}


async def collected(path: str) -> list[RecordedPool]:
    return [pool async for pool in read_pools(path)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rerank", choices=list(KNOWN))
    parser.add_argument("pools")
    args = parser.parse_args()
    pools = asyncio.run(collected(args.pools))
    support, shape = (None, (8, 512)) if args.rerank == "qe:likelihood" else ("anchor", (AUTO_STEP, AUTO_BUDGET))
    scored = rerank.load("qe:recorded:likelihood" if support is None else args.rerank, support=support)
    requested = LossRequest(1.0, 0.1, 0.9, step=shape[0], budget=shape[1], rules=choose.default_rules(args.rerank))
    rules = [requested.rule(spec) for spec in requested.rules if spec != "fixed"]
    seen = [one.without_snapshots(rules) for p in pools for one in observe(scored, [p])]
    max_loss = loss_in(MAX_LOSS[args.rerank], choose.spread(seen))
    signature = rerank.load(args.rerank, languages=("en", "pt"), support=support).signature
    source = PoolOrigin(pools[0].generator, signature, "en", "pt")
    found = choose.calibrate(seen, replace(requested, max_loss=max_loss), source)
    profile.write(found, str(FOLDER / KNOWN[args.rerank]))
    print(found.rule, found.guarantee, found.spread, len(found.curve))


if __name__ == "__main__":
    main()
