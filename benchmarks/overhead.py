"""How much of a run is neither generation nor scoring: engine, rule, bookkeeping, output.

    python benchmarks/overhead.py SOURCES [--segments 20] [--rerank mbr:chrf]

Translates in this process exactly as the command line does, to a file, with outcomes, pools and journal. Sampling and
scoring run in threads of their own; everything else runs in the event loop's thread, whose CPU is the overhead.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from quitmt.cli.main import parser as command_line
from quitmt.cli.translate import prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, help="text, a source a line; after a tab anything")
    parser.add_argument("--segments", type=int, default=20)
    parser.add_argument("--rerank", nargs="+", default=["mbr:chrf", "qe:likelihood"])
    args = parser.parse_args()
    print("| reranker | stop | CPU seconds | of which not generation or scoring |\n|---|---|---|---|")
    lines = [line.split("\t")[0] for line in args.sources.read_text().splitlines()[: args.segments]]
    for reranker in args.rerank:
        for rule in ("quit", "full"):
            with tempfile.TemporaryDirectory() as folder:
                run(Path(folder), lines, reranker, rule)


def run(folder: Path, lines: list[str], reranker: str, rule: str) -> None:
    (folder / "in").write_text("\n".join(lines) + "\n")
    words = ["translate", str(folder / "in"), "-o", str(folder / "out"), "--jsonl", str(folder / "jsonl"), "-q"]
    words += ["--keep-pools", str(folder / "pools"), "--rerank", reranker, "--stop", rule]
    parsed = command_line().parse_args(words)
    work, items = prepare(parsed)  # type: ignore[misc]
    start, start_here = time.process_time(), time.thread_time()
    asyncio.run(work.work(items))
    work.outputs.close()
    total, here = time.process_time() - start, time.thread_time() - start_here
    print(f"| {reranker} | {rule} | {total:.1f} | {here / total:.2%} |", flush=True)


if __name__ == "__main__":
    main()
