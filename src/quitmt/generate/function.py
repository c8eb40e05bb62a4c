"""Any callable as a generator: ``sample(source, start, stop)`` gives candidates start..stop of a source.

It may be a plain function (run in a thread, so that it does not hold up the others) or a coroutine function, and give
texts or ``Candidate``s. Fewer than asked for means that there are no more.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from quitmt.errors import GenerationError, UsageError
from quitmt.protocols import Generator
from quitmt.types import Ask, Candidate, Draw, Segment

Candidates = Iterable[str | Candidate]
Sample = Callable[[str, int, int], Candidates | Awaitable[Candidates]]


def as_generator(thing: Any, name: str | None = None) -> Generator:
    """A generator as it is, or any function as one."""
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

    async def draw(self, asks: Sequence[Ask]) -> AsyncIterator[Draw]:
        tasks = [asyncio.create_task(self._draw(ask)) for ask in asks]
        try:
            for done in asyncio.as_completed(tasks):
                yield await done
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _draw(self, ask: Ask) -> Draw:
        start = time.perf_counter()
        try:
            candidates = [_candidate(one) for one in await self._call(ask)]
            if not candidates and ask.start == 0:
                raise ValueError("it gave no candidates")
        except Exception as error:
            reason = GenerationError(f"segment {ask.segment.id}: sampling failed: {type(error).__name__}: {error}")
            return Draw(ask.segment, ask.start, (), error=reason)
        wanted = ask.stop - ask.start
        seconds = time.perf_counter() - start
        return Draw(ask.segment, ask.start, tuple(candidates[:wanted]), seconds, ended=len(candidates) < wanted)

    async def _call(self, ask: Ask) -> Candidates:
        arguments = (ask.segment.source, ask.start, ask.stop)
        # A coroutine function only makes its coroutine here; what takes long is awaited below.
        is_quick = inspect.iscoroutinefunction(self._sample)
        called = self._sample(*arguments) if is_quick else await asyncio.to_thread(self._sample, *arguments)
        found = await called if isinstance(called, Awaitable) else called
        if isinstance(found, str):
            raise TypeError("a list of candidates is needed, not one text")
        return found

    def close(self, segment: Segment) -> None:
        """Nothing is kept."""


def _candidate(found: str | Candidate) -> Candidate:
    candidate = Candidate(found) if isinstance(found, str) else found
    if not isinstance(candidate, Candidate):
        raise TypeError(f"a candidate must be a text, not {type(found).__name__}")
    candidate.text.encode()  # half of a surrogate pair could not be written anywhere
    return candidate
