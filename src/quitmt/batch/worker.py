"""A worker: one engine, shared by any number of parts at once.

Invariants: a part's file is written as a whole once all its rows have an outcome. A failed row is an outcome with its
error. An engine that fails on every input is broken: the worker raises ``Broken`` and writes no file, and its process
must be replaced.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quitmt.batch import columns
from quitmt.batch.board import DEADLY_DEATHS, Suspicion
from quitmt.batch.job import Folder
from quitmt.batch.plan import Planned, unpack
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
"""After this many failures in a row, the engine is tested with a sentence that should work."""
TRIAL = Segment("trial", "Good morning.")
REPORT_SECONDS = 1.0
REPORT_TIMEOUT_SECONDS = 5.0


class Broken(Exception):
    """The engine of this worker cannot be used any longer."""


@dataclass(frozen=True, slots=True)
class Work:
    """All that a worker must know. Sent to it."""

    folder: Folder
    recipe: Mapping[str, Any]
    nbest: int = 0
    profile: bytes | None = None
    """The content of the recipe's profile, whose file isn't on the worker's machine."""
    others: Mapping[str, str] = field(default_factory=dict)
    """The user's other columns and their types."""
    elsewhere: bool = False
    """Whether workers run on other machines: then an error on one machine may not occur on another."""


class Observer:
    """Receives a worker's progress; this one ignores it."""

    def part(self, number: int, tally: PartTally) -> None:
        """Called about once per second for each part."""

    async def begin_row(self, number: int, row: str) -> None:
        """Called before each row of a part that is done row by row."""


class _Room:
    """Admits any number of parts at once, or a single part that must be alone. The latter goes first."""

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
    """Limits the rows in the engine. A row's deadline starts only once it has a slot."""
    budget: int
    deadline: float | None
    failures_in_a_row: int = 0
    last_error: str = ""
    last_good: Segment = TRIAL
    """The last segment that didn't fail."""
    testing: asyncio.Lock = field(default_factory=asyncio.Lock)


class PartWorker:
    def __init__(self, work: Work, observer: Observer | None = None) -> None:
        self._work, self._observer = work, observer or Observer()
        self._engine: asyncio.Task[_Loaded] | None = None
        self._room = _Room()

    async def do(self, part: int, suspicion: Suspicion | None = None, *, retry: bool = False) -> PartTally:
        """Works on a part and writes its file. With ``retry`` only failed rows are translated again."""
        async with self._room.enter(alone=suspicion is not None):
            return await self._do(part, suspicion, retry=retry)

    async def _do(self, part: int, suspicion: Suspicion | None, *, retry: bool) -> PartTally:
        place, kind = self._work.folder.worked(part), self._work.folder.output_format
        earlier: dict[str, dict[str, Any]] = {}
        if await asyncio.to_thread(place.exists):
            records = columns.from_bytes(await asyncio.to_thread(place.read), kind, place.url)
            if not retry:  # the worker that wrote it died before it could report it
                return PartTally.of(records, self._work.recipe.get("stop", {}).get("n") or BUDGET)
            earlier = {one["id"]: one for one in records if not columns.is_failed(one)}
        rows = unpack(await asyncio.to_thread(self._work.folder.rows(part).read))
        firsts = [row for row in rows if row.first]
        outcomes, tally = await self._rows(part, firsts, earlier, suspicion)
        engine = await self._loaded()
        if engine.failures_in_a_row:  # errors of a broken engine must not be written as outcomes
            await self._test(engine, 1)
        data = columns.to_bytes(outcomes, kind, columns.names(self._work.nbest), self._work.others)
        await asyncio.to_thread(place.write, data)
        return tally

    async def _rows(
        self, part: int, rows: list[Planned], earlier: Mapping[str, dict[str, Any]], suspicion: Suspicion | None
    ) -> tuple[list[dict[str, Any]], PartTally]:
        tally, reported = PartTally(), time.monotonic()

        async def one(row: Planned) -> dict[str, Any]:
            nonlocal reported
            engine = await self._loaded()
            fields, copied = earlier.get(row.id), False
            if fields is None:
                deadly = suspicion is not None and row.id in suspicion.deadly
                finished = _deadly(engine, row) if deadly else await self._translated(engine, row)
                fields = columns.record(finished, row.id, self._work.nbest) | json.loads(row.others)
                copied = finished.outcome.copied
            tally.add(fields, engine.budget, copied=copied)
            if time.monotonic() - reported > REPORT_SECONDS:
                reported = time.monotonic()
                self._observer.part(part, tally)
            return fields

        if suspicion is not None:
            outcomes = []
            for row in rows:
                await self._loaded()  # a death while loading isn't the row's fault
                await self._observer.begin_row(part, row.id)
                outcomes.append(await one(row))
            return outcomes, tally
        tasks = [asyncio.ensure_future(one(row)) for row in rows]
        try:
            outcomes = [await task for task in tasks]
            tally.error = next(
                (fields["error"] for fields in outcomes if fields.get("error")), None
            )  # the first in row order
            return outcomes, tally
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
            engine.failures_in_a_row, engine.last_good = 0, segment
        else:
            engine.failures_in_a_row += 1
            engine.last_error = finished.outcome.error or ""
            if engine.session.failure or engine.failures_in_a_row >= FAILURES_IN_A_ROW:
                await self._test(engine, FAILURES_IN_A_ROW)
        return finished

    async def _submitted(self, engine: _Loaded, segment: Segment, *, alone: bool = False) -> Finished:
        ranked = self._work.nbest > 0
        return await engine.session.submit(segment, deadline=engine.deadline, ranked=ranked, alone=alone)

    async def _test(self, engine: _Loaded, least: int) -> None:
        """Finds out whether the segments fail or the engine does, if at least this many failed in a row."""
        async with engine.testing:
            if engine.session.failure:
                raise Broken(engine.session.failure)
            if engine.failures_in_a_row < least:  # another row has tested it meanwhile
                return
            tested = await self._submitted(engine, engine.last_good, alone=True)
            if tested.outcome.stop is StopReason.FAILED:
                raise Broken(f"{engine.failures_in_a_row} segments in a row failed, the last with: {engine.last_error}")
            engine.failures_in_a_row = 0

    def _loaded(self) -> asyncio.Task[_Loaded]:
        if self._engine is None:
            self._engine = asyncio.ensure_future(self._load())
        return self._engine

    async def _load(self) -> _Loaded:
        recipe = Recipe.from_fields(self._work.recipe)
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
                    raise Broken(f"the engine doesn't start: {error}") from error
                raise
        return _Loaded(session, asyncio.Semaphore(plan.in_flight), built.rule.budget, recipe.run.deadline)

    async def close(self) -> None:
        task = self._engine
        if task is not None and task.done() and not task.cancelled() and task.exception() is None:
            await task.result().session.close()


def _deadly(engine: _Loaded, row: Planned) -> Finished:
    """Makes the outcome of a row that isn't tried again."""
    error = GenerationError(f"the worker's process ended {DEADLY_DEATHS} times while this row was translated")
    return Finished.without_candidates(row.as_segment(), StopReason.FAILED, engine.session.signature, error)


def resolved_here(recipe: Recipe) -> Plan:
    """Resolves the recipe on this machine. It was valid where the job was started, so any problem is this machine's."""
    try:
        return resolve(recipe)
    except QuitmtError as error:
        ship = setting("batch.working_dir", "FOLDER")
        hint = f"install its packages on every machine, or ship your own code with {ship}"
        if isinstance(error, MissingExtra):
            hint = f"{error.hint} on every machine"
        raise UsageError(f"a worker cannot use the recipe: {error.args[0]}", hint=hint) from None


class BoardObserver(Observer):
    def __init__(self, board: Any) -> None:
        self._board = board

    def part(self, number: int, tally: PartTally) -> None:
        self._board.part.remote(number, tally.to_fields())

    async def begin_row(self, number: int, row: str) -> None:
        with suppress(Exception):  # Ray restarts a lost board
            await self._board.row.remote(number, row)


class PartActor:
    """The worker as Ray runs it. Each call works on one part, and several calls run at once. Ray replaces an actor
    whose process has ended."""

    def __init__(self, work: Work, board: Any) -> None:
        self._board = board
        self._worker = PartWorker(work, BoardObserver(board))
        board.started.remote()

    async def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        number = int(batch["part"][0])
        try:
            suspicion = None
            with suppress(Exception):  # Ray restarts a lost board
                suspicion = await self._board.begin.remote(number)
            tally = (await self._worker.do(number, suspicion, retry=bool(batch["retry"][0]))).to_fields()
        except Broken as error:
            self._report(self._board.broke, str(error))
            os._exit(1)  # Ray retries an actor that raises forever, but replaces one whose process has ended
        except QuitmtError as error:
            self._report(self._board.refused, str(error.args[0]), error.hint)
            raise
        self._board.finished.remote(number, tally)
        return {"part": [number], "tally": [json.dumps(tally)]}

    def _report(self, method: Any, *values: Any) -> None:
        """Waits until the board has received the message."""
        import ray

        with suppress(Exception):
            ray.get(method.remote(*values), timeout=REPORT_TIMEOUT_SECONDS)
