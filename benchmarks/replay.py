"""The lab at full size: every sweep of the study on 12,000 segments × 512 candidates, and what it keeps on disk.

    python benchmarks/replay.py [--pools POOLS] [--only replay|store] [--segments 12000]

``replay``: made-up trajectories, of MBR (scores that wander and settle) and of QE (running maxima), two metrics. CPU
seconds of the process by part, and its peak memory as the kernel counts it. Making them up is not counted as CPU, but
it is in the memory.

``store``: 200 pools of 512 through chrF-MBR and recorded QE into the store as a study keeps them, extrapolated to all
segments. The pools are POOLS (a JSONL file, over and over if it is short)
or rewordings of made-up sentences, a third of them duplicates.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle threads of BLAS spin, which would be counted

import numpy as np

from quitmt.files.pools import read_pools
from quitmt.lab.frames import QualityScores, Trajectories
from quitmt.lab.pipeline import replayed
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.pools.trajectories import compute
from quitmt.lab.replay.prr import window_prr
from quitmt.lab.report import assemble
from quitmt.lab.results import Results
from quitmt.lab.study import Study
from quitmt.lab.study.settings import RerankSettings, TestSetSettings
from quitmt.lab.study.testsets import StudyTestSet
from quitmt.types import Candidate, Segment

N = 512
STORED = 200
SPENT: list[float] = []
"""CPU seconds of each part."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", help="recorded pools to measure the store by")
    parser.add_argument("--only", choices=("replay", "store"))
    parser.add_argument("--segments", type=int, default=12_000)
    args = parser.parse_args()
    if args.only != "store":
        replay(args.segments)
    if args.only != "replay":
        store(args.segments, pools(args.pools))


def replay(segments: int) -> None:
    rng = np.random.default_rng(0)
    study = Study(TestSetSettings(tsv="made up"))
    all_of = {"mbr:chrf": wandering(segments, rng), "qe:likelihood": maxima(segments, rng)}
    quality = {name: QualityScores(name, name, False, rng.random((segments, N))) for name in ("chrF++", "xCOMET")}
    print(f"{segments:,} segments × {N}, {len(all_of)} rerankers, {len(quality)} metrics; {memory():,.0f} MB made up\n")
    print("| part | CPU seconds | peak memory, MB |\n|---|---:|---:|")
    with timed("all rules: w × 8, α × 5 × 3, k × 3 × 3, and Fixed-N* for each"):
        replays = {spec: replayed(study, one, study.rules.windows) for spec, one in all_of.items()}
    for spec, one in all_of.items():
        with timed(f"PRR of {spec.partition(':')[0].upper()}: 8 windows, one metric and the proxy"):
            for w in study.rules.windows:
                for risk in (None, quality["xCOMET"]):
                    window_prr(one, risk, study.rules.k, w, N)
    places = tuple(Segment(str(row), "x") for row in range(segments))
    test_set = StudyTestSet("made up", places, (("r",) * segments,))
    none = tuple(FullPool(segment, (), 1.0) for segment in places)
    results = Results(study, test_set, none, all_of, replays, quality, {})
    judges = [assemble.Criterion("rerank", "Rerank", None)]
    judges += [assemble.Criterion(name, name, one) for name, one in quality.items()]
    for spec in all_of:
        kind = spec.partition(":")[0].upper()
        with timed(f"all comparisons of {kind}, {study.evaluate.resamples:,} resamples") as told:
            rows = assemble.RerankerRows(results, spec, judges)
            told(f"{len(rows.main() + rows.windows() + rows.alphas() + rows.steps())} rows")
    print(f"| in all | {sum(SPENT):.1f} | {memory():,.0f} |")


@contextmanager
def timed(name: str) -> Iterator[Callable[[str], None]]:
    notes: list[str] = []
    began = time.process_time()
    yield notes.append
    SPENT.append(time.process_time() - began)
    told = "".join(f" ({note})" for note in notes)
    print(f"| {name}{told} | {SPENT[-1]:.1f} | {memory():,.0f} |", flush=True)


def wandering(segments: int, rng: np.random.Generator) -> Trajectories:
    """Like MBR's best scores: steps get smaller as the pool grows, and the winner changes now and then."""
    score = np.empty((segments, N))
    for row in range(segments):
        score[row] = 0.6 + np.cumsum(rng.normal(0, 0.02, N) / np.arange(1, N + 1))
    change = rng.random((segments, N)) < 2 / np.arange(1, N + 1)
    best = np.maximum.accumulate(np.where(change, np.arange(N), 0), axis=1)
    return made_up("mbr:chrf", best, score, rng.random((segments, N)))


def maxima(segments: int, rng: np.random.Generator) -> Trajectories:
    """QE's: running maxima of rounded scores, with ties."""
    final = rng.beta(8, 3, (segments, N)).round(4)
    score = np.maximum.accumulate(final, axis=1)
    record = np.concatenate((np.ones((segments, 1), np.bool_), final[:, 1:] > score[:, :-1]), axis=1)
    best = np.maximum.accumulate(np.where(record, np.arange(N), 0), axis=1)
    return made_up("qe:likelihood", best, score, final)


def made_up(spec: str, best: np.ndarray, score: np.ndarray, final: np.ndarray) -> Trajectories:
    segments = len(best)
    ids, seconds = tuple(map(str, range(segments))), np.ones(segments)
    return Trajectories(spec, spec, ids, np.full(segments, N), best.astype(np.int64), score, final, seconds, seconds)


def store(segments: int, found: list[FullPool]) -> None:
    distinct = np.mean([len({one.text for one in pool.candidates}) for pool in found])
    print(f"\n{len(found)} pools of {N}, {distinct:.0f} distinct texts each on average\n")
    print(f"| kept | KB per segment | of {segments:,} segments, GB | CPU seconds to compute and write |")
    print("|---|---:|---:|---:|")
    for spec in ("mbr:chrf", "qe:recorded:q"):
        with tempfile.TemporaryDirectory() as folder:
            compute(spec, found[:2], RerankSettings(), ("en", "pt"), Path(folder) / "compiled")
            began = time.process_time()
            compute(spec, found, RerankSettings(), ("en", "pt"), Path(folder) / "cache")
            seconds = time.process_time() - began
            size = sum(path.stat().st_size for path in Path(folder, "cache").rglob("*.parquet")) / len(found)
        print(f"| {spec}, trajectories | {size / 1e3:.1f} | {size * segments / 1e9:.2f} | {seconds:.1f} |", flush=True)


def pools(path: str | None) -> list[FullPool]:
    rng = np.random.default_rng(1)

    async def read() -> list[list[str]]:
        return [[one.text for one in pool.candidates[:N]] async for pool in read_pools(path or "")]

    texts = asyncio.run(read()) if path else [reworded(rng) for _ in range(STORED)]
    found = []
    for number in range(STORED):
        own = texts[number % len(texts)]
        scores = {text: float(rng.beta(8, 3)) for text in own}
        candidates = tuple(Candidate(text, scores={"q": scores[text]}) for text in own)
        found.append(FullPool(Segment(str(number), str(number)), candidates, 1.0))
    return found


def reworded(rng: np.random.Generator) -> list[str]:
    words = np.array(["".join(rng.choice(list("aeioulmnrst"), rng.integers(2, 10))) for _ in range(3000)])
    base = rng.choice(words, 25)
    different = [np.where(rng.random(25) < 0.25, rng.choice(words, 25), base) for _ in range(2 * N // 3)]
    return [" ".join(different[number]) for number in rng.integers(len(different), size=N)]


def memory() -> float:
    """The peak so far, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1e3


if __name__ == "__main__":
    main()
