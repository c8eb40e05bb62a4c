"""Runs a job: plan, work on Ray, results. After any interruption the same call continues it."""

from __future__ import annotations

import json
import math
import os
import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from quitmt.batch import board, cluster, columns
from quitmt.batch.cluster import WorkerPool, connected
from quitmt.batch.fill import check_text, fill, write_text
from quitmt.batch.job import BatchJob, Folder, claim
from quitmt.batch.plan import BatchPlan, prepare
from quitmt.batch.storage import unwritable
from quitmt.batch.tally import USED, PartTally
from quitmt.batch.worker import PartActor, Work
from quitmt.errors import ModelError, setting
from quitmt.files.locks import open_alone
from quitmt.names import importable
from quitmt.plan.plan import refuse_texts
from quitmt.plan.resolve import resolve

LOOK_SECONDS = 1.0
WAIT_SECONDS = 60.0
"""Seconds without any worker before a message tells the user why the job waits."""
READERS = 8


class Reporter(Protocol):
    """Shows the progress of a job."""

    def say(self, message: str) -> None: ...

    def planned(self, plan: BatchPlan, done: PartTally) -> None: ...

    def progress(self, total: PartTally) -> None: ...


@dataclass(slots=True)
class BatchSummary:
    plan: BatchPlan
    total: PartTally
    """The tally of the whole job, including earlier runs."""
    seconds: float
    """Seconds of work in this run, after Ray started; 0 if there was nothing to do."""
    workers: int = 0
    """Maximum number of workers in this run."""


@dataclass(slots=True)
class _Course:
    """The progress of a run: finished parts, parts to retry, and their tally."""

    budget: int
    done: set[int] = field(default_factory=set)
    retried: list[int] = field(default_factory=list)
    sum: PartTally = field(default_factory=PartTally)
    first_error: float = math.inf
    """The part that the error in ``sum`` comes from."""

    def add(self, part: int, tally: PartTally) -> None:
        """Adds a part. Repeated reports are ignored, and the error of the lowest part is kept, whichever finished
        first."""
        if part not in self.done:
            self.done.add(part)
            self.sum.merge(tally)
            if tally.error and part < self.first_error:
                self.first_error, self.sum.error = part, tally.error

    def with_unfinished(self, under_way: dict[int, dict[str, Any]]) -> PartTally:
        total = PartTally()
        total.merge(self.sum)
        for part, fields in under_way.items():
            if part not in self.done:
                total.merge(PartTally.from_fields(fields))
        return total


def run(
    job: BatchJob, pool: WorkerPool, reporter: Reporter, *, retry_failed: bool = False, text: str | None = None
) -> BatchSummary:
    """Runs a job. All checks that don't need Ray are made before it is started."""
    cluster.check_installed()
    with importable(*([pool.working_dir] if pool.working_dir else [])):
        return _run(job, pool, reporter, retry_failed, text)


def _run(job: BatchJob, pool: WorkerPool, reporter: Reporter, retry_failed: bool, text: str | None) -> BatchSummary:
    refuse_texts(job.recipe, "a batch")
    resolve(job.recipe, installed=pool.address is None).refuse_pacing()
    files, format_name = job.files()
    if text is not None:
        check_text(text, files)
    with _alone(job.folder):
        claim(job, files)
        plan = prepare(job, files, format_name)
        course = _course(job, plan, retry_failed=retry_failed)
        reporter.planned(plan, course.sum)
        summary = BatchSummary(plan, PartTally(), 0.0)
        if job.distinct and course.retried:
            job.folder.refill.write(b"")
        if len(course.done) < len(plan.parts):
            started = pool.for_parts(len(plan.parts) - len(course.done))
            summary = _work(job, started, reporter, plan, course)
            summary.workers = started.most
        if job.distinct:
            fill(job.folder, plan, job.nbest)
        if text is not None:
            write_text(job.folder, plan, text)
        summary.total = course.sum
        if not summary.total.failed:  # a rerun needs only the results
            (job.folder.state / "input").remove()
            if job.distinct:
                (job.folder.state / "distinct").remove()
        return summary


@contextmanager
def _alone(folder: Folder) -> Iterator[None]:
    """Prevents two runs of one job at once, if the file system has locks."""
    if not folder.place.is_local:
        yield
        return
    folder.state.make_folder()
    with unwritable(folder.state.url):
        descriptor = open_alone(Path(folder.state.path) / "lock", os.O_RDWR)
    try:
        yield
    finally:
        os.close(descriptor)


def _report_rule(job: BatchJob, reporter: Reporter) -> None:
    """Reports the stopping rule unless the user chose it. A guarantee isn't reported, because only workers know whether
    it holds for their model."""
    stop = job.recipe.stop
    if stop.rule is None and not stop.of_quit:
        resolved = resolve(job.recipe, installed=False)
        default = "" if stop.targets else f", the default for {resolved.recipe.rerank.name}"
        rule = resolved.choice.spec if resolved.choice else resolved.recipe.stop.rule
        reporter.say(f"stopping by {rule}{default}")


def _course(job: BatchJob, plan: BatchPlan, *, retry_failed: bool) -> _Course:
    folder, course = job.folder, _Course(resolve(job.recipe, installed=False).budget)
    # A finished job with distinct rows has only its results left, where equal rows count again.
    only_results = job.distinct and not (folder.state / "input").names()
    source = folder.place if only_results else folder.finished
    there = source.names()
    done = [part for part in range(len(plan.parts)) if folder.name(part) in there]

    def tally(part: int) -> PartTally:
        place = source / folder.name(part)
        return PartTally.of(columns.from_bytes(place.read(), folder.output_format, place.url, USED), course.budget)

    with ThreadPoolExecutor(READERS) as readers:
        for part, counts in zip(done, readers.map(tally, done), strict=True):
            if retry_failed and counts.failed:
                course.retried.append(part)
            else:
                course.add(part, counts)
    return course


def _work(job: BatchJob, pool: WorkerPool, reporter: Reporter, plan: BatchPlan, course: _Course) -> BatchSummary:
    profile = job.recipe.stop.profile
    content = Path(profile).read_bytes() if profile else None
    work = Work(job.folder, job.recipe.to_fields(), job.nbest, content, plan.others, pool.address is not None)
    with connected(pool) as ray:
        start = time.monotonic()
        _report_rule(job, reporter)
        seen = ray.remote(num_cpus=0, max_restarts=-1)(board.Board).remote()
        retried = {*course.retried}
        parts = [(part, part in retried) for part in range(len(plan.parts)) if part not in course.done]
        results: queue.Queue[dict[str, Any] | BaseException | None] = queue.Queue()
        arguments = (ray, _at_once(job, len(parts), pool.most), pool, work, seen, parts, results)
        threading.Thread(target=_consume, args=arguments, daemon=True, name="quitmt-batch").start()
        _follow(ray, seen, pool, reporter, course, results)
        return BatchSummary(plan, PartTally(), time.monotonic() - start)


def _at_once(job: BatchJob, parts: int, workers: int) -> int:
    """Number of parts that a worker has at once: one that is ending, plus enough others to fill its engine. If there
    are few parts, each worker gets its share, so that the first worker doesn't take all of them."""
    in_flight = resolve(job.recipe, installed=False).in_flight
    return min(1 + math.ceil(in_flight / job.rows_per_file), math.ceil(parts / workers))


def _consume(
    ray: Any,
    at_once: int,
    pool: WorkerPool,
    work: Work,
    seen: Any,
    parts: list[tuple[int, bool]],
    results: queue.Queue[Any],
) -> None:
    """Lets Ray Data do the rest: it assigns parts to workers, queues them, and repeats them when a worker dies."""
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        rows = [{"part": part, "retry": retry} for part, retry in parts]
        done = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            PartActor,
            fn_constructor_kwargs={"work": work, "board": seen},
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(
                min_size=max(1, pool.least),
                max_size=pool.most,
                max_tasks_in_flight_per_actor=at_once,
                max_concurrent_calls_per_actor=at_once,
            ),
            num_cpus=pool.cpus,
            num_gpus=pool.gpus or None,
        )
        for row in done.iter_rows():
            results.put(row)
        results.put(None)
    except BaseException as error:
        results.put(error)


def _follow(
    ray: Any, seen: Any, pool: WorkerPool, reporter: Reporter, course: _Course, results: queue.Queue[Any]
) -> None:
    waiting_since: float | None = time.monotonic()
    next_look = time.monotonic() + LOOK_SECONDS
    while True:
        with suppress(queue.Empty):
            result = results.get(timeout=max(0.0, next_look - time.monotonic()))
            if isinstance(result, BaseException):
                raise _worker_error(result, _look(ray, seen)) from None
            if result is None:
                reporter.progress(course.sum)
                return
            course.add(int(result["part"]), PartTally.from_fields(json.loads(result["tally"])))
        if time.monotonic() < next_look:
            continue
        next_look = time.monotonic() + LOOK_SECONDS
        state = _look(ray, seen)
        if state.starts or state.finished:
            waiting_since = None
        elif waiting_since is not None and time.monotonic() - waiting_since > WAIT_SECONDS:
            reporter.say(f"no worker has started yet; each needs {pool.cpus:g} CPUs and {pool.gpus:g} GPUs")
            waiting_since = None
        for part, fields in state.finished.items():
            course.add(part, PartTally.from_fields(fields))
        reporter.progress(course.with_unfinished(state.under_way))
        if board.is_hopeless(state, pool.most):
            raise ModelError(_hopeless(state)) from None


def _look(ray: Any, seen: Any) -> board.State:
    try:
        return ray.get(seen.look.remote(), timeout=30)  # type: ignore[no-any-return]
    except Exception:  # only progress depends on it; Ray restarts a lost board
        return board.State()


def _hopeless(state: board.State) -> str:
    why = f"the last one ended with: {state.error}" if state.error else "their processes ended without an error message"
    return f"workers were started {state.starts} times without finishing a part: {why}"


def _worker_error(error: BaseException, state: board.State) -> BaseException:
    """Returns the worker's own error without Ray's wrapping."""
    if isinstance(error, KeyboardInterrupt):
        return error
    if state.refusal:
        return ModelError(state.refusal[0], hint=state.refusal[1])
    lines = str(error).strip().splitlines() or [type(error).__name__]
    hint = f"{setting('batch.debug')} shows Ray's full log"
    return ModelError(f"Ray gave up: {lines[-1]}", hint=hint)
