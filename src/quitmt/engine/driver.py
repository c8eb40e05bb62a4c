"""The live driver: turns the engine's crank with asyncio, so that generating and reranking overlap.

Many segments are in flight. Whatever they ask for goes to the generator at once; whatever has arrived is reranked in
one batch, in a thread of its own; a segment that stops frees its slot at once. One segment that fails is an outcome,
never the end of the run, whatever the code of others raises: only KeyboardInterrupt ends it. With deadlines, a segment
whose time is up stops with its best so far, and what does not answer is left behind.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from quitmt import protocols, signature, stop
from quitmt.engine.deadlines import Clock, Deadlines, Timers
from quitmt.engine.drafts import Drafts
from quitmt.engine.engine import Engine
from quitmt.engine.preparation import in_time, try_out
from quitmt.engine.slots import Observer, Wasted
from quitmt.engine.submission import Submission
from quitmt.engine.terms import Terms
from quitmt.errors import GenerationError, NotInTime, QuitmtError, RerankError, UsageError
from quitmt.loops.call import in_thread
from quitmt.loops.faults import FAULTS, Carried, blamed, is_cancellation, place_of, started
from quitmt.protocols import Generator, GeneratorTraits, Reranker, RerankerTraits, Steering, StoppingRule, traits_of
from quitmt.types import Begun, Candidate, Draw, Finished, Request, Segment, Snapshot, StopReason
from quitmt.warnings import APART, PARTLY, warnings

log = logging.getLogger(__name__)

LOOKAHEAD = 32
"""How many times ``in_flight`` the run may get ahead of its slowest segment."""

NO_DEADLINES = Deadlines()

Item = Segment | Finished
"""What a run is made of. A segment that is finished already (a blank line, what a resumed run had done) goes straight
through."""
AnyItem = Item | Begun | Submission
Items = Iterable[AnyItem] | AsyncIterable[AnyItem]


class Driver:
    """One run over a stream of segments. ``in_flight`` of them are worked on at a time.

    ``clock`` is what deadlines go by: the event loop's, if none is given. ``recipe`` is carried by all outcomes, and so
    are the ``nbest`` best candidates; with ``ranked`` all scores are kept beside the outcome. Unless
    ``ordered``, nobody puts them back in order, and the run may get ahead of a slow one as far as it likes.
    """

    def __init__(
        self,
        generator: Generator,
        reranker: Reranker[Any],
        rule: StoppingRule,
        *,
        in_flight: int = 16,
        observer: Observer | None = None,
        speculate: bool = False,
        deadlines: Deadlines = NO_DEADLINES,
        clock: Clock | None = None,
        recipe: Mapping[str, Any] | None = None,
        ordered: bool = True,
        nbest: int = 0,
        ranked: bool = False,
    ) -> None:
        if in_flight < 1:
            raise UsageError(f"at least 1 segment must be in flight, not {in_flight}")
        stop.check_fits(rule, traits_of(reranker, RerankerTraits), reranker.signature.partition("|")[0])
        self.signature = signature.of_run(rule.signature, generator.signature, reranker.signature)
        self._generator = generator
        self._reranker, self._rule, self._speculate = reranker, rule, speculate
        self._engine = Engine(
            reranker,
            rule,
            signature=self.signature,
            observer=observer,
            speculate=speculate,
            anytime=bool(deadlines),
            anchored=traits_of(generator, GeneratorTraits).anchored,
            ranked=ranked or nbest > 0,
        )
        self._deadlines, self._clock, self._recipe = deadlines, clock, recipe
        self._in_flight, self._ordered, self._nbest = in_flight, ordered, nbest
        self._active: dict[str, tuple[int, Segment]] = {}
        """By id, with positions, in the order of the input."""
        self._passing: list[tuple[int, Finished]] = []
        self._admitted = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._reranking = False
        self._steering = protocols.steering(rule)
        self._drafts: Drafts[AnyItem] = Drafts(generator, in_flight)

    @property
    def wasted(self) -> Wasted:
        """What was generated for nothing: what arrived too late, and what the generator knows that it aborted."""
        if traits_of(self._generator, GeneratorTraits).recorded:
            return Wasted()
        arrived = self._engine.wasted
        return Wasted(arrived.candidates, arrived.tokens + protocols.wasted_tokens(self._generator))

    def drawn(self) -> Iterator[tuple[int, Begun]]:
        """The segments in flight with their candidates, by position: what would have to be drawn again if the run were
        killed now. None if they are recorded. It may be asked for after a run was broken off, too."""
        if not traits_of(self._generator, GeneratorTraits).recorded:
            for position, segment in self._active.values():
                yield position, self._engine.drawn(segment)

    @property
    def waiting(self) -> str | None:
        """What the generator waits for, if it waits for something and can tell."""
        return protocols.waiting(self._generator)

    async def check(self) -> None:
        """Raise what would be wrong with every segment (an address, a key), if the generator can find that out."""
        checked = protocols.check(self._generator)
        await in_time(checked, self._deadlines.run, self._clock or asyncio.get_running_loop())

    async def warm(self, *, always: bool = False) -> None:
        """Have everything compiled and loaded that would be so on first use, before the clock of a run starts.

        Only where there is a clock, unless ``always``: it takes a moment, and the reranker and the rule see two made-up
        texts.
        """
        if self._deadlines or always:
            await protocols.warm(self._generator)
            await try_out(self._reranker, self._rule)

    async def run(self, items: Items, *, expected: int | None = None) -> AsyncGenerator[tuple[int, Finished]]:
        """Yield segments as they finish, each with its position in the input.

        None is further than a few times ``in_flight`` ahead of the first unfinished one, so whoever puts them back in
        order needs little memory. If the input itself fails midway, what was admitted is finished first.

        ``expected`` is about how many items there are, if that is known: the input has an end. Then the time of a run
        with a deadline is shared among them, after each has a draft (``quitmt.engine.drafts``). When time is up,
        segments under way stop with their best so far, and the others with their drafts; those without one fail. The
        cost of a run that is steered is shared among the items too.
        """
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        clock = self._clock or asyncio.get_running_loop()
        self._timers = Timers(self._deadlines, clock, self._expire, self._abandon, in_flight=self._in_flight)
        self._expect(expected)
        recorded = traits_of(self._generator, GeneratorTraits).recorded
        each = _each(items)
        if self._deadlines.run is not None and expected is not None and not recorded:
            each = self._drafts.before(each, self._expect, lambda: self._timers.left, clock)
        feeder = self._start(self._feed(each))
        self._tasks.discard(feeder)  # what it raises waits until everything admitted is finished
        try:
            while True:
                self._wake.clear()
                self._crank()
                if finished := self._finished():
                    for position, one in finished:
                        yield position, one
                elif not self._active and feeder.done():
                    break
                else:
                    await self._wake.wait()
            _result(feeder)  # raises what was wrong with the input
        finally:
            await self._abort(feeder)

    def _expect(self, items: int | None) -> None:
        self._timers.expected = items
        if self._steering is not None:
            self._steering.expect(items)

    def _crank(self) -> None:
        """Start everything that can be started."""
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            _result(task)
        if requests := self._engine.requests():
            self._start(self._draw(requests))
        if self._engine.has_updates and not self._reranking:
            self._reranking = True
            self._start(self._rerank())

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = started(work)
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._wake.set())
        return task

    def _finished(self) -> list[tuple[int, Finished]]:
        finished, self._passing = self._passing, []
        for _, one in finished:
            self._generator.close(one.segment)
        for one in self._engine.finished():
            self._generator.close(one.segment)
            self._timers.stop(one.segment.key)
            position, _ = self._active.pop(one.segment.key)
            finished.append((position, self._warninged(self._drafts.joined(one))))
        if self._steering is not None:
            for position, one in finished:
                self._steering.add(position, one.outcome)
        self._room.set()
        return [(position, self._stamped(one)) for position, one in finished]

    def _warninged(self, one: Finished) -> Finished:
        """With what its translation may have lost, if it has one."""
        outcome, traits = one.outcome, traits_of(self._generator, GeneratorTraits)
        if outcome.index is None or outcome.stop is StopReason.FAILED or not (outcome.source and traits.translates):
            return one
        texts = {outcome.source, *(candidate.text for candidate in (*one.candidates, *one.anchors))}
        unknown, cuts = "", list[int]()
        try:
            unknown = protocols.unknown(self._generator, outcome.source)
            cuts = protocols.cut(self._reranker, texts)
        except FAULTS as raised:  # a warning is no reason to lose a translation
            log.debug("asking for warnings failed", exc_info=raised)
        found = warnings(outcome.source, outcome.translation, sentence_level=traits.sentence_level, unknown=unknown)
        if outcome.score is not None and outcome.score < (protocols.apart(self._reranker) or -math.inf):
            found = (*found, APART)
        if cuts:
            found = (*found, f"{PARTLY}: {len(cuts)} of {len(texts)} texts, {max(cuts)} tokens left out")
        return replace(one, outcome=replace(outcome, warnings=found)) if found else one

    def _stamped(self, one: Finished) -> Finished:
        """With the recipe that it was made by, and its n-best list; what an earlier run finished has its own."""
        outcome = one.outcome
        if self._nbest and one.ranked:
            outcome = replace(outcome, nbest=tuple(one.ranked[: self._nbest]))
        if self._recipe is not None and outcome.recipe is None:
            outcome = replace(outcome, recipe=self._recipe)
        return one if outcome is one.outcome else replace(one, outcome=outcome)

    def _late(self, segment: Segment) -> Finished:
        """A segment that there is no time left for."""
        if found := self._drafts.finish(segment, self.signature):
            return self._warninged(found)
        late = NotInTime(f"not begun before the run's deadline of {self._deadlines.run:.15g} s")
        return Finished.without_candidates(segment, StopReason.FAILED, self.signature, late)

    async def _feed(self, items: AsyncGenerator[AnyItem]) -> None:
        async with aclosing(items):
            async for item in items:
                await self._admit(item)

    def cancel(self, segment: Segment) -> None:
        """Nobody wants it any more: what it takes is free at once, and it is never yielded."""
        if self._active.pop(segment.key, None) is None:
            return
        self._engine.drop(segment.key)
        self._timers.stop(segment.key)
        self._generator.close(segment)
        self._room.set()
        self._wake.set()

    async def _admit(self, item: AnyItem) -> None:
        while not self.has_room:
            self._room.clear()
            await self._room.wait()
        known: Sequence[Candidate] = ()
        anchors: Sequence[Candidate] | None = None
        terms, limit = None, None
        if isinstance(item, Begun):
            known, anchors, item = item.candidates, item.anchors, item.segment
        elif isinstance(item, Submission):
            terms, limit, item = self._terms(item), item.limit, item.segment
        if self._steering is not None:
            terms = self._steered(self._steering, item)
        if isinstance(item, Segment) and self._timers.over:
            item = self._late(item)
        if isinstance(item, Finished):
            self._passing.append((self._admitted, item))
        else:
            anchors = self._drafts.anchors(item) if anchors is None else anchors
            self._engine.admit(item, known, self._available(item), anchors, terms)
            self._active[item.key] = (self._admitted, item)
            self._timers.start(item.key, self._admitted, limit)
        self._admitted += 1
        self._wake.set()

    def _terms(self, order: Submission) -> Terms:
        rule, reranker = order.rule or self._rule, traits_of(self._reranker, RerankerTraits)
        sampled = signature.seeded(self._generator.signature, order.segment.seed)
        signed = signature.of_run(rule.signature, sampled, self._reranker.signature)
        return Terms.of(
            rule,
            reranker,
            signature=signed,
            speculate=self._speculate,
            anytime=order.limit is not None,
            soon=order.limit is not None,
            ranked=order.ranked,
        )

    def _steered(self, steering: Steering, item: Item) -> Terms:
        """Of the next position, which may have been finished before: what its rule would be matters for the next."""
        blank = isinstance(item, Finished) and item.outcome.stop is StopReason.STABLE and not item.outcome.size
        rule, reranker = steering.next(self._admitted, blank=blank), traits_of(self._reranker, RerankerTraits)
        anytime = bool(self._deadlines)
        return Terms.of(rule, reranker, signature=self.signature, speculate=self._speculate, anytime=anytime)

    def _available(self, segment: Segment) -> int | None:
        try:
            found = protocols.available(self._generator, segment)
        except FAULTS as raised:  # what is wrong with the segment will be told when it is drawn
            log.debug("asking for the number of candidates failed", exc_info=raised)
            return None
        return found if isinstance(found, int) and found > 0 else None

    def _expire(self, key: str) -> None:
        if self._engine.expire(key):
            # Now and not when it finishes: it may be reranked for a while, and others can have what it takes.
            self._generator.close(self._active[key][1])
        self._wake.set()

    def _abandon(self, key: str, deadline: str, of_run: bool) -> None:
        # While the run goes on, others need the reranker, and what it is busy with is not lost.
        self._engine.abandon(key, deadline, scoring=of_run)
        self._wake.set()

    @property
    def has_room(self) -> bool:
        """Whether one more may be begun."""
        if len(self._passing) >= self._in_flight or len(self._active) >= self._in_flight:
            return False
        if self._steering is not None and not self._steering.ready:
            return False
        if not self._ordered:
            return True
        first, _ = next(iter(self._active.values()), (self._admitted, None))
        return self._admitted - first < LOOKAHEAD * self._in_flight

    async def _draw(self, requests: Sequence[Request]) -> None:
        try:
            async for draw in self._generator.draw(requests):
                self._engine.feed(draw)
                self._wake.set()
            error: QuitmtError = GenerationError("the generator gave fewer candidates than were asked for")
        except FAULTS as raised:
            if is_cancellation(raised):
                raise
            log.debug("generation failed", exc_info=raised)
            missing = [request for request in requests if not self._engine.served(request)]
            if len(requests) > 1:  # find out whose fault it was: each segment on its own
                for request in missing:
                    self._start(self._draw([request]))
                return
            error = raised if isinstance(raised, QuitmtError) else _wrapped(raised)
        for request in requests:
            if not self._engine.served(request):
                self._engine.feed(Draw(request.segment, request.start, (), error=error))

    async def _rerank(self) -> None:
        # Few at a time where each takes long: what is done is out of danger, and Ctrl-C does not wait for the others.
        updates = self._engine.updates(traits_of(self._reranker, RerankerTraits).segments_at_once)
        start = time.perf_counter()
        snapshots: Sequence[list[Snapshot] | QuitmtError]
        try:
            snapshots = await in_thread(self._reranker.extend, updates)
        except FAULTS as raised:
            if is_cancellation(raised):
                raise
            # Nobody knows whose fault it was, and pools that were added to cannot be added to again.
            snapshots = [blamed(RerankError, "reranking failed", raised)] * len(updates)
        self._engine.settle(updates, snapshots, time.perf_counter() - start)
        self._reranking = False

    async def _abort(self, feeder: asyncio.Task[None]) -> None:
        self._timers.close()
        tasks = [feeder, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, segment in self._active.values():
            self._generator.close(segment)


async def _each(items: Items) -> AsyncGenerator[AnyItem]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def _result(task: asyncio.Task[None]) -> None:
    try:
        task.result()
    except Carried as one:
        raise one.error from None


def _wrapped(error: BaseException) -> GenerationError:
    found = blamed(GenerationError, "generating failed", error)
    if place_of(error) is None:  # of an engine of ours, which may fare better with the next segment
        found.fault = None
    return found


async def in_order(finished: AsyncGenerator[tuple[int, Finished]]) -> AsyncGenerator[Finished]:
    """Put what a driver yields back into the order of the input."""
    waiting: dict[int, Finished] = {}
    position = 0
    async with aclosing(finished):
        async for index, one in finished:
            waiting[index] = one
            while position in waiting:
                yield waiting.pop(position)
                position += 1
