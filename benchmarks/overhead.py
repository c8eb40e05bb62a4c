"""How much of a run is neither generation nor scoring: engine, rule, bookkeeping, output.

    python benchmarks/overhead.py SOURCES [--segments 20] [--rerank mbr:chrf]

Translates in this process exactly as the command line does, to a file, with outcomes, pools and journal, and counts the
CPU of the sampler and of the reranker by the clocks of the threads they run in. The rest of the process's CPU since the models
were loaded is overhead.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quitmt.bergamot.sampling import Sampler
from quitmt.cli.main import parser as command_line

spent: Counter[str] = Counter()


def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            spent[name] += time.thread_time() - start  # type: ignore[assignment]

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, help="text, a source a line; after a tab anything")
    parser.add_argument("--segments", type=int, default=20)
    parser.add_argument("--rerank", nargs="+", default=["mbr:chrf", "qe:likelihood"])
    args = parser.parse_args()
    print("| reranker | stop | generation | scoring | everything else | CPU seconds |\n|---|---|---|---|---|---|")
    lines = [line.split("\t")[0] for line in args.sources.read_text().splitlines()[: args.segments]]
    for name in ("step", "admit"):
        setattr(Sampler, name, counted("generate", getattr(Sampler, name)))
    for reranker in args.rerank:
        for rule in ("quit", "full"):
            with tempfile.TemporaryDirectory() as folder:
                run(Path(folder), lines, reranker, rule)


def run(folder: Path, lines: list[str], reranker: str, rule: str) -> None:
    (folder / "in").write_text("\n".join(lines) + "\n")
    words = ["translate", str(folder / "in"), "-o", str(folder / "out"), "--jsonl", str(folder / "jsonl"), "-q"]
    words += ["--keep-pools", str(folder / "pools"), "--rerank", reranker, "--stop", rule]
    parsed = command_line().parse_args(words)
    work, items = parsed.prepare(parsed)
    work.driver._reranker.extend = counted("rerank", work.driver._reranker.extend)
    spent.clear()
    start = time.process_time()
    asyncio.run(work.work(items))
    work.outputs.close()
    total = time.process_time() - start
    generate, scoring = spent["generate"] / total, spent["rerank"] / total
    rest = 1 - generate - scoring
    print(f"| {reranker} | {rule} | {generate:.1%} | {scoring:.1%} | {rest:.2%} | {total:.1f} |", flush=True)


if __name__ == "__main__":
    main()
