"""A worker: one engine for each language pair, and any number of parts at once that share it.

Invariants: a part's file is written when all its rows have an outcome, as a whole. A row that fails is an outcome with
its error. An engine that fails whatever it is given is broken (``Broken``): no file is written, and whoever runs the
worker must end its process and start another one.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from quitmt.batch import columns
from quitmt.batch.board import DEADLY_DEATHS, Suspicion
from quitmt.batch.job import Folder
from quitmt.batch.plan import Pair, Planned, unpack
from quitmt.batch.tally import PartTally
from quitmt.defaults import BUDGET
from quitmt.engine.session import Session
from quitmt.errors import GenerationError, MissingExtra, QuitmtError, UsageError, setting
from quitmt.plan.build import build
from quitmt.plan.plan import Plan
from quitmt.plan.recipe import Recipe
from quitmt.plan.resolve import resolve
from quitmt.types import Finished, Segment, StopReason

FAILURES_IN_A_ROW = 16
"""So many, and the engine is tried with a sentence that should work."""
TRIAL = Segment("trial", "Good morning.")
REPORT_SECONDS = 1.0


class Broken(Exception):
    """The engine of this worker is of no use any more."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker must know. Travels to it."""

    folder: Folder
    recipe: Mapping[str, Any]
    nbest: int = 0
    profile: bytes | None = None
    """The file that the recipe names, which is not on the worker's machine."""
    others: Mapping[str, str] = field(default_factory=dict)
    """The user's own columns, with their types."""
    elsewhere: bool = False
    """Whether workers are on other machines than whoever started the job: what fails on one may work on another."""

    def recipe_for(self, pair: Pair) -> Recipe:
        return for_pair(Recipe.from_fields(self.recipe), pair)


def for_pair(recipe: Recipe, pair: Pair) -> Recipe:
    """With the languages that rows name."""
    names = ("model.source_language", "model.target_language")
    return recipe.changed({name: code for name, code in zip(names, pair, strict=True) if code})


class Observer(Protocol):
    """Looks on while parts are worked on."""

    def row(self, fields: Mapping[str, Any], budget: int) -> None: ...

    def part(self, number: int, tally: PartTally) -> None: ...

    async def begin_row(self, number: int, row: str) -> None:
        """Of a part that is done row by row."""


class Nobody:
    def row(self, fields: Mapping[str, Any], budget: int) -> None:
        """Nobody looks."""

    def part(self, number: int, tally: PartTally) -> None:
        """Nobody looks."""

    async def begin_row(self, number: int, row: str) -> None:
        """Nobody looks."""


class _Room:
    """For any number of parts at once, or for one that must be alone; that one goes first."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._inside = self._waiting = 0

    @asynccontextmanager
    async def enter(self, *, alone: bool) -> AsyncIterator[None]:
        self._waiting += alone
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: not self._inside if alone else not self._waiting)
                self._inside += 1
            try:
                yield
            finally:
                self._inside -= 1
        finally:
            self._waiting -= alone
            async with self._changed:
                self._changed.notify_all()


@dataclass(slots=True)
class _Loaded:
    session: Session
    slots: asyncio.Semaphore
    """As many as the engine works on at once. The time of whoever waits for one is not running yet."""
    budget: int
    deadline: float | None
    failures: int = 0
    """In a row."""
    error: str = ""
    """Of the last failure."""
    worked: Segment = TRIAL
    """The last one that did not fail."""
    trying: asyncio.Lock = field(default_factory=asyncio.Lock)


class PartWorker:
    def __init__(self, work: Work, observer: Observer | None = None) -> None:
        self._work, self._observer = work, observer or Nobody()
        self._engines: dict[Pair, asyncio.Task[_Loaded]] = {}
        self._room = _Room()

    async def do(self, part: int, suspicion: Suspicion | None = None, *, retry: bool = False) -> PartTally:
        """Work on a part, and write its file. With ``retry`` only what failed is done again."""
        async with self._room.enter(alone=suspicion is not None):
            return await self._do(part, suspicion, retry=retry)

    async def _do(self, part: int, suspicion: Suspicion | None, *, retry: bool) -> PartTally:
        place, kind = self._work.folder.worked(part), self._work.folder.output_format
        earlier: dict[str, dict[str, Any]] = {}
        if await asyncio.to_thread(place.exists):
            records = columns.from_bytes(await asyncio.to_thread(place.read), kind, place.url)
            if not retry:  # whoever did it died before it could say so
                return PartTally.of(records, self._work.recipe.get("stop", {}).get("n") or BUDGET)
            earlier = {one["id"]: one for one in records if not columns.is_failed(one)}
        rows = unpack(await asyncio.to_thread(self._work.folder.rows(part).read))
        firsts = [row for row in rows if row.first]
        found, tally = await self._rows(part, firsts, earlier, suspicion)
        await self._try_all({row.pair for row in firsts})
        data = columns.to_bytes(found, kind, columns.names(self._work.nbest), self._work.others)
        await asyncio.to_thread(place.write, data)
        return tally

    async def _rows(
        self, part: int, rows: list[Planned], earlier: Mapping[str, dict[str, Any]], suspicion: Suspicion | None
    ) -> tuple[list[dict[str, Any]], PartTally]:
        tally, reported = PartTally(), time.monotonic()

        async def one(row: Planned) -> dict[str, Any]:
            nonlocal reported
            engine = await self._engine(row.pair)
            fields = earlier.get(row.id)
            if fields is None:
                deadly = suspicion is not None and row.id in suspicion.deadly
                finished = _deadly(engine, row) if deadly else await self._translated(engine, row)
                fields = columns.record(finished, row.id, self._work.nbest) | json.loads(row.others)
                self._observer.row(fields, engine.budget)
            tally.add(fields, engine.budget)
            if time.monotonic() - reported > REPORT_SECONDS:
                reported = time.monotonic()
                self._observer.part(part, tally)
            return fields

        if suspicion is not None:
            found = []
            for row in rows:
                await self._engine(row.pair)  # whoever dies of loading it did not die of the row
                await self._observer.begin_row(part, row.id)
                found.append(await one(row))
            return found, tally
        tasks = [asyncio.ensure_future(one(row)) for row in rows]
        try:
            found = [await task for task in tasks]
            tally.error = next((fields["error"] for fields in found if fields.get("error")), None)  # in order of rows
            return found, tally
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _translated(self, engine: _Loaded, row: Planned) -> Finished:
        segment = row.as_segment()
        if not row.source.strip():
            return Finished.without_candidates(segment, StopReason.STABLE, engine.session.signature)
        async with engine.slots:
            finished = await self._submitted(engine, segment)
        if finished.outcome.stop is not StopReason.FAILED:
            engine.failures, engine.worked = 0, segment
        else:
            engine.failures += 1
            engine.error = finished.outcome.error or ""
            if engine.session.failure or engine.failures >= FAILURES_IN_A_ROW:
                await self._try(engine, FAILURES_IN_A_ROW)
        return finished

    async def _submitted(self, engine: _Loaded, segment: Segment) -> Finished:
        return await engine.session.submit(segment, deadline=engine.deadline, ranked=self._work.nbest > 0)

    async def _try_all(self, pairs: Iterable[Pair]) -> None:
        """Before failures are written: those of a broken engine are not the segments' own."""
        for pair in pairs:
            if (engine := await self._engine(pair)).failures:
                await self._try(engine, 1)

    async def _try(self, engine: _Loaded, least: int) -> None:
        """Find out whether it is the segments that fail, or the engine, if so many failed in a row."""
        async with engine.trying:
            if engine.session.failure:
                raise Broken(engine.session.failure)
            if engine.failures < least:  # it was tried while this one waited
                return
            tried = await self._submitted(engine, engine.worked)
            if tried.outcome.stop is StopReason.FAILED:
                raise Broken(f"{engine.failures} segments in a row failed, the last with: {engine.error}")
            engine.failures = 0

    def _engine(self, pair: Pair) -> asyncio.Task[_Loaded]:
        if pair not in self._engines:
            self._engines[pair] = asyncio.ensure_future(self._load(pair))
        return self._engines[pair]

    async def _load(self, pair: Pair) -> _Loaded:
        recipe = self._work.recipe_for(pair)
        with tempfile.TemporaryDirectory(prefix="quitmt-") as folder:
            if self._work.profile is not None:
                path = Path(folder) / "profile.json"
                path.write_bytes(self._work.profile)
                recipe = recipe.changed({"stop.profile": str(path)})
            plan = resolved_here(recipe)
            try:
                built = await asyncio.to_thread(build, plan)
                session = built.session()
                await session.start()
            except Exception as error:
                if self._work.elsewhere:
                    raise Broken(f"the engine does not start: {error}") from error
                raise
        return _Loaded(session, asyncio.Semaphore(plan.in_flight), built.rule.budget, recipe.run.deadline)

    async def close(self) -> None:
        for task in self._engines.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                await task.result().session.close()


def _deadly(engine: _Loaded, row: Planned) -> Finished:
    """The outcome of a row that is not tried any more."""
    told = GenerationError(f"the worker's process ended {DEADLY_DEATHS} times while this row was translated")
    return Finished.without_candidates(row.as_segment(), StopReason.FAILED, engine.session.signature, told)


def resolved_here(recipe: Recipe) -> Plan:
    """The recipe was found good where the job was started: what is wrong with it here is wrong with this machine."""
    try:
        return resolve(recipe)
    except QuitmtError as error:
        ship = setting("batch.working_dir", "FOLDER")
        hint = f"install what it needs on every machine, or ship your own code with {ship}"
        if isinstance(error, MissingExtra):
            hint = f"{error.hint} on every machine"
        raise UsageError(f"a worker cannot use the recipe: {error.args[0]}", hint=hint) from None
