"""Recorded pools as a generator, so that samples can be reranked any number of times."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Iterable, Iterator, Sequence
from dataclasses import replace

from quitmt.protocols import GeneratorTraits
from quitmt.types import Draw, RecordedPool, Request, Segment


class RecordedGenerator:
    """Serves pools from memory. ``play`` loads them one by one as their segments are started, so a run over a file of
    any length holds only the pools in flight.

    If ``origins`` is set, only anchors with these origins are served.
    """

    signature = "recorded"
    traits = GeneratorTraits(recorded=True, anchored=True)

    def __init__(self, pools: Iterable[RecordedPool] = (), origins: Container[str] | None = None) -> None:
        self._origins = origins
        self._pools: dict[str, RecordedPool] = {}
        for pool in pools:
            self.add(pool)

    def add(self, pool: RecordedPool) -> Segment:
        if self._origins is not None and pool.anchors:
            pool = replace(pool, anchors=tuple(one for one in pool.anchors if one.origin in self._origins))
        self._pools[pool.segment.id] = pool
        return pool.segment

    def play(self, pools: Iterable[RecordedPool]) -> Iterator[Segment]:
        return map(self.add, pools)

    def available(self, segment: Segment) -> int | None:
        pool = self._pools.get(segment.id)
        return None if pool is None else len(pool.candidates)

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        for request in requests:
            pool = self._pools[request.segment.id]
            candidates, ended = pool.candidates[request.start : request.stop], request.stop >= len(pool.candidates)
            anchors = None if request.start else pool.anchors
            yield Draw(request.segment, request.start, candidates, ended=ended, anchors=anchors)

    def close(self, segment: Segment) -> None:
        self._pools.pop(segment.id, None)
