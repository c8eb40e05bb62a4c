"""How fast the embedded sampler is, against one that computes a row for every candidate.

    python benchmarks/sampling.py --sources FILE [--segments 12] [--candidates 512]

FILE has one English sentence a line (or tab-separated, the sentence first). All numbers are CPU seconds of one run; the
compilation of kernels is not counted, and BLAS has one thread. The plain sampler is the tests' dense numpy network in
float32: all candidates of a segment in one BLAS product a position, finished ones dropped.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its waiting threads would be counted against the plain sampler

import numpy as np
import numpy.typing as npt

from quitmt.bergamot.models import LoadedModel, find, load
from quitmt.bergamot.sampling import Sampler
from quitmt.bergamot.sources import LENGTH_EXTRA, LENGTH_FACTOR
from quitmt.bergamot.trie import Slots
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "bergamot"))
from plain_network import PlainNetwork

MODEL = "embedded:en-pt"


@dataclass
class Measured:
    name: str
    candidates: int = 0
    tokens: int = 0
    rows: int = 0
    seconds: float = 0.0
    output_seconds: float = 0.0

    def line(self, base: Measured) -> str:
        rate = self.candidates / self.seconds
        return (
            f"| {self.name} | {rate:.1f} | {rate * base.seconds / base.candidates:.2f}× "
            f"| {self.rows / self.tokens:.2f} | {1e6 * self.seconds / self.rows:.0f} "
            f"| {self.output_seconds / self.seconds:.0%} |"
        )


def plain(model: LoadedModel, segments: list[Segment], count: int, temperature: float) -> Measured:
    """A row for every candidate."""
    network = PlainNetwork(find(MODEL).model, np.float32, unknown=model.target.unknown)
    measured = Measured("plain numpy, a row a candidate", candidates=count * len(segments))
    randoms = np.random.default_rng(0)
    started = time.process_time()
    for segment in segments:
        source = model.source.encode(segment.source)
        memory, cells, tokens = network.encode(source), network.start(count), None
        paths: list[list[int]] = [[] for _ in range(count)]
        alive, log_probabilities = np.arange(count), np.zeros(count)
        for position in range(LENGTH_FACTOR * len(source) + LENGTH_EXTRA):
            x, cells = network.step(tokens, position, cells, memory)
            before = time.process_time()
            logits = network.logits(x)
            logits -= logits.max(axis=1, keepdims=True)
            normalisers = np.log(np.exp(logits).sum(axis=1))
            running = np.cumsum(np.exp(logits / np.float32(temperature)), axis=1)
            targets = randoms.random(len(alive), np.float32) * running[:, -1]
            each = zip(running, targets, strict=True)
            tokens = np.array([np.searchsorted(line, target, "right") for line, target in each])
            tokens = np.minimum(tokens, logits.shape[1] - 1)
            log_probabilities[alive] += logits[np.arange(len(alive)), tokens] - normalisers
            measured.output_seconds += time.process_time() - before
            measured.rows += len(alive)
            for candidate, token in zip(alive.tolist(), tokens.tolist(), strict=True):
                paths[candidate].append(token)
            going = tokens != model.target.end
            alive, tokens, cells = alive[going], tokens[going], [cell[going] for cell in cells]
            if not len(alive):
                break
        for path in paths:
            model.target.decode(path)
    measured.seconds, measured.tokens = time.process_time() - started, measured.rows
    return measured


class UnsharedSampler(Sampler):
    """The same kernels, but every candidate has nodes of its own from its first token on."""

    def _children(self, slots: Slots, tokens: Slots, log_probabilities: npt.NDArray[np.float64]) -> Slots:
        steps = zip(slots.tolist(), tokens.tolist(), log_probabilities.tolist(), strict=True)
        trie = {slot: self._by_number[int(self._nodes.owners[slot])] for slot in set(slots.tolist())}
        return np.array([self._nodes.add(trie[slot], slot, token, step) for slot, token, step in steps], np.int64)


def at_once(segments: list[Segment], count: int) -> Iterator[list[Request]]:
    for segment in segments:
        yield [Request(segment, 0, count)]


def by_windows(segments: list[Segment], count: int, window: int = 64) -> Iterator[list[Request]]:
    for segment in segments:
        for start in range(0, count, window):
            yield [Request(segment, start, start + window)]


def side_by_side(segments: list[Segment], count: int, window: int = 64) -> Iterator[list[Request]]:
    for start in range(0, count, window):
        yield [Request(segment, start, start + window) for segment in segments]


def ours(
    name: str, model: LoadedModel, rounds: Iterator[list[Request]], temperature: float, kind: type[Sampler] = Sampler
) -> Measured:
    """The sampler of quitmt, asked round by round."""
    sampler, measured = kind(model, Sampling(temperature)), Measured(name)
    started = time.process_time()
    for requests in rounds:
        for request in requests:
            sampler.admit(request)
        while sampler.busy:
            measured.candidates += sum(len(draw.candidates) for _, draw in sampler.step())
    measured.seconds = time.process_time() - started
    tally = sampler.tally
    measured.rows, measured.tokens, measured.output_seconds = tally.rows, tally.tokens, tally.output_seconds
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--segments", type=int, default=12)
    parser.add_argument("--candidates", type=int, default=512)
    parser.add_argument("--temperature", type=float, default=1.2)
    arguments = parser.parse_args()
    lines = arguments.sources.read_text(encoding="utf-8").splitlines()
    every = max(1, len(lines) // arguments.segments)
    chosen = lines[::every][: arguments.segments]
    segments = [Segment(str(i), line.split("\t")[0]) for i, line in enumerate(chosen)]
    count, temperature = arguments.candidates, arguments.temperature
    model = load(MODEL)
    ours("compile", model, at_once([Segment("compile", "Hello.")], 2), temperature)
    rows = [
        plain(model, segments, count, temperature),
        ours("quitmt's kernels, nothing shared", model, at_once(segments, count), temperature, UnsharedSampler),
        ours(f"quitmt, one ask of {count}", model, at_once(segments, count), temperature),
        ours("quitmt, asks of 64", model, by_windows(segments, count), temperature),
        ours("quitmt, asks of 64, all segments together", model, side_by_side(segments, count), temperature),
    ]
    print(f"{len(segments)} segments, {count} candidates each, temperature {temperature}\n")
    print("| sampler | candidates a CPU second | against plain | rows a token | CPU µs a row | output layer |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(row.line(rows[0]))


if __name__ == "__main__":
    main()
