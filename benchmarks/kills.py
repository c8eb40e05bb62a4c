"""``kill -9`` at random moments, each time resumed: the results must be those of a run that nobody disturbed.

    python benchmarks/kills.py [--kills 200] [--seed 0]

Half of the kills go to ``translate`` and ``rerank`` each, but a tenth to ``lab run``, which takes longest. A run is
killed, continued, and killed again until it gets through; then all that it wrote is compared, and the next run begins.
Seconds differ from run to run and are left out. It ends after that many kills, or when a result differs.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SENTENCES = [
    "The door is open.", "", "I would like a glass of water.", "It rained all night.", "Where is the station?",
    "My brother works in a small shop.", "The soup is too hot.", "We will meet again tomorrow.",
    "She has never been to the north of the country.", "The train was late because of the snow.",
]  # fmt: skip
REFERENCE = "uma frase qualquer."
WORDS = "o a um gato cão casa rua velha nova viu comeu dormiu perto longe de da do muito pouco hoje".split()
STUDY = """\
output = "out"
[test_set]
tsv = "test.tsv"
[model]
budget = 24
[rerank]
rerankers = ["mbr:chrf"]
accelerated = []
[rules]
k = 2
windows = [2]
alphas = [1e-3]
alpha_windows = [2]
steps = [2]
beyond = []
[evaluate]
metrics = ["chrf++"]
resamples = 20
"""
OUTPUTS = ("-o", "out.txt", "--jsonl", "out.jsonl")


@dataclass
class Case:
    """A command, run in a folder of its own, and what of its results must always be the same."""

    name: str
    words: tuple[str, ...]
    results: Callable[[Path], dict[str, Any]]
    resume: tuple[str, ...] = ("--resume",)
    kills: int = 0
    working: int = 0
    """Kills that came when there was something to resume."""
    runs: int = 0
    failures: list[str] = field(default_factory=list)

    def start(self, folder: Path, *, resume: bool) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "quitmt", *self.words, *(self.resume if resume else ())]
        return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def outcomes(folder: Path) -> dict[str, Any]:
    """Text, outcomes without their seconds, and pools."""
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]
    for fields in lines:
        del fields["seconds"]
    pools = folder / "pools.jsonl.gz"
    kept = gzip.decompress(pools.read_bytes()) if pools.exists() else b""
    left = sorted(path.name for path in folder.glob("*.journal"))
    return {"text": (folder / "out.txt").read_bytes(), "outcomes": lines, "pools": kept, "journals": left}


def studied(folder: Path) -> dict[str, Any]:
    """The candidates of every segment, and all tables without seconds."""
    [path] = (folder / "out" / "cache").glob("pools-*.jsonl")
    pools = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    results: dict[str, Any] = {table.name: timeless(table) for table in (folder / "out" / "tables").glob("*.csv")}
    for measured in ("runtime.csv", "choices.csv", "options.csv"):  # what to use goes by seconds
        results.pop(measured, None)
    return results | {"pools": sorted((pool["id"], pool["candidates"]) for pool in pools)}


def timeless(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: value for name, value in row.items() if not name.startswith("speedup")} for row in rows]


CASES = (
    Case(
        "translate",
        ("translate", "in.txt", *OUTPUTS, "--keep-pools", "pools.jsonl.gz", "-n", "64", "-k", "4", "--in-flight", "4"),
        outcomes,
    ),
    Case("rerank", ("rerank", "recorded.jsonl", *OUTPUTS), outcomes),
    Case("lab run", ("lab", "run", "study.toml", "-q"), studied, ()),
)


def prepare(folder: Path, *, size: int) -> Path:
    """The inputs of all cases; ``size`` is how often the sentences are repeated."""
    folder.mkdir()
    rng = random.Random(0)
    (folder / "in.txt").write_text("\n".join(SENTENCES * size) + "\n", "utf-8")
    rows = [f"{sentence}\t{REFERENCE}\n" for sentence in SENTENCES if sentence]
    (folder / "test.tsv").write_text("".join(rows), "utf-8")
    (folder / "study.toml").write_text(STUDY, "utf-8")
    with (folder / "recorded.jsonl").open("w", encoding="utf-8") as file:
        for number in range(200 * size):
            pool = [" ".join(rng.choices(WORDS, k=12)) for _ in range(48)]
            file.write(json.dumps({"id": number, "source": "s", "candidates": pool}, ensure_ascii=False) + "\n")
    return folder


def finish(process: subprocess.Popen[str]) -> None:
    _, error = process.communicate()
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {error.strip()}")


def disturb(case: Case, inputs: Path, folder: Path, kills: int, rng: random.Random) -> None:
    """Kill and continue it ``kills`` times in all, as many runs as that takes."""
    whole = Path(shutil.copytree(inputs, folder / "whole"))
    begun = time.monotonic()
    finish(case.start(whole, resume=False))
    seconds, expected = time.monotonic() - begun, case.results(whole)
    while case.kills < kills and not case.failures:
        place = Path(shutil.copytree(inputs, folder / f"run-{case.runs}"))
        first = True
        while True:
            begun = time.monotonic()
            process = case.start(place, resume=not first)
            if case.kills < kills:
                try:
                    process.wait(rng.uniform(0, seconds))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    first = False
                    case.kills += 1
                    case.working += bool([*place.glob("*.journal"), *place.glob("out/cache/*")])
                    continue
            try:
                finish(process)
                found = case.results(place)
                if differ := [name for name in expected | found if expected.get(name) != found.get(name)]:
                    case.failures.append(f"{case.name}, run {case.runs}: {', '.join(differ)} differ")
            except (RuntimeError, OSError, ValueError) as error:
                case.failures.append(f"{case.name}, run {case.runs}: {error}")
            case.runs += 1
            if first:  # nobody killed it: how long a run takes now, for the machine may be busier or less busy
                seconds = time.monotonic() - begun
            break
        shutil.rmtree(place)


def table(cases: list[Case]) -> str:
    rows = ["| command | kills | of them with something to resume | runs that got through | results that differ |"]
    rows += ["|---|---:|---:|---:|---:|"]
    rows += [f"| {c.name} | {c.kills} | {c.working} | {c.runs} | {len(c.failures)} |" for c in cases]
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[case.name for case in CASES], help="all kills for one command")
    parser.add_argument("--size", type=int, default=2, help="of the inputs (2)")
    args = parser.parse_args()
    lab = -(-args.kills // 10)
    shares = {"translate": (args.kills - lab + 1) // 2, "rerank": (args.kills - lab) // 2, "lab run": lab}
    if args.only:
        shares = {args.only: args.kills}
    cases = [case for case in CASES if case.name in shares]
    with tempfile.TemporaryDirectory() as name:
        inputs = prepare(Path(name) / "inputs", size=args.size)
        for case in cases:
            disturb(case, inputs, Path(name) / case.name, shares[case.name], random.Random(f"{args.seed} {case.name}"))
            print(f"{case.name}: {case.kills} kills, {case.runs} runs", file=sys.stderr, flush=True)
    print(table(cases))
    failures = [failure for case in cases for failure in case.failures]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
