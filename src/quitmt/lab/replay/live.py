"""Rules run live: their real cost, beside the cost that a replay estimates.

A live run samples and reranks again from the same seeds, with nothing known in advance. Its seconds are those that the
engine measured (monotonic clock): a segment's share of the generator's and the reranker's work. All rules run in one
process with the same models, after a short run that warms them up. Results are kept by the signature of the run and the
segments, so asking again costs nothing. A rule that was interrupted is measured again from its start.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quitmt.engine.driver import Driver, in_order
from quitmt.errors import InputError, UsageError
from quitmt.lab.frames import RuleSeconds
from quitmt.lab.pools.sample import in_flight
from quitmt.lab.pools.store import key_of
from quitmt.lab.rows import UNACCELERATED
from quitmt.lab.study import Study
from quitmt.protocols import Generator, Reranker, StoppingRule
from quitmt.types import Segment, StopReason

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
    """From the first request to the last outcome; less than the sum of the two where they overlap."""

    @property
    def seconds(self) -> RuleSeconds:
        return RuleSeconds(self.generate_seconds, self.rerank_seconds, live=True)


@dataclass(frozen=True, slots=True)
class Bench:
    """The models and segments that all rules share."""

    generator: Generator
    reranker: Reranker[Any]
    segments: Sequence[Segment]
    in_flight: int

    def driver(self, rule: StoppingRule) -> Driver:
        return Driver(self.generator, self.reranker, rule, in_flight=self.in_flight)


def run(
    study: Study,
    generator: Generator,
    spec: str,
    reranker: Reranker[Any],
    segments: Sequence[Segment],
    folder: Path,
    thresholds: Mapping[str, StoppingRule],
    progress: Progress | None = None,
) -> list[Live]:
    """Run live: all candidates, each window, and each other rule that fits. ``spec`` is the reranker's name, and
    ``thresholds`` are the other rules (``replay.rules.fitting``)."""
    bench = Bench(generator, reranker, segments, in_flight(study.model))
    rules = [(UNACCELERATED, study.rule("full"))]
    rules += [(f"QUIT w={w}", study.rule("quit", w=w)) for w in study.live.windows]
    rules += thresholds.items()
    found, warm = [], False
    for name, rule in rules:
        path = folder / f"live-{_key(bench, rule)}.json"
        if path.exists():
            found.append(_read(path))
            if progress:
                progress(len(segments))
            continue
        if not warm:
            few = study.rule(f"fixed:{min(study.model.budget, study.rules.k)}")
            asyncio.run(_outcomes(bench.driver(few), segments[:1], None))
            warm = True
        found.append(_measured(bench, name, spec, rule, progress))
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(found[-1])))
        temporary.replace(path)
    return found


def _key(bench: Bench, rule: StoppingRule) -> str:
    texts = (text for one in bench.segments for text in (one.id, one.source))
    return key_of(bench.driver(rule).signature, str(bench.in_flight), *texts)


def _read(path: Path) -> Live:
    try:
        found = json.loads(path.read_text())
        return Live(**{**found, "sizes": tuple(found["sizes"]), "indices": tuple(found["indices"])})
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{path} cannot be read", hint="delete it: the rule will be measured again") from None


def _measured(bench: Bench, name: str, spec: str, rule: StoppingRule, progress: Progress | None) -> Live:
    began = time.perf_counter()
    outcomes = asyncio.run(_outcomes(bench.driver(rule), bench.segments, progress))
    wall = time.perf_counter() - began
    if failed := next((one for one in outcomes if one.stop is StopReason.FAILED), None):
        raise UsageError(f"segment {failed.id} failed in a live run: {failed.error}")
    return Live(
        name,
        spec,
        tuple(one.size for one in outcomes),
        tuple(one.index for one in outcomes),
        sum(one.seconds.generate for one in outcomes),
        sum(one.seconds.rerank for one in outcomes),
        wall,
    )


async def _outcomes(driver: Driver, segments: Sequence[Segment], progress: Progress | None) -> list[Any]:
    await driver.check()
    found = []
    async for finished in in_order(driver.run(list(segments))):
        found.append(finished.outcome)
        if progress:
            progress(1)
    return found
