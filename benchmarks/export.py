"""How fast ``quitmt export`` is beside the plain reading of the same JSON lines, and that its memory does not grow.

    python benchmarks/export.py --pools 100000

Pools are made up: 64 candidates of about 60 characters with a score each, made from a few hundred kinds. Each
measurement is a process of its own. Times are CPU seconds; memory is the highest resident size.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = "o a um gato cão casa rua velha nova viu comeu dormiu perto longe de da do muito pouco hoje".split()
KINDS = 200
PLAIN = """
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    json.loads(line)
"""


def make(path: Path, pools: int, size: int) -> None:
    rng = random.Random(0)
    kinds = []
    for _ in range(KINDS):
        base = rng.choices(WORDS, k=12)
        texts = [" ".join(rng.choice(WORDS) if rng.random() < 0.2 else word for word in base) for _ in range(size)]
        pool = {"source": "SOURCE " + "x " * 30, "candidates": texts, "scores": {"q": [rng.random() for _ in texts]}}
        kinds.append(json.dumps(pool, ensure_ascii=False)[1:])
    with path.open("w", encoding="utf-8") as file:
        for number in range(pools):
            file.write(f'{{"id": "{number}", {kinds[number % KINDS].replace("SOURCE", f"source {number}", 1)}\n')


def measured(words: list[str]) -> tuple[float, float]:
    """CPU seconds, and megabytes at most, of a process."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime, used.ru_maxrss)"
    )
    told = subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True, text=True).stdout
    seconds, kilobytes = told.split()[-2:]
    return float(seconds), float(kilobytes) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--formats", default="dpo,sft,ranked")
    parser.add_argument("--as", dest="suffix", default=".parquet,.jsonl")
    args = parser.parse_args()
    print("| what | pools | rows | CPU s | rows per CPU s | MB at most |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for pools in (args.pools // 10, args.pools):
            path = Path(folder) / "pools.jsonl"
            make(path, pools, args.size)
            seconds, memory = measured([sys.executable, "-c", PLAIN, str(path)])
            print(
                f"| plain JSON | {pools} | | {seconds:.1f} | {pools / seconds:.0f} lines | {memory:.0f} |", flush=True
            )
            for name in args.formats.split(","):
                for suffix in args.suffix.split(","):
                    output = Path(folder) / f"out{suffix}"
                    command = ["-m", "quitmt", "export", str(path), "--as", name, "-o", str(output), "-q"]
                    seconds, memory = measured([sys.executable, *command])
                    speed = f"{pools / seconds:.0f}"
                    print(
                        f"| {name} to {suffix} | {pools} | {pools} | {seconds:.1f} | {speed} | {memory:.0f} |",
                        flush=True,
                    )
                    output.unlink()


if __name__ == "__main__":
    main()
