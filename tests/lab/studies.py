"""Small studies for the lab's tests: a test set, pools that cost nothing, and what was counted on the way."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quitmt.evaluate.metrics import Scores
from quitmt.lab.pools import quality
from quitmt.lab.study import Study, parse
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Draw, Request, Segment

SOURCES = ("Good morning.", "The door is open.", "Where is the station?", "I like tea.", "It rains.", "He left.")
REFERENCES = ("Bom dia.", "A porta está aberta.", "Onde é a estação?", "Eu gosto de chá.", "Chove.", "Ele saiu.")
WORDS = "o a um gato cão casa rua velha nova viu comeu dormiu perto longe de da do muito pouco hoje".split()
SMALL_RULES = {"k": 2, "windows": [2, 4], "alphas": [1e-3, 1e-1], "alpha_windows": [2, 4], "steps": [2, 4]}


class Bars:
    """Progress bars that remember what they were told."""

    def __init__(self) -> None:
        self.all: list[Bar] = []

    def __call__(self, what: str, total: int, unit: str) -> Bar:
        self.all.append(Bar(what, total, unit))
        return self.all[-1]


class Bar:
    def __init__(self, what: str, total: int, unit: str) -> None:
        self.what, self.total, self.unit, self.done, self.closed = what, total, unit, 0, False

    def update(self, count: int) -> None:
        self.done += count

    def close(self) -> None:
        self.closed = True


class Invented:
    """A generator whose candidates are made up from the seed, the segment's id and the index; counts what it drew."""

    def __init__(self, seed: int = 0, fail: frozenset[str] = frozenset()) -> None:
        self.signature = f"invented|seed:{seed}"
        self.seed, self.fail = seed, fail
        self.drawn: list[tuple[str, int]] = []

    def text(self, segment: Segment, index: int) -> str:
        base = random.Random(segment.id).choices(WORDS, k=6)
        rng = random.Random(f"{self.seed} {segment.id} {index}")
        return " ".join(rng.choice(WORDS) if rng.random() < 0.2 else word for word in base)

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        for request in requests:
            if request.segment.id in self.fail:
                raise RuntimeError("out of ink")
            self.drawn += [(request.segment.id, index) for index in range(request.start, request.stop)]
            texts = [self.text(request.segment, index) for index in range(request.start, request.stop)]
            candidates = tuple(Candidate(text, log_probability=-len(text) / 3, tokens=len(text)) for text in texts)
            yield Draw(request.segment, request.start, candidates, seconds=0.5)

    def close(self, segment: Segment) -> None:
        pass


def watch_metrics(monkeypatch: pytest.MonkeyPatch, tell: Callable[[Sequence[str]], object]) -> None:
    """Tell which translations metrics are asked about."""
    inner = quality.load

    def load(spec: str, setup: Any) -> Any:
        metric = inner(spec, setup)
        own = metric.evaluate

        def evaluate(test_set: Any, systems: Any, progress: Any = None) -> list[Scores]:
            tell(systems[0])
            return own(test_set, systems, progress)

        metric.evaluate = evaluate  # type: ignore[method-assign]
        return metric

    monkeypatch.setattr(quality, "load", load)


def write_tsv(path: Path, count: int, references: int = 1) -> Path:
    more = [" ".join(WORDS[place : place + 3]) for place in range(len(SOURCES))]
    columns = [SOURCES, REFERENCES, more][: references + 1]
    path.write_text("".join("\t".join(row) + "\n" for row in list(zip(*columns, strict=True))[:count]), "utf-8")
    return path


def write_pools(path: Path, count: int, size: int, *, sizes: Sequence[int] | None = None) -> Path:
    """Pools with a recorded score ``q``, by the ids that a test set's lines have."""
    invented, lines = Invented(), []
    for number in range(count):
        segment = Segment(str(number + 1), SOURCES[number])
        texts = [invented.text(segment, index) for index in range(sizes[number] if sizes else size)]
        scores = {"q": [round(random.Random(f"{number} {text}").random(), 2) for text in texts]}
        lines.append(json.dumps({"id": segment.id, "source": segment.source, "candidates": texts, "scores": scores}))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def recorded_study(folder: Path, *, count: int = 4, size: int = 16, **sections: dict[str, Any]) -> Study:
    """A study of recorded pools; what is given replaces fields of its sections."""
    tsv, pools = folder / "test.tsv", folder / "pools.jsonl"
    if not tsv.exists():
        write_tsv(tsv, count)
    if not pools.exists():
        write_pools(pools, count, size)
    found: dict[str, Any] = {
        "output": str(folder / "study"),
        "test_set": {"tsv": str(tsv)},
        "model": {"pools": str(pools), "budget": size},
        "rerank": {"rerankers": ["mbr:chrf", "qe:recorded:q"], "accelerated": ["prune"]},
        "rules": dict(SMALL_RULES),
        "evaluate": {"metrics": ["chrf++"], "resamples": 50},
        "live": {"windows": [2]},
    }
    for name, fields in sections.items():
        found[name] = {**found.get(name, {}), **fields}
    return parse(found, "test")


class Decoding(Invented):
    """One that can be decoded in other ways: greedily, by a beam search, at other temperatures."""

    def __init__(self, sampling: Sampling | None = None, told: list[str] | None = None) -> None:
        super().__init__()
        self.sampling = sampling or Sampling()
        self.told = [] if told is None else told
        own = self.sampling
        self.signature = f"decoding|t:{own.temperature}|beam:{own.beam}|seed:{own.seed}"

    def resampled(self, sampling: Sampling) -> Decoding:
        return Decoding(sampling, self.told)

    def text(self, segment: Segment, index: int) -> str:
        base = random.Random(segment.id).choices(WORDS, k=6)
        if self.sampling.beam is not None:
            return " ".join(base[: len(base) - index])
        rng = random.Random(f"{self.sampling.seed} {segment.id} {index}")
        other = self.sampling.temperature / 4
        return " ".join(rng.choice(WORDS) if rng.random() < other else word for word in base)

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        self.told += [
            f"{self.sampling.temperature:g} {self.sampling.beam} {request.segment.id}" for request in requests
        ]
        async for one in super().draw(requests):
            scores = [{"q": round(random.Random(each.text).random(), 2)} for each in one.candidates]
            own = (replace(each, scores=q) for each, q in zip(one.candidates, scores, strict=True))
            yield replace(one, candidates=tuple(own))
