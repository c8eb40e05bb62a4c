"""Growing beams: a nested sequence of candidates from beam search, which has none by itself.

A beam of 8 need not hold the hypotheses of a beam of 4, so a pool that grows by a wider beam is another pool, and a
rule that compares the two compares nothing. The *union* is nested: the hypotheses of a beam of size b, the best first,
then those of a beam of 2b that are new, then of 4b, and so on. Identical texts come once. Any rule may stop anywhere in
it. Nothing is random.

A beam is searched for when a candidate of it is asked for. All beams up to size B together cost about as much as one of
2B, and their union has at least B candidates unless the search finds fewer.

Invariant: a segment's sequence depends on its source and on b alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from quitmt import protocols
from quitmt.errors import UsageError, setting
from quitmt.loops.faults import started
from quitmt.protocols import Generator, GeneratorTraits, traits_of
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Draw, Request, Segment

WIDEST = 1024
"""No beam is wider: the sequence ends there."""


class GrowingBeams:
    """``generator`` makes the searches; ``first`` is the size of the first beam."""

    def __init__(self, generator: Generator, first: int) -> None:
        check(first)
        own: Any = generator
        if not hasattr(own, "resampled"):
            raise UsageError(f"{generator.signature.partition('|')[0]} has no beam search")
        self._generator, self._first = own, first
        self._searches: dict[int, Generator] = {first: own.resampled(Sampling(beam=first))}
        self._unions: dict[int, _Union] = {}
        self.signature = f"{self._searches[first].signature}|doubled"
        self.traits = traits_of(generator, GeneratorTraits)

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        tasks = [started(self._answer(request)) for request in requests]
        try:
            for one in asyncio.as_completed(tasks):
                if draw := await one:
                    yield draw
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, request: Request) -> Draw | None:
        """Nothing if the segment was closed meanwhile."""
        union = self._unions.setdefault(id(request.segment), _Union(request.segment, self._first))
        async with union.lock:
            seconds = 0.0
            while len(union.candidates) < request.stop and not union.ended:
                hypotheses = list[Candidate]()
                search = self._search(union.size)
                async for draw in search.draw([Request(request.segment, 0, union.size)]):
                    if draw.error is not None:
                        return Draw(request.segment, request.start, (), seconds, error=draw.error)
                    hypotheses += draw.candidates
                    seconds += draw.seconds
                search.close(request.segment)
                if self._unions.get(id(request.segment)) is not union:
                    return None
                union.take(hypotheses)
            found = tuple(union.candidates[request.start : request.stop])
            return Draw(request.segment, request.start, found, seconds, ended=request.start + len(found) < request.stop)

    def _search(self, size: int) -> Generator:
        if size not in self._searches:
            self._searches[size] = self._generator.resampled(Sampling(beam=size))
        return self._searches[size]

    def close(self, segment: Segment) -> None:
        if self._unions.pop(id(segment), None):
            for search in self._searches.values():
                search.close(segment)

    async def check(self) -> None:
        await protocols.check(self._generator)

    async def warm(self) -> None:
        await protocols.warm(self._search(self._first))

    @property
    def waiting(self) -> str | None:
        return next(filter(None, map(protocols.waiting, self._searches.values())), None)

    def unknown(self, source: str) -> str:
        return protocols.unknown(self._generator, source)


class _Union:
    """What one segment's beams have found."""

    def __init__(self, segment: Segment, size: int) -> None:
        self.segment = segment  # its id() is the key, so it must live
        self.lock = asyncio.Lock()
        self.size = size
        """Of the next beam."""
        self.candidates: list[Candidate] = []
        self.ended = False
        self._known: set[str] = set()

    def take(self, hypotheses: Sequence[Candidate]) -> None:
        self.ended = len(hypotheses) < self.size or 2 * self.size > WIDEST
        self.size *= 2
        for one in hypotheses:
            if one.text not in self._known:
                self._known.add(one.text)
                self.candidates.append(one)


def check(first: int) -> None:
    if isinstance(first, bool) or not isinstance(first, int) or not 1 <= first <= WIDEST:
        raise UsageError(f"{setting('model.beams')} must be a whole number from 1 to {WIDEST}, not {first}")
