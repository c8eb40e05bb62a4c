"""Rules run live: what they really cost, beside what a replay estimates.

A live run samples and reranks again, from the same seeds, with nothing known in advance. Its seconds are the ones the
engine measured (monotonic clock): a segment's share of the generator's and the reranker's work. Results are kept by the
signature of the run and the segments, so asking again costs nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quitmt import generate, stop
from quitmt.engine.driver import Driver, in_order
from quitmt.errors import UsageError
from quitmt.lab.frames import Seconds
from quitmt.lab.sample import sampler
from quitmt.lab.store import key_of
from quitmt.lab.study import Study
from quitmt.lab.trajectories import loaded
from quitmt.types import Segment, Verdict

Progress = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Live:
    """One rule's live run."""

    rule: str
    reranker: str
    sizes: tuple[int, ...]
    indices: tuple[int, ...]
    generate_seconds: float
    rerank_seconds: float
    wall_seconds: float
    """From the first ask to the last outcome: less than the sum where the two overlap."""

    @property
    def seconds(self) -> Seconds:
        return Seconds(self.generate_seconds, self.rerank_seconds, live=True)


def run(
    study: Study, reranker: str, segments: Sequence[Segment], folder: Path, progress: Progress | None = None
) -> list[Live]:
    """All candidates, then each window of the study, live."""
    if study.model.pools is not None:
        raise UsageError("a study of recorded pools cannot be run live", hint="name a model in [model]")
    rules = [("Unaccelerated", "full", 2), *((f"QUIT w={w}", "quit", w) for w in study.live.windows)]
    return [_one(study, reranker, name, spec, w, segments, folder, progress) for name, spec, w in rules]


def _one(
    study: Study,
    reranker: str,
    name: str,
    spec: str,
    w: int,
    segments: Sequence[Segment],
    folder: Path,
    progress: Progress | None,
) -> Live:
    generator, languages = sampler(study.model)
    rule = stop.load(spec, k=study.rules.k, w=w, alpha=study.rules.alpha, n=study.model.budget)
    in_flight = study.model.in_flight or generate.BACKENDS[study.model.name.partition(":")[0]].in_flight
    driver = Driver(generator, loaded(reranker, study.rerank, languages), rule, in_flight=in_flight)
    key = key_of(driver.signature, str(in_flight), *(text for one in segments for text in (one.id, one.source)))
    path = folder / f"live-{key}.json"
    if path.exists():
        if progress:
            progress(len(segments))
        found = json.loads(path.read_text())
        return Live(**{**found, "sizes": tuple(found["sizes"]), "indices": tuple(found["indices"])})
    began = time.perf_counter()
    outcomes = asyncio.run(_outcomes(driver, segments, progress))
    wall = time.perf_counter() - began
    if failed := next((one for one in outcomes if one.stop is Verdict.FAILED), None):
        raise UsageError(f"segment {failed.id} failed in a live run: {failed.error}")
    live = Live(
        name,
        reranker,
        tuple(one.size for one in outcomes),
        tuple(one.index for one in outcomes),
        sum(one.seconds.generate for one in outcomes),
        sum(one.seconds.rerank for one in outcomes),
        wall,
    )
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(live)))
    temporary.replace(path)
    return live


async def _outcomes(driver: Driver, segments: Sequence[Segment], progress: Progress | None) -> list[Any]:
    await driver.check()
    found = []
    async for finished in in_order(driver.run(list(segments))):
        found.append(finished.outcome)
        if progress:
            progress(1)
    return found
