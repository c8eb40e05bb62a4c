"""Beam search as an engine: a segment's candidates are its hypotheses in descending order, and then the sequence ends.

Each segment is searched once, and its hypotheses are kept until it is closed. As many segments are searched together as
fit into a batch; when memory runs out, their number is halved for good.

torch is imported by those who call this, never by this module at import.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quitmt.errors import GenerationError, QuitmtError
from quitmt.generate.decoding.beam import Hypothesis, search
from quitmt.generate.decoding.rounds import Openings
from quitmt.generate.decoding.walk import Decoder, Ends, Opening
from quitmt.generate.worker import Piece, failed
from quitmt.metrics import devices
from quitmt.types import Candidate, Draw, Segment

log = logging.getLogger(__name__)

SEARCHES_KEPT = 4096
"""A limit for callers who never close segments."""


@dataclass(slots=True)
class Searched:
    """A segment's hypotheses or error. ``seconds`` is the time not yet charged to a draw."""

    candidates: tuple[Candidate, ...] = ()
    seconds: float = 0.0
    error: QuitmtError | None = None


Wanted = Callable[[], bool]


class HypothesisSampler:
    """An engine for ``quitmt.generate.worker``; ``batch`` counts candidates, as it does for samples."""

    def __init__(self, decoder: Decoder, beam: int, ends: Ends, openings: Openings, *, batch: int) -> None:
        self._decoder, self._beam, self._ends, self._openings = decoder, beam, ends, openings
        self._kept: OrderedDict[Segment, Searched] = OrderedDict()
        self.batch = batch

    def forget(self, segment: Segment) -> None:
        self._openings.forget(segment)
        self._kept.pop(segment, None)

    def sample(self, pieces: Sequence[Piece]) -> list[Draw]:
        """One draw per piece, with as many searches as necessary."""
        import torch

        segments = list(dict.fromkeys(piece.request.segment for piece in pieces))
        found = {segment: self._kept[segment] for segment in segments if segment in self._kept}
        left = {
            segment: _any_wanted([piece for piece in pieces if piece.request.segment == segment])
            for segment in segments
            if segment not in found
        }
        with torch.inference_mode():
            while left:
                new = self._attempt(dict(list(left.items())[: self._together]))
                for segment, one in new.items():
                    if left.pop(segment)() and one.error is None:  # an unwanted search may have ended early
                        self._keep(segment, one)
                found |= new
        return [_drawn(piece, found[piece.request.segment]) for piece in pieces]

    @property
    def _together(self) -> int:
        return max(1, self.batch // self._beam) if self._decoder.mixes else 1

    def _attempt(self, wanted: dict[Segment, Wanted]) -> dict[Segment, Searched]:
        """Search for these segments. If memory runs out, return nothing and search fewer at a time from now on."""
        try:
            return self._search(wanted)
        except Exception as error:
            if not devices.is_out_of_memory(error):
                raise
        # outside the handler, because the error keeps the failed search's tensors alive
        self._openings.release()
        if len(wanted) == 1:
            hint = "use a smaller beam, a smaller model, or a smaller dtype"
            reason = GenerationError(f"not enough memory for a beam of {self._beam}", hint=hint)
            return {segment: Searched(error=reason) for segment in wanted}
        self.batch = self._beam * (len(wanted) // 2)
        log.info("out of memory with %d beams at once: %d from now on", len(wanted), len(wanted) // 2)
        return {}

    def _search(self, wanted: dict[Segment, Wanted]) -> dict[Segment, Searched]:
        started, openings, found = time.perf_counter(), dict[Segment, Opening](), dict[Segment, Searched]()
        for segment in wanted:
            try:
                openings[segment] = self._openings.open(segment)
            except QuitmtError as error:
                found[segment] = Searched(error=error)
        if openings:
            requested = [wanted[segment] for segment in openings]
            beams = search(self._decoder, self._ends, self._beam, list(openings.values()), requested)
            seconds = (time.perf_counter() - started) / len(openings)
            for segment, hypotheses in zip(openings, beams, strict=True):
                found[segment] = Searched(tuple(self._candidate(segment, one) for one in hypotheses), seconds)
        return found

    def _candidate(self, segment: Segment, one: Hypothesis) -> Candidate:
        inside = [token for token in one.tokens if token not in self._ends.tokens]
        return Candidate(self._decoder.read(segment, inside), one.log_probability, len(one.tokens))

    def _keep(self, segment: Segment, found: Searched) -> None:
        self._kept[segment] = found
        if len(self._kept) > SEARCHES_KEPT:
            self._kept.popitem(last=False)


def _any_wanted(pieces: Sequence[Piece]) -> Wanted:
    return lambda: any(piece.wanted() for piece in pieces)


def _drawn(piece: Piece, found: Searched) -> Draw:
    request = piece.request
    if found.error is not None:
        return failed(request, found.error)
    seconds, found.seconds = found.seconds, 0.0
    ended = request.stop >= len(found.candidates)
    return Draw(request.segment, request.start, found.candidates[request.start : request.stop], seconds, ended=ended)
