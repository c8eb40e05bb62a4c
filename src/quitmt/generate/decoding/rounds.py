"""Rounds of the decoding loop: groups candidates into batches, caches their beginnings and adapts to the memory.

A segment's beginning (the encoded source, the prompt's cache) is computed once and kept until the segment is closed. If
too many bytes are kept, because callers never close, the least recently used beginnings are dropped. When memory runs
out, the number of candidates per batch is halved for good.

torch is imported by those who call this, never by this module at import.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quitmt.errors import GenerationError, QuitmtError
from quitmt.generate.decoding.walk import Decoder, Ends, Opening, Walk, Walker
from quitmt.generate.worker import Piece, failed
from quitmt.metrics import devices
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Draw, Request, Segment

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part(Piece):
    """A part of a piece; ``place`` is the piece's number."""

    place: int


class Openings:
    """The cached beginnings of segments, shared by all samplers of one model."""

    def __init__(self, decoder: Decoder, *, bytes_kept: int) -> None:
        self._decoder, self._bytes_kept = decoder, bytes_kept
        self._kept: OrderedDict[Segment, Opening] = OrderedDict()

    def open(self, segment: Segment) -> Opening:
        if segment not in self._kept:
            self._kept[segment] = self._decoder.open(segment)
            kept = sum(opening.bytes for opening in self._kept.values())
            while kept > self._bytes_kept and len(self._kept) > 1:
                kept -= self._kept.popitem(last=False)[1].bytes
        self._kept.move_to_end(segment)
        return self._kept[segment]

    def forget(self, segment: Segment) -> None:
        """Drop a beginning. If other requests need it, it is computed again."""
        self._kept.pop(segment, None)

    def release(self) -> None:
        """Drop all beginnings, and return their memory to the device."""
        self._kept.clear()
        devices.release_memory()


class RoundSampler:
    """Draws candidates from one model; an engine for ``quitmt.generate.worker``."""

    def __init__(self, decoder: Decoder, sampling: Sampling, ends: Ends, openings: Openings, *, batch: int) -> None:
        self._decoder, self._sampling, self._ends, self._openings = decoder, sampling, ends, openings
        self.batch = batch

    def forget(self, segment: Segment) -> None:
        self._openings.forget(segment)

    def sample(self, pieces: Sequence[Piece]) -> list[Draw]:
        """One draw per piece, in as many rounds as necessary."""
        import torch

        found: list[list[Draw]] = [[] for _ in pieces]
        parts = [Part(piece.request, piece.wanted, place) for place, piece in enumerate(pieces)]
        with torch.inference_mode():
            for round_of in self._rounds(parts):
                for part, draw in self._attempt(round_of):
                    found[part.place].append(draw)
        return [_joined(piece.request, draws) for piece, draws in zip(pieces, found, strict=True)]

    def _rounds(self, parts: Sequence[Part]) -> Iterator[list[Part]]:
        """Group parts into rounds of at most ``batch`` candidates, and of one segment if the model can't mix
        segments."""
        chosen: list[Part] = []
        for part in parts:
            start = part.request.start
            while start < part.request.stop:
                room = self.batch - sum(other.count for other in chosen)
                if chosen and (
                    room <= 0 or not (self._decoder.mixes or chosen[0].request.segment == part.request.segment)
                ):
                    yield chosen
                    chosen = []
                    continue
                stop = min(part.request.stop, start + room)
                chosen.append(Part(Request(part.request.segment, start, stop), part.wanted, part.place))
                start = stop
        if chosen:
            yield chosen

    def _attempt(self, parts: list[Part]) -> list[tuple[Part, Draw]]:
        """Run one round, or smaller ones if memory runs out."""
        try:
            return list(zip(parts, self._round(parts), strict=True))
        except Exception as error:
            if not devices.is_out_of_memory(error):
                raise
        # outside the handler, because the error keeps the failed round's tensors alive
        self._openings.release()
        count = sum(part.count for part in parts)
        if count == 1:
            reason = GenerationError("not enough memory for one candidate", hint="use a smaller model or dtype")
            return [(part, failed(part.request, reason)) for part in parts]
        self.batch = count // 2
        log.info("out of memory with %d candidates at once: %d from now on", count, self.batch)
        return [answer for fewer in self._rounds(parts) for answer in self._attempt(fewer)]

    def _round(self, parts: list[Part]) -> list[Draw]:
        started = time.perf_counter()
        openings, draws = dict[Segment, Opening](), dict[Part, Draw]()
        for part in parts:
            try:
                openings[part.request.segment] = self._openings.open(part.request.segment)
            except QuitmtError as error:
                draws[part] = failed(part.request, error)
        if able := [part for part in parts if part not in draws]:
            walk = Walk(self._decoder, self._sampling, self._ends, able, openings)
            walkers = walk.run()
            seconds = (time.perf_counter() - started) / sum(len(walker.tokens) for walker in walk.walkers)
            draws |= {part: self._draw(part.request, ended, seconds) for part, ended in zip(able, walkers, strict=True)}
        return [draws[part] for part in parts]

    def _draw(self, request: Request, walkers: list[Walker], seconds_per_token: float) -> Draw:
        texts: dict[tuple[int, ...], str] = {}
        candidates = []
        for walker in walkers:
            tokens = tuple(walker.tokens)
            if tokens not in texts:
                inside = [token for token in tokens if token not in self._ends.tokens]
                texts[tokens] = self._decoder.read(request.segment, inside)
            candidates.append(Candidate(texts[tokens], walker.log_probability, len(tokens)))
        seconds = seconds_per_token * sum(len(walker.tokens) for walker in walkers)
        return Draw(request.segment, request.start, tuple(candidates), seconds)


def _joined(request: Request, draws: Sequence[Draw]) -> Draw:
    """Joins the draws of a request's parts."""
    error = next((draw.error for draw in draws if draw.error is not None), None)
    candidates = () if error else tuple(candidate for draw in draws for candidate in draw.candidates)
    return Draw(request.segment, request.start, candidates, sum(draw.seconds for draw in draws), error=error)
