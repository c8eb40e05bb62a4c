"""The crank of the engine: generates and reranks in asyncio tasks whatever the engine can use now.

Requests go to the generator at once; arrived candidates of all segments are reranked in one batch, in a thread. If user
code raises, the segments concerned fail; only KeyboardInterrupt ends the run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from quitmt.engine.engine import Engine
from quitmt.errors import GenerationError, QuitmtError, RerankError
from quitmt.loops.call import in_thread
from quitmt.loops.faults import FAULTS, Carried, blamed, is_cancellation, place_of, started
from quitmt.protocols import Generator, Reranker, RerankerTraits, StoppingRule, Update, traits_of
from quitmt.types import Candidate, Draw, Request, Segment, Snapshot

log = logging.getLogger(__name__)


class Crank:
    def __init__(self, engine: Engine[Any], generator: Generator, reranker: Reranker[Any]) -> None:
        self._engine, self._generator, self._reranker = engine, generator, reranker
        self._segments_at_once = traits_of(reranker, RerankerTraits).segments_at_once
        self._tasks: set[asyncio.Task[None]] = set()
        self._reranking = False
        self.wake = asyncio.Event()
        """Set whenever there may be something new to do."""

    def turn(self) -> None:
        """Start everything that can be started."""
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            result(task)
        if requests := self._engine.requests():
            self._start(self._draw(requests))
        if self._engine.has_updates and not self._reranking:
            self._reranking = True
            self._start(self._rerank())

    def watched(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that wakes the driver when it ends."""
        task = started(work)
        task.add_done_callback(lambda _: self.wake.set())
        return task

    async def stop(self, *others: asyncio.Task[None]) -> None:
        tasks = [*others, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(self.watched(work))

    async def _draw(self, requests: Sequence[Request]) -> None:
        try:
            async for draw in self._generator.draw(requests):
                self._engine.feed(draw)
                self.wake.set()
            error: QuitmtError = GenerationError("the generator returned fewer candidates than requested")
        except FAULTS as raised:
            if is_cancellation(raised):
                raise
            log.debug("generation failed", exc_info=raised)
            missing = [request for request in requests if not self._engine.served(request)]
            if len(requests) > 1:  # request each segment separately, to find the one that fails
                for request in missing:
                    self._start(self._draw([request]))
                return
            error = raised if isinstance(raised, QuitmtError) else _wrapped(raised)
        for request in requests:
            if not self._engine.served(request):
                self._engine.feed(Draw(request.segment, request.start, (), error=error))

    async def _rerank(self) -> None:
        # Slow rerankers get few segments at once: finished ones are safe, and Ctrl-C doesn't wait for the others.
        updates = self._engine.updates(self._segments_at_once)
        start = time.perf_counter()
        snapshots: Sequence[list[Snapshot] | QuitmtError]
        try:
            snapshots = await in_thread(self._reranker.extend, updates)
        except FAULTS as raised:
            if is_cancellation(raised):
                raise
            # The segment at fault is unknown, and pools that were extended can't be extended again: all fail.
            snapshots = [blamed(RerankError, "reranking failed", raised)] * len(updates)
        self._engine.settle(updates, snapshots, time.perf_counter() - start)
        self._reranking = False


async def try_out(reranker: Reranker[Any], rule: StoppingRule) -> None:
    """Use both once, so that everything is compiled and loaded. If one fails, the segments will report it."""

    def work() -> None:
        # The pool grows once, and the rule may stop there: both have kernels for that too.
        state, watch = reranker.open(Segment("warm-up", "One two.", support=("One.",))), rule.open()
        for text in ("One.", "One, two, three, four, five, six, seven."):
            [snapshots] = reranker.extend([Update(state, [Candidate(text)], 1)])
        if not isinstance(snapshots, QuitmtError):
            watch.observe(replace(snapshots[-1], size=watch.horizon(0)))

    try:
        await in_thread(work)
    except FAULTS as error:
        if is_cancellation(error):
            raise
        log.debug("warming up failed", exc_info=error)


def result(task: asyncio.Task[None]) -> None:
    """Raise whatever a finished task raised."""
    try:
        task.result()
    except Carried as one:
        raise one.error from None


def _wrapped(error: BaseException) -> GenerationError:
    wrapped = blamed(GenerationError, "generating failed", error)
    if place_of(error) is None:  # raised by one of our engines, which may succeed with the next segment
        wrapped.fault = None
    return wrapped
