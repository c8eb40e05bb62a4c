"""Accelerated MBR beside exact MBR, and beside mbrs: the same winners, at which cost?

    python benchmarks/mbr.py POOLS [--only chrf|comet|growth] [--mbrs PYTHON]

``chrf``: recorded pools, their first 64, 256 and 512 candidates. ``comet``: a seeded random head of COMET-22's sizes
over seeded vectors in clusters, with no encoder. ``growth``: rewordings of one sentence, 64 to 2,048 of them, distinct.

All figures are means a segment. *Winner*: how often a method's choice is that of exact MBR. *Regret*: the expected
utility over the whole pool that its choice loses. *Evaluations*: utilities computed, as a share of N². *CPU seconds*:
those of all threads and processes, from strings (or vectors) to one winner, with one thread for BLAS: on a busy machine
idle threads of BLAS spin, which would be counted. With chrF they are the least of 5 runs (growth: 7), except low rank
at 512 candidates, which is run once as everything with COMET's head is.

PYTHON is the interpreter of an environment with mbrs, which has other pins:

    python -m venv .venv-mbrs && .venv-mbrs/bin/pip install torch==2.13.0
    .venv-mbrs/bin/pip install mbrs==0.1.8 "setuptools<81"

It runs once, on a few of the same pools, for its chrF of Python is slow: with that one (its default) and with fastchrf.
Its CPU seconds are without imports. Its settings are its defaults, which are not ours: rank 8 and 10 sweeps, columns up
to 256 for pruning; and it compares duplicates, as we do not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.metrics.chrf import Chrf
from quitmt.protocols import Update, Utility
from quitmt.rerank import variants
from quitmt.rerank.accelerated import Accelerated
from quitmt.rerank.lowrank import ObservedMean
from quitmt.rerank.mbr import Mbr
from quitmt.types import Candidate, Effort, Segment

THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SIZES = (64, 256, 512)
CHRF = ("exact", "prune", "lowrank", "observed mean", "aggregate", "aggregate:top=0")
COMET = ("exact", "prune", "lowrank", "observed mean", "centroid", "aggregate", "aggregate:top=0")
GROWTH = {"exact": 2048, "prune": 2048, "aggregate": 2048, "aggregate:top=0": 2048, "lowrank": 512}
"""The largest pool each is run on."""
PEERS = {"exact": "exact", "prune": "prune", "lowrank": "lowrank", "aggregate": "aggregate:top=0"}
"""Names of mbrs's methods below → those of ours that do the same."""

PEER = """
import json, resource, sys
from mbrs.decoders import get_decoder
from mbrs.metrics import get_metric

names = {"exact": "mbr", "prune": "pruning_mbr", "lowrank": "probabilistic_mbr", "aggregate": "aggregate_mbr"}
asked = json.load(sys.stdin)
kind = get_metric("chrf")
metric = kind(kind.Config(fastchrf=asked["fast"], num_workers=2))

def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)

counted = 0
def counting(inner, each):
    def call(self, hypotheses, references, *rest, **more):
        global counted
        counted += len(hypotheses) * (len(references) if each else 1)
        return inner(self, hypotheses, references, *rest, **more)
    return call
kind.pairwise_scores = counting(kind.pairwise_scores, True)
kind.scores = counting(kind.scores, False)

for method, name in names.items():
    decoder = get_decoder(name)
    best, seconds, evaluations = [], [], []
    for texts in asked["pools"]:
        counted, began = 0, cpu()
        output = decoder(decoder.Config(), metric).decode(texts, texts, nbest=1)
        seconds.append(cpu() - began)
        evaluations.append(counted or len(texts))
        best.append(int(output.idx[0]))
    print(json.dumps({"method": method, "best": best, "seconds": seconds, "evaluations": evaluations}), flush=True)
"""


@dataclass(frozen=True)
class Run:
    """What a method did to one pool."""

    best: int
    seconds: float
    evaluations: int


@dataclass(frozen=True)
class Problem:
    """A pool, and the truth about it."""

    id: str
    texts: list[str]
    expected: npt.NDArray[np.float64]
    """Of each candidate, over the whole pool."""

    @property
    def best(self) -> int:
        return int(self.expected.argmax())

    def same(self, index: int) -> bool:
        return self.texts[index] == self.texts[self.best]

    def regret(self, index: int) -> float:
        return float(self.expected[self.best] - self.expected[index])


def run(utility: Utility[Any], method: str, name: str, texts: Sequence[str], times: int = 1) -> Run:
    made = ObservedMean() if method == "observed mean" else variants.load(method)
    reranker: Any = Accelerated(utility, made) if made else Mbr(utility)
    least = float("inf")
    for _ in range(times):
        candidates = [Candidate(text) for text in texts]
        began = time.process_time()
        state = reranker.open(Segment(name, "source"))
        [snapshots] = reranker.extend([Update(state, candidates, len(candidates))])
        least = min(least, time.process_time() - began)
        if not isinstance(snapshots, list):
            raise snapshots
        effort: Effort = reranker.effort(state)
    return Run(snapshots[-1].best, least, effort.evaluations)


def problem(utility: Utility[Any], name: str, texts: list[str]) -> Problem:
    """All utilities, by the utility itself and not by a reranker."""
    distinct = list(dict.fromkeys(texts))
    number = {text: place for place, text in enumerate(distinct)}
    arena, whole = utility.open(Segment(name, "source")), np.empty((len(distinct), len(distinct)))
    utility.encode([(arena, distinct)])
    for start in range(0, len(distinct), 64):
        rows = range(start, min(start + 64, len(distinct)))
        forward, backward = utility.compare(arena, rows, range(rows.stop))
        whole[rows.start : rows.stop, : rows.stop] = forward
        whole[: rows.stop, rows.start : rows.stop] = backward.T
    order = [number[text] for text in texts]
    return Problem(name, texts, whole[np.ix_(order, order)].mean(axis=1))


def table(title: str, problems: list[Problem], rows: list[tuple[str, list[Run]]], regret: Callable[..., str]) -> None:
    print(f"\n{title}\n\n| | winner | regret | evaluations | CPU seconds |\n|---|---:|---:|---:|---:|")
    for name, runs in rows:
        pairs = list(zip(problems, runs, strict=False))
        same = sum(one.same(found.best) for one, found in pairs)
        share = np.mean([found.evaluations / len(one.texts) ** 2 for one, found in pairs])
        lost = regret([one.regret(found.best) for one, found in pairs], problems)
        seconds = np.mean([found.seconds for found in runs])
        print(f"| {name} | {same}/{len(pairs)} | {lost} | {share:.1%} | {seconds:.4g} |", flush=True)


def thousandths(lost: list[float], problems: list[Problem]) -> str:
    return f"{1e3 * float(np.mean(lost)):.2f}"


def deviations(lost: list[float], problems: list[Problem]) -> str:
    return f"{np.mean([one / pool.expected.std() for one, pool in zip(lost, problems, strict=False)]):.3f}"


def chrf(pools: list[list[str]], mbrs: str | None, few: int) -> None:
    for size in SIZES:
        problems = [problem(Chrf(), str(number), texts[:size]) for number, texts in enumerate(pools)]
        found: dict[str, list[Run]] = {}
        for method in CHRF:
            times = 1 if method.startswith("lowrank") and size > 256 else 5
            found[method] = [run(Chrf(), method, one.id, one.texts, times) for one in problems]
        title = f"chrF, N = {size}, {len(pools)} pools (regret × 10³)"
        table(title, problems, list(found.items()), thousandths)
        if mbrs:
            beside(mbrs, problems[:few], found)


def beside(mbrs: str, problems: list[Problem], ours: dict[str, list[Run]]) -> None:
    """The same pools through mbrs."""
    rows: list[tuple[str, list[Run]]] = []
    for fast, called in ((False, "mbrs"), (True, "mbrs with fastchrf")):
        requested = json.dumps({"fast": fast, "pools": [one.texts for one in problems]})
        command = [mbrs, "-W", "ignore", "-c", PEER]
        answer = subprocess.run(command, input=requested, stdout=subprocess.PIPE, text=True, check=True).stdout
        for line in answer.splitlines():
            told = json.loads(line)
            runs = [Run(*one) for one in zip(told["best"], told["seconds"], told["evaluations"], strict=True)]
            mean = float(np.mean([one.seconds for one in ours[PEERS[told["method"]]][: len(problems)]]))
            ratio = float(np.mean([one.seconds for one in runs])) / mean
            rows.append((f"{called}, {told['method']}: ours takes {mean:.4g}, **{ratio:.3g}×** less", runs))
    table(f"mbrs on the first {len(problems)} of them", problems, sorted(rows), thousandths)


def comet(segments: dict[int, int]) -> None:
    import torch

    from pair_head import WIDTH, seeded_head
    from quitmt.metrics.comet import CometUtility

    head = seeded_head()

    def seeded(seed: int, size: int) -> Utility[Any]:
        """Candidates in clusters of unequal size around one meaning, some far from it."""
        rng = np.random.default_rng([seed, 5])
        common, clusters = rng.standard_normal(WIDTH), rng.standard_normal((12, WIDTH))
        chosen = rng.choice(12, size, p=rng.dirichlet(np.full(12, 0.7)))
        spread = rng.gamma(2.0, 0.15, (size, 1))
        own = common + 0.6 * clusters[chosen] + spread * rng.standard_normal((size, WIDTH))
        vectors = {str(number): torch.tensor(0.5 * one, dtype=torch.float32) for number, one in enumerate(own)}
        vectors["source"] = torch.tensor(0.5 * (common + 0.5 * rng.standard_normal(WIDTH)), dtype=torch.float32)
        fake = SimpleNamespace(
            head=head, signature="seeded", embed=lambda texts: torch.stack([vectors[text] for text in texts])
        )
        return CometUtility(fake)  # type: ignore[arg-type]

    for size, count in segments.items():
        utilities = [seeded(number, size) for number in range(count)]
        texts = [str(number) for number in range(size)]
        problems = [problem(utility, str(number), texts) for number, utility in enumerate(utilities)]
        rows = [
            (method, [run(one, method, pool.id, texts) for one, pool in zip(utilities, problems, strict=True)])
            for method in COMET
        ]
        title = f"COMET's head, N = {size}, {count} pools (regret in deviations of the expected utilities of a pool)"
        table(title, problems, rows, deviations)


def growth() -> None:
    from chrf import mutated

    sizes = [64 << step for step in range(6)]
    texts = mutated(sizes[-1])
    print("\nGrowth: CPU seconds, and evaluations, of distinct candidates\n")
    print(f"| | {' | '.join(f'N = {size:,}' for size in sizes)} | slope |\n|---|{'---:|' * (len(sizes) + 1)}")
    for method, largest in GROWTH.items():
        fitting = [size for size in sizes if size <= largest]
        runs = [run(Chrf(), method, "growth", texts[:size], 7) for size in fitting]
        cells = [f"{one.seconds:.4f} ({one.evaluations:,})" for one in runs] + ["–"] * (len(sizes) - len(runs))
        slopes = (slope(fitting, [one.seconds for one in runs]), slope(fitting, [one.evaluations for one in runs]))
        print(f"| {method} | {' | '.join(cells)} | {slopes[0]:.2f} ({slopes[1]:.2f}) |", flush=True)


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Of the straight line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def read(path: Path, count: int) -> Iterator[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            texts = json.loads(line)["candidates"]
            if count and len(texts) >= SIZES[-1]:
                count -= 1
                yield texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", type=Path, metavar="POOLS", help="recorded pools of 512 candidates, .jsonl.gz")
    parser.add_argument("--only", choices=("chrf", "comet", "growth"))
    parser.add_argument("--count", type=int, default=12, help="how many of the pools (12)")
    parser.add_argument("--mbrs", metavar="PYTHON", help="the interpreter of an environment with mbrs 0.1.8")
    parser.add_argument("--mbrs-count", type=int, default=2, help="how many of the pools mbrs gets (2)")
    args = parser.parse_args()
    if not THREADS.items() <= os.environ.items():  # they are read when numpy is imported: start anew
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | THREADS)
    run(Chrf(), "aggregate", "warm", ["the kernels are compiled", "or loaded"])
    if args.only in (None, "chrf"):
        chrf(list(read(args.pools, args.count)), args.mbrs, args.mbrs_count)
    if args.only in (None, "comet"):
        comet({64: 4, 256: 2, 512: 1})
    if args.only in (None, "growth"):
        growth()


if __name__ == "__main__":
    main()
