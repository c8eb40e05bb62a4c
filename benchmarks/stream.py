"""A million short segments through ``quitmt rerank``: is the memory constant?

    python benchmarks/stream.py [--lines 1000000]

Runs the command line in processes of its own on generated pools of 3 candidates, on a tenth of the lines and on all of
them, with and without a journal, and prints each one's peak memory and CPU seconds as the kernel counts them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = "o a um gato cão casa rua velha nova viu comeu dormiu perto longe de da do muito pouco hoje".split()


def write(path: Path, lines: int) -> None:
    rng = random.Random(0)
    with path.open("w") as file:
        for number in range(lines):
            texts = [" ".join(rng.choices(WORDS, k=4)) for _ in range(3)]
            file.write(json.dumps({"id": f"segment-{number}", "source": "x", "candidates": texts}) + "\n")


def measure(pools: Path, output: str) -> tuple[float, float]:
    """Peak megabytes and CPU seconds of one run."""
    process = subprocess.Popen([sys.executable, "-m", "quitmt", "rerank", str(pools), "-q", "-o", output])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    lines = parser.parse_args().lines
    print("| segments | output | peak memory, MB | CPU seconds | segments a CPU second |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for count in (lines // 10, lines):
            pools = Path(folder) / "pools.jsonl"
            write(pools, count)
            for name, output in (("none", os.devnull), ("file, with journal", str(Path(folder) / "out"))):
                memory, seconds = measure(pools, output)
                print(f"| {count:,} | {name} | {memory:.0f} | {seconds:.1f} | {count / seconds:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
