"""Any callable as a generator: ``sample(source, start, stop)`` returns candidates start..stop of a source.

It may be a plain function, which runs in a thread, or a coroutine function. It returns texts or ``Candidate``s;
returning fewer than requested ends the segment's sequence.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from quitmt.errors import GenerationError, UsageError
from quitmt.loops.call import in_thread
from quitmt.loops.faults import FAULTS, Carried, blamed, is_cancellation, started
from quitmt.protocols import Generator
from quitmt.types import Candidate, Draw, Request, Segment

Candidates = Iterable[str | Candidate]
Sample = Callable[[str, int, int], Candidates | Awaitable[Candidates]]


def as_generator(thing: Any, name: str | None = None) -> Generator:
    """Wraps a function as a generator; returns a generator unchanged."""
    if hasattr(thing, "draw") and not isinstance(thing, type):
        return thing  # type: ignore[no-any-return]
    if not callable(thing) or isinstance(thing, type):
        hint = "it must be a function sample(source, start, stop) or a Generator (draw, close)"
        raise UsageError(f"{name or type(thing).__name__} cannot generate candidates", hint=hint)
    return FunctionGenerator(thing, name=name)


class FunctionGenerator:
    def __init__(self, sample: Sample, *, name: str | None = None) -> None:
        self._sample = sample
        self.signature = f"function:{name or getattr(sample, '__qualname__', type(sample).__name__)}"
        self._running: dict[asyncio.Task[Draw], Segment] = {}

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        tasks = {started(self._draw(request)): request.segment for request in requests}
        self._running |= tasks
        try:
            for done in asyncio.as_completed(tasks):
                if draw := await _unless_closed(done):
                    yield draw
        finally:
            for task in tasks:
                task.cancel()
                self._running.pop(task, None)
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _draw(self, request: Request) -> Draw:
        start = time.perf_counter()
        try:
            candidates = [_candidate(one) for one in await self._call(request)]
            if not candidates and request.start == 0:
                raise ValueError("it returned no candidates")
        except FAULTS as error:
            if is_cancellation(error):
                raise
            reason = blamed(GenerationError, f"segment {request.segment.id}: sampling failed", error)
            return Draw(request.segment, request.start, (), error=reason)
        wanted = request.stop - request.start
        seconds = time.perf_counter() - start
        return Draw(request.segment, request.start, tuple(candidates[:wanted]), seconds, ended=len(candidates) < wanted)

    async def _call(self, request: Request) -> Candidates:
        arguments = (request.segment.source, request.start, request.stop)
        # Calling a coroutine function only creates the coroutine; the work is awaited below.
        is_quick = inspect.iscoroutinefunction(self._sample)
        result = self._sample(*arguments) if is_quick else await in_thread(self._sample, *arguments)
        candidates = await result if isinstance(result, Awaitable) else result
        if isinstance(candidates, str):
            raise TypeError("it must return a list of candidates, not one text")
        return candidates

    def close(self, segment: Segment) -> None:
        """Cancel the segment's calls. A plain function can't be interrupted, so its result is ignored."""
        for task, its in list(self._running.items()):
            if its is segment:
                with suppress(RuntimeError):  # its loop may be closed
                    task.get_loop().call_soon_threadsafe(task.cancel)


async def _unless_closed(done: Awaitable[Draw]) -> Draw | None:
    """A draw; None if it was cancelled because its segment was closed."""
    try:
        return await done
    except Carried as one:
        raise one.error from None
    except asyncio.CancelledError as error:
        if is_cancellation(error):
            raise
        return None


def _candidate(found: str | Candidate) -> Candidate:
    candidate = Candidate(found) if isinstance(found, str) else found
    if not isinstance(candidate, Candidate):
        raise TypeError(f"a candidate must be a text, not {type(found).__name__}")
    candidate.text.encode()  # refuses unpaired surrogates
    return candidate
