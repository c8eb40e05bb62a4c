"""Small jobs for tests, and a worker that runs without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quitmt.batch.columns import from_bytes
from quitmt.batch.job import BatchJob, claim
from quitmt.batch.plan import BatchPlan, prepare
from quitmt.batch.worker import PartWorker, Work
from quitmt.plan import Recipe

FUNCTIONS = "tests.batch.functions"


def recipe(function: str = "words", **fields: Any) -> Recipe:
    """A recipe with a function as the model, so that nothing is loaded."""
    more = {name.replace("__", "."): value for name, value in fields.items()}
    return Recipe().changed({"model.name": f"{FUNCTIONS}:{function}", "stop.n": 8, "stop.k": 4, **more})


def planned(job: BatchJob) -> BatchPlan:
    files, format_name = job.files()
    claim(job, files)
    return prepare(job, files, format_name)


def worked(job: BatchJob, parts: Sequence[int], *, retry: bool = False, at_once: int = 4) -> PartWorker:
    """Works on parts with one worker, a few at a time."""

    async def work() -> PartWorker:
        worker = PartWorker(Work(job.folder, job.recipe.to_fields(), job.nbest))
        slots = asyncio.Semaphore(at_once)

        async def one(part: int) -> None:
            async with slots:
                await worker.do(part, retry=retry)

        try:
            await asyncio.gather(*map(one, parts))
        finally:
            await worker.close()
        return worker

    return asyncio.run(work())


def results(job: BatchJob) -> list[dict[str, Any]]:
    return [row for path in files_of(job) for row in from_bytes(path.read_bytes(), job.output_format, path.name)]


def files_of(job: BatchJob) -> list[Path]:
    return sorted(Path(job.output).glob("part-*"))
