"""Drafts: a cheap first translation of every segment, made before a run with a deadline draws samples.

Without drafts, segments that are not reached in time would have no translation, although others have many samples. So
every segment first gets its anchors, or one sample if its generator makes no anchors. Only the remaining time is spent
on samples.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Generic, TypeVar

from quitmt.engine.deadlines import Clock, in_time
from quitmt.engine.slots import user_anchors
from quitmt.errors import GenerationError
from quitmt.loops.faults import FAULTS, is_cancellation
from quitmt.protocols import Generator, GeneratorTraits, traits_of
from quitmt.types import Candidate, Finished, Outcome, Request, Seconds, Segment, StopReason

log = logging.getLogger(__name__)

Item = TypeVar("Item")


@dataclass(slots=True)
class Draft:
    """The anchors of one segment, or one sample."""

    candidates: tuple[Candidate, ...] = ()
    anchors: tuple[Candidate, ...] | None = None
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.anchors or self.candidates)

    def finished(self, segment: Segment, signature: str) -> Finished:
        """Translate the segment by its first anchor or sample; there was no time for a score."""
        anchors = self.anchors or ()
        index, chosen = (-1, anchors[0]) if anchors else (0, self.candidates[0])
        outcome = Outcome(
            segment.id, segment.source, chosen.text, index, None, len(self.candidates), StopReason.DEADLINE, (),
            Seconds(self.seconds), signature, origin=chosen.origin, anchors=len(anchors),
        )  # fmt: skip
        return Finished(segment, outcome, self.candidates, (*anchors, *user_anchors(segment)))


class Drafts(Generic[Item]):
    """The drafts of one run; ``at_once`` of them are drawn at a time."""

    def __init__(self, generator: Generator, at_once: int) -> None:
        self._generator, self._at_once = generator, at_once
        self._drafts: dict[str, Draft] = {}
        """By segment key."""
        self._anchored = traits_of(generator, GeneratorTraits).anchored

    async def before(
        self, items: AsyncIterable[Item], expect: Callable[[int], None], left: Callable[[], float], clock: Clock
    ) -> AsyncGenerator[Item]:
        """Read the whole input, call ``expect`` with the number of items, and draw drafts until all segments have one
        or no seconds are ``left``. Then yield the input, and raise what it raised, if anything."""
        read: list[Item] = []
        error: Exception | None = None
        try:
            async for item in items:
                read.append(item)
        except Exception as raised:
            error = raised
        expect(len(read))
        with suppress(GenerationError):  # time is up
            await in_time(self._draw_all([item for item in read if isinstance(item, Segment)]), left(), clock)
        for item in read:
            yield item
        if error is not None:
            raise error

    def anchors(self, segment: Segment) -> tuple[Candidate, ...] | None:
        """All anchors of a segment, if the generator's were drawn, so that they needn't be requested again."""
        draft = self._drafts.get(segment.key)
        return None if not draft or draft.anchors is None else draft.anchors + user_anchors(segment)

    def joined(self, one: Finished) -> Finished:
        """Add the draft's time to a finished segment. If that failed because time was up, the draft is its
        translation."""
        draft = self._drafts.pop(one.segment.key, None)
        if not draft:
            return one
        outcome = one.outcome
        if one.late:
            return draft.finished(one.segment, outcome.signature)
        seconds = replace(outcome.seconds, generate=outcome.seconds.generate + draft.seconds)
        return replace(one, outcome=replace(outcome, seconds=seconds))

    def finish(self, segment: Segment, signature: str) -> Finished | None:
        """Translate a segment that was never begun by its draft, if it has one."""
        draft = self._drafts.pop(segment.key, None)
        return draft.finished(segment, signature) if draft else None

    async def _draw_all(self, segments: Iterable[Segment]) -> None:
        """Draw the shortest first, so that most segments have a draft if time runs out. A segment that can't be drawn
        gets no draft; the run itself will report why."""
        for some in _batches(sorted(segments, key=lambda segment: len(segment.source)), self._at_once):
            # Copies, because closing a segment makes the generator forget it, but the run still needs the original.
            copies = [replace(segment) for segment in some]
            try:
                await asyncio.sleep(0)  # otherwise a generator that never waits would not notice that time is up
                await self._draw(copies)
            except FAULTS as raised:
                if is_cancellation(raised):
                    raise
                log.debug("drafting failed", exc_info=raised)
            finally:
                for segment in copies:
                    self._generator.close(segment)

    async def _draw(self, segments: Sequence[Segment]) -> None:
        async for draw in self._generator.draw(
            [Request(segment, 0, 0 if self._anchored else 1) for segment in segments]
        ):
            draft = self._drafts.setdefault(draw.segment.key, Draft())
            draft.candidates += draw.candidates
            draft.anchors = draft.anchors if draw.anchors is None else draw.anchors
            draft.seconds += draw.seconds


def _batches(segments: Sequence[Segment], size: int) -> Iterator[list[Segment]]:
    rest = iter(segments)
    while some := list(islice(rest, size)):
        yield some
