"""Full pools for a study: sampled once and kept, or read from a file.

Kept pools are JSON lines that ``quitmt rerank`` can read, with the seconds that sampling took. A file belongs to one
model, sampling and seed. New segments, such as those of a larger test set, are appended to it. A run that was killed
continues where it was.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quitmt import generate
from quitmt.engine.driver import Driver
from quitmt.errors import InputError, UsageError
from quitmt.files.durable import encoded
from quitmt.files.pools import format_pool, parse_pool, read_pools
from quitmt.lab.pools.store import key_of
from quitmt.lab.study.settings import ModelSettings
from quitmt.plan import Recipe, RunRecipe, StopRecipe, resolve
from quitmt.plan.build import build_rule
from quitmt.protocols import Generator
from quitmt.rerank import qe
from quitmt.types import Candidate, RecordedPool, Segment, StopReason

Progress = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class FullPool:
    segment: Segment
    candidates: tuple[Candidate, ...]
    generate_seconds: float
    """Measured when the pool was sampled; NaN for recorded pools."""
    anchors: tuple[Candidate, ...] = ()
    anchor_seconds: float = 0.0
    """Measured when the anchors were decoded; not part of ``generate_seconds``."""

    @property
    def recorded(self) -> RecordedPool:
        return RecordedPool(self.segment, self.candidates, anchors=self.anchors)

    @property
    def key(self) -> str:
        anchors = ["anchors", *(one.text for one in self.anchors)] if self.anchors else []
        return key_of(self.segment.source, *(candidate.text for candidate in self.candidates), *anchors)

    @property
    def scored_key(self) -> str:
        """A key that includes the scores recorded with the candidates."""
        scores = [sorted((one.scores or {}).items()) for one in (*self.candidates, *self.anchors)]
        return key_of(self.key, json.dumps(scores))


def languages(settings: ModelSettings) -> tuple[str | None, str | None]:
    """Source and target, which an embedded model knows by itself."""
    if settings.pools is not None:
        return settings.source_language, settings.target_language
    return generate.resolve(settings.name, settings.source_language, settings.target_language)[1:]


def in_flight(settings: ModelSettings) -> int:
    return resolve(Recipe(settings, run=RunRecipe(in_flight=settings.in_flight)), installed=False).in_flight


def recorded(path: str, segments: Sequence[Segment], budget: int, *, texts: bool = True) -> list[FullPool]:
    """Pools from a file, matched by the segments' ids, or by order if the file has none of these ids. Unless ``texts``
    are needed, pools may hold scores only."""

    async def collect() -> list[RecordedPool]:
        return [pool async for pool in read_pools(path, texts=texts)]

    pools = asyncio.run(collect())
    by_id = {pool.segment.id: pool for pool in pools}
    if not any(segment.id in by_id for segment in segments):
        by_id = {segment.id: pool for segment, pool in zip(segments, pools, strict=False)}
    found = []
    for segment in segments:
        if segment.id not in by_id:
            raise InputError(f"{path} has no pool for segment {segment.id}")
        pool = by_id[segment.id]
        if pool.segment.source and pool.segment.source != segment.source:
            raise InputError(f"{path}: the pool of segment {segment.id} has another source than the test set")
        found.append(FullPool(segment, pool.candidates[:budget], float("nan"), pool.anchors, float("nan")))
    return found


def sampled(
    generator: Generator,
    settings: ModelSettings,
    segments: Sequence[Segment],
    folder: Path,
    progress: Progress | None = None,
) -> list[FullPool]:
    """A pool of ``budget`` candidates for each segment; those in ``folder`` are not sampled again."""
    path = folder / f"pools-{key_of(generator.signature, str(settings.budget))}.jsonl"
    kept = _read(path)
    missing = [segment for segment in segments if (segment.id, segment.source) not in kept]
    if progress:
        progress(len(segments) - len(missing))
    if missing:
        asyncio.run(_sample(generator, settings.budget, missing, in_flight(settings), path, progress))
        kept = _read(path)
    return [kept[segment.id, segment.source] for segment in segments]


def _read(path: Path) -> dict[tuple[str, str], FullPool]:
    """The kept pools. A last line that a crash cut off is removed from the file; the lines before it stay."""
    found: dict[tuple[str, str], FullPool] = {}
    if not path.exists():
        return found
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    # Not splitlines: a text may contain other line breaks than ours.
    for number, raw in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            line = raw.decode("utf-8")
            pool = parse_pool(line)
            seconds = float(json.loads(line)["generate_seconds"])
        except (InputError, KeyError, TypeError, ValueError) as error:
            reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
            raise InputError(
                f"{path}, line {number} is damaged: {reason}", hint="delete the line: it will be sampled again"
            ) from None
        found[pool.segment.id, pool.segment.source] = FullPool(pool.segment, pool.candidates, seconds, pool.anchors)
    return found


async def _sample(
    generator: Generator,
    budget: int,
    segments: Sequence[Segment],
    width: int,
    path: Path,
    progress: Progress | None,
) -> None:
    rule = build_rule(StopRecipe(rule="full", k=min(8, budget), n=budget))
    driver = Driver(generator, qe(lambda source, text: 0.0, name="none"), rule, in_flight=width)
    await driver.check()
    failed: list[str] = []
    with path.open("ab") as file:
        async for _, finished in driver.run(list(segments)):
            outcome = finished.outcome
            if outcome.stop is StopReason.FAILED:
                failed.append(f"segment {outcome.id}: {outcome.error}")
            else:
                drawn = tuple(finished.candidates), generator.signature, tuple(finished.anchors)
                fields: dict[str, Any] = json.loads(format_pool(RecordedPool(finished.segment, *drawn)))
                fields["generate_seconds"] = outcome.seconds.generate
                file.write(encoded(json.dumps(fields, ensure_ascii=False)) + b"\n")
                file.flush()
            if progress:
                progress(1)
    if failed:
        hint = "run it again: the sampled segments are kept"
        raise UsageError(f"{len(failed)} segments could not be sampled; the first: {failed[0]}", hint=hint)
