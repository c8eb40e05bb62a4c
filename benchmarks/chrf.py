"""chrF-MBR of 512 distinct candidates, from strings to winner: CPU seconds beside fastchrf and sacrebleu, in one run.

    python benchmarks/chrf.py [--pools POOLS.jsonl.gz]

CPU seconds are those of all threads (fastchrf is parallel). Ours are the best of several runs after a first one that
compiles or loads the kernels; fastchrf runs once; sacrebleu scores a sample of pairs, and its row is extrapolated.
Without ``--pools``, the candidates are made from one sentence by mutations; with it, they come from the pool that has
most distinct ones of about 150 characters, filled up from further pools of that kind if it has fewer than 512.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import fastchrf
import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import CHRF

from quitmt import rerank
from quitmt.metrics.chrf import Chrf
from quitmt.protocols import Update
from quitmt.types import Candidate, Segment

Result = TypeVar("Result")
Floats = npt.NDArray[np.float64]

CANDIDATES = 512
BLOCK = 64
"""Rows compared at once in the one-shot run: small matrices stay in the cache and in memory the process already has."""
SENTENCE = (
    "The council will decide next week whether the new bridge across the river can be opened "
    "to traffic before the end of the year, as the mayor guaranteed"
)
SYNONYMS = {
    "council": ["committee", "city council", "board"],
    "decide": ["determine", "vote on", "settle"],
    "next": ["the coming", "this"],
    "whether": ["if"],
    "new": ["recently built", "planned"],
    "bridge": ["crossing", "overpass"],
    "across": ["over", "spanning"],
    "river": ["stream", "water"],
    "opened": ["released", "made available", "reopened"],
    "traffic": ["cars", "vehicles", "the public"],
    "before": ["prior to", "ahead of", "by"],
    "end": ["close", "turn"],
    "guaranteed": ["pledged", "announced", "had said"],
    "mayor": ["head of the city", "governor"],
}


def mutated(count: int) -> list[str]:
    """Distinct rewordings of one sentence: synonyms, words left out, doubled, swapped, misspelt."""
    draw = random.Random(2024)
    pool: dict[str, None] = {}
    while len(pool) < count:
        words: list[str] = []
        for word in SENTENCE.split():
            chance = draw.random()
            if chance < 0.45 and word in SYNONYMS:
                word = draw.choice(SYNONYMS[word])
            elif chance < 0.06:
                continue
            elif chance < 0.08 and words:
                words.insert(-1, word)
                continue
            elif chance < 0.12:
                place = draw.randrange(len(word))
                word = word[:place] + draw.choice("etaoinshr") + word[place:]
            words.append(word)
        pool[" ".join(words) + draw.choice([".", "", "!", " ."])] = None
    return list(pool)


def pooled(path: Path, count: int) -> tuple[list[str], str]:
    """Distinct candidates of a recorded pool, and a sentence that says which."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        pools = [list(dict.fromkeys(json.loads(line)["candidates"])) for line in lines]
    fitting = [pool for pool in pools if pool and 130 <= sum(map(len, pool)) / len(pool) <= 170]
    fitting.sort(key=len, reverse=True)
    taken: dict[str, None] = {}
    used = 0
    while len(taken) < count and used < len(fitting):
        taken.update(dict.fromkeys(fitting[used]))
        used += 1
    texts = list(taken)[:count]
    first = min(len(fitting[0]), count) if fitting else 0
    return texts, f"{first} from one pool, {len(texts) - first} from {used - 1} more to fill it up"


def cpu(run: Callable[[], Result], times: int) -> tuple[float, Result]:
    """The least CPU seconds of several runs, and the last result."""
    least = float("inf")
    for _ in range(times):
        start = time.process_time()
        result = run()
        least = min(least, time.process_time() - start)
    return least, result


def grown(texts: list[str], batch: int, block: int) -> Iterator[tuple[range, Floats, Floats]]:
    """Encode in batches, compare in blocks of rows: only new pairs, each once."""
    utility = Chrf()
    arena = utility.open(Segment("benchmark"))
    for start in range(0, len(texts), batch):
        utility.encode([(arena, texts[start : start + batch])])
        for top in range(start, len(arena), block):
            rows = range(top, min(top + block, len(arena)))
            forward, backward = utility.compare(arena, rows, range(rows.stop))
            yield rows, forward, backward


def winner(texts: list[str], batch: int) -> int:
    """The best candidate's index by the reranker itself; it knows the best after every 8 candidates."""
    reranker = rerank.load("mbr:chrf")
    pool, best = reranker.open(Segment("benchmark")), 0
    candidates = [Candidate(text) for text in texts]
    for start in range(0, len(texts), batch):
        [snapshots] = reranker.extend([Update(pool, candidates[start : start + batch], stride=8)])
        assert isinstance(snapshots, list)
        best = snapshots[-1].best
    return best


def matrix(texts: list[str], batch: int, block: int) -> Floats:
    whole = np.full((len(texts), len(texts)), np.nan)
    for rows, forward, backward in grown(texts, batch, block):
        whole[rows.start : rows.stop, : rows.stop] = forward
        whole[: rows.stop, rows.start : rows.stop] = backward.T
    return whole


def by_fastchrf(texts: list[str]) -> Floats:
    return np.array(fastchrf.pairwise_chrf([texts], [texts])[0]) / 100


def by_sacrebleu(texts: list[str], pairs: list[tuple[int, int]]) -> Floats:
    metric = CHRF()
    return np.array([metric.sentence_score(texts[h], [texts[r]]).score / 100 for h, r in pairs])


def small_pools(texts: list[str], pools: int = 2000) -> float:
    """Microseconds for opening, encoding and comparing a pool of 4 candidates of 30 characters."""
    utility = Chrf()
    four = list(dict.fromkeys(text[:30] for text in texts))[:4]

    def run() -> None:
        for _ in range(pools):
            arena = utility.open(Segment("benchmark"))
            utility.encode([(arena, four)])
            utility.compare(arena, range(len(four)), range(len(four)))

    return cpu(run, 5)[0] / pools * 1e6


def report(texts: list[str], origin: str) -> None:
    count = len(texts)
    winner(texts[:9], 8)
    one_shot, best = cpu(lambda: winner(texts, count), 15)
    steps, best_in_steps = cpu(lambda: winner(texts, 8), 15)
    theirs, expected = cpu(lambda: by_fastchrf(texts), 1)
    draw = random.Random(7)
    pairs = [(draw.randrange(count), draw.randrange(count)) for _ in range(2000)]
    sample, sampled = cpu(lambda: by_sacrebleu(texts, pairs), 1)
    scores = matrix(texts, count, BLOCK)
    rows, columns = np.array(pairs).T
    apart, apart_sampled = abs(scores - expected).max(), abs(scores[rows, columns] - sampled).max()
    same_bits = np.array_equal(scores, matrix(texts, 8, 8))

    print(f"{count} distinct candidates of {sum(map(len, texts)) / count:.0f} characters ({origin}).\n")
    print("| | CPU seconds | fastchrf takes | largest difference from ours |")
    print("|---|---:|---:|---:|")
    for name, seconds, difference in (
        ("quitmt, one shot", one_shot, ""),
        ("quitmt, in steps of 8", steps, "0 (bit for bit)" if same_bits else "NOT THE SAME"),
        ("fastchrf.pairwise_chrf", theirs, f"{apart:.1e}"),
        (f"sacrebleu, from {len(pairs)} pairs", sample / len(pairs) * count**2, f"{apart_sampled:.1e}"),
    ):
        print(f"| {name} | {seconds:.4f} | {theirs / seconds:.3g}× | {difference} |")
    print(f"\nSteps of 8 cost {steps / one_shot:.2f}× the one shot. ", end="")
    print(f"Winners: {best}, in steps {best_in_steps}, fastchrf {int(expected.mean(axis=1).argmax())}.")
    print(f"A pool of 4 candidates of 30 characters: {small_pools(texts):.1f} µs.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--pools", type=Path, help="recorded pools, .jsonl.gz with a list of texts in 'candidates'")
    arguments = parser.parse_args()
    if arguments.pools:
        report(*pooled(arguments.pools, CANDIDATES))
    else:
        report(mutated(CANDIDATES), "one sentence, mutated")


if __name__ == "__main__":
    main()
