"""The live driver: runs segments through the engine with asyncio, so that generating and reranking overlap.

Many segments are in flight, and one that stops frees its slot at once. A segment that fails is an outcome with an error
and never the end of the run, whatever user code raises; only KeyboardInterrupt ends it. With deadlines, a segment whose
time is up stops with its best translation so far, and work that takes longer is abandoned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from quitmt import protocols, signature, stop
from quitmt.engine.copies import Admission, Copies, copy_of
from quitmt.engine.crank import Crank, result, try_out
from quitmt.engine.deadlines import Clock, Deadlines, Limit, Timers, in_time
from quitmt.engine.drafts import Drafts
from quitmt.engine.engine import Engine
from quitmt.engine.finishing import with_warnings
from quitmt.engine.slots import Observer, Policy, Wasted
from quitmt.errors import NotInTime, UsageError
from quitmt.loops.faults import FAULTS
from quitmt.protocols import Generator, GeneratorTraits, Reranker, RerankerTraits, StoppingRule, traits_of
from quitmt.types import Begun, Candidate, Finished, Segment, StopReason

log = logging.getLogger(__name__)

LOOKAHEAD = 32
"""How many times ``in_flight`` the run may get ahead of its slowest segment."""

NO_DEADLINES = Deadlines()


@dataclass(frozen=True, slots=True)
class Submission:
    """A segment of a session, with its own rule and limit."""

    segment: Segment
    rule: StoppingRule | None = None
    limit: Limit | None = None
    ranked: bool = False
    """Whether the scores of all candidates are wanted."""
    alone: bool = False
    """Whether the segment must not be a copy of an equal one."""


Item = Segment | Finished
"""One item of a run. A finished segment (a blank line, or one that a resumed run had done) is passed through."""
AnyItem = Item | Begun | Submission
Items = Iterable[AnyItem] | AsyncIterable[AnyItem]


class Driver:
    """One run over a stream of segments, with ``in_flight`` of them at a time.

    Deadlines use ``clock`` [default: the event loop]. All outcomes carry ``recipe`` and their ``nbest`` best
    candidates; ``ranked`` keeps the scores of all candidates beside the outcome. Unless ``ordered``, the run may get
    ahead of a slow segment without limit, because its callers don't need the segments in order. With
    ``share``, equal segments are translated once, unless candidates are recorded.
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
        share: bool = False,
    ) -> None:
        if in_flight < 1:
            raise UsageError(f"at least 1 segment must be in flight, not {in_flight}")
        self._generator, self._reranker, self._rule = generator, reranker, rule
        self._traits, self._reranker_traits = traits_of(generator, GeneratorTraits), traits_of(reranker, RerankerTraits)
        stop.check_fits(rule, self._reranker_traits, reranker.signature.partition("|")[0])
        self.signature = signature.of_run(rule.signature, generator.signature, reranker.signature)
        self._deadlines, self._clock, self._recipe = deadlines, clock, recipe
        self._in_flight, self._ordered, self._nbest = in_flight, ordered, nbest
        self._usual: dict[str, Any] = {
            "signature": self.signature,
            "speculate": speculate,
            "anytime": bool(deadlines),
            "ranked": ranked or nbest > 0,
        }
        """The policy of all segments that aren't submissions, besides the rule."""
        self._engine = Engine(reranker, rule, observer=observer, anchored=self._traits.anchored, **self._usual)
        self._active: dict[str, tuple[int, Segment]] = {}
        """Segments by key, with their positions, in the order of the input."""
        self._passing: list[tuple[int, Finished]] = []
        self._admitted = 0
        self._steering = protocols.steering(rule) if ordered else None
        self._drafts: Drafts[AnyItem] = Drafts(generator, in_flight)
        self._copies: Copies | None = None
        if share and not self._traits.recorded:
            self._copies = Copies(keep_pools=ranked, keep_all=self._steering is not None)

    @property
    def wasted(self) -> Wasted:
        """Candidates that arrived too late, and tokens that the generator knows it aborted."""
        if self._traits.recorded:
            return Wasted()
        arrived = self._engine.wasted
        return Wasted(arrived.candidates, arrived.tokens + protocols.wasted_tokens(self._generator))

    def drawn(self) -> Iterator[tuple[int, Begun]]:
        """The segments in flight with their candidates, by position: a kill would lose these, so a journal keeps them.
        There are none if candidates are recorded. This also works after a run was interrupted."""
        if not self._traits.recorded:
            for position, segment in self._active.values():
                yield position, self._engine.drawn(segment)

    @property
    def waiting(self) -> str | None:
        """A description of the thing that the generator is waiting for; None if it isn't waiting or cannot tell."""
        return protocols.waiting(self._generator)

    @property
    def has_room(self) -> bool:
        """Whether another segment may be begun."""
        if len(self._passing) >= self._in_flight or len(self._active) >= self._in_flight:
            return False
        if self._steering is not None and not self._steering.ready:
            return False
        if self._copies is not None and self._copies.waiting >= LOOKAHEAD * self._in_flight:
            return False
        if not self._ordered:
            return True
        first, _ = next(iter(self._active.values()), (self._admitted, None))
        return self._admitted - first < LOOKAHEAD * self._in_flight

    async def check(self) -> None:
        """Raise an error that would fail every segment, such as a wrong key, if the generator can detect it."""
        checked = protocols.check(self._generator)
        await in_time(checked, self._deadlines.run, self._clock or asyncio.get_running_loop())

    async def warm(self, *, always: bool = False) -> None:
        """Compile and load everything that is compiled or loaded on first use, before the clock of a run starts.

        This takes a moment, so without deadlines it is only done if ``always``. The reranker and the rule see two
        made-up texts.
        """
        if self._deadlines or always:
            await protocols.warm(self._generator)
            await try_out(self._reranker, self._rule)

    async def run(self, items: Items, *, expected: int | None = None) -> AsyncGenerator[tuple[int, Finished]]:
        """Yield segments as they finish, each with its position in the input.

        A segment is at most ``LOOKAHEAD`` times ``in_flight`` ahead of the first unfinished one, so putting them back
        in order needs little memory. If the input itself fails midway, the admitted segments are finished first.

        ``expected`` is the approximate number of items, if that is known. A run with a deadline then shares its time
        among them, after each has a draft (``quitmt.engine.drafts``). When time is up, segments in flight stop with
        their best translation so far, and the others with their drafts; those without a draft fail. A steered run
        shares its cost among the items too.
        """
        self._room = asyncio.Event()
        self._crank = Crank(self._engine, self._generator, self._reranker)
        clock = self._clock or asyncio.get_running_loop()
        self._timers = Timers(self._deadlines, clock, self._expire, self._abandon, in_flight=self._in_flight)
        self._expect(expected)
        each = _each(items)
        if self._deadlines.run is not None and expected is not None and not self._traits.recorded:
            each = self._drafts.before(each, self._expect, lambda: self._timers.left, clock)
        feeder = self._crank.watched(self._feed(each))
        try:
            while True:
                self._crank.wake.clear()
                self._crank.turn()
                if finished := self._finished():
                    for position, one in finished:
                        yield position, one
                elif not self._active and feeder.done():
                    break
                else:
                    await self._crank.wake.wait()
            result(feeder)  # raises what was wrong with the input
        finally:
            self._timers.close()
            await self._crank.stop(feeder)
            for _, segment in self._active.values():
                self._generator.close(segment)

    def cancel(self, segment: Segment) -> None:
        """Free everything that a segment uses; it will never be yielded. A copy that waits for it does the work."""
        copies = self._copies.drop(segment) if self._copies is not None else []
        if self._active.pop(segment.key, None) is None:
            return
        self._engine.drop(segment.key)
        self._timers.stop(segment.key)
        self._generator.close(segment)
        self._begin_again(copies)
        self._room.set()
        self._crank.wake.set()

    def _expect(self, items: int | None) -> None:
        self._timers.expected = items
        if self._steering is not None:
            self._steering.expect(items)

    async def _feed(self, items: AsyncGenerator[AnyItem]) -> None:
        async with aclosing(items):
            async for item in items:
                while not self.has_room:
                    self._room.clear()
                    await self._room.wait()
                self._admit(item)

    def _admit(self, item: AnyItem) -> None:
        known: Sequence[Candidate] = ()
        anchors: Sequence[Candidate] | None = None
        policy, limit, alone = self._engine.policy, None, False
        if isinstance(item, Begun):
            known, anchors, item = item.candidates, item.anchors, item.segment
        elif isinstance(item, Submission):
            policy, limit, alone, item = self._policy_of(item), item.limit, item.alone, item.segment
        segment = item.segment if isinstance(item, Finished) else item
        entry = Admission(self._admitted, segment, policy, limit, self._now)
        copied = item.outcome.copied if isinstance(item, Finished) else not alone and self._is_copy(entry)
        if self._steering is not None:
            # Also for an item that is finished already: its rule matters for later ones.
            blank = isinstance(item, Finished) and item.outcome.stop is StopReason.STABLE and not item.outcome.size
            rule = self._steering.next(self._admitted, blank=blank or copied)
            entry = replace(entry, policy=Policy.of(rule, self._reranker_traits, **self._usual))
        if isinstance(item, Finished) and self._copies is not None and item.outcome.size:
            self._copies.resume(entry, item)
        if isinstance(item, Segment) and not copied and self._timers.over:
            item = self._late(item)
        if isinstance(item, Finished):
            self._passing.append((self._admitted, item))
        elif not copied:
            self._begin(entry, known, self._drafts.anchors(item) if anchors is None else anchors)
        self._admitted += 1
        self._crank.wake.set()

    @property
    def _now(self) -> float:
        return (self._clock or asyncio.get_running_loop()).time()

    def _begin(
        self, entry: Admission, known: Sequence[Candidate] = (), anchors: Sequence[Candidate] | None = None
    ) -> None:
        segment = entry.segment
        self._engine.admit(segment, known, self._available(segment), anchors, entry.policy)
        self._active[segment.key] = (entry.position, segment)
        self._timers.start(segment.key, entry.position, entry.limit)
        if self._copies is not None:
            self._copies.begin(entry)

    def _is_copy(self, entry: Admission) -> bool:
        """Whether a segment is a copy of an equal one. It is yielded at once, or when that one has finished."""
        work = None if self._copies is None else self._copies.find(entry)
        if work is not None and work.finished is not None:
            self._passing.append((entry.position, copy_of(work.finished, entry.segment)))
        elif work is not None:
            work.waiting.append(entry)
        return work is not None

    def _begin_again(self, copies: Sequence[Admission]) -> None:
        """One of these segments does the work, because the equal one that they waited for was cancelled or failed. The
        others wait for it."""
        for entry in copies:
            entry = entry.later(self._now)
            if not self._is_copy(entry):
                self._begin(entry)

    def _policy_of(self, submission: Submission) -> Policy:
        rule, limited = submission.rule or self._rule, submission.limit is not None
        sampled = signature.seeded(self._generator.signature, submission.segment.seed)
        policy = {
            "signature": signature.of_run(rule.signature, sampled, self._reranker.signature),
            "anytime": limited,
            "ranked": submission.ranked,
        }
        return Policy.of(rule, self._reranker_traits, soon=limited, **(self._usual | policy))

    def _available(self, segment: Segment) -> int | None:
        try:
            count = protocols.available(self._generator, segment)
        except FAULTS as raised:  # drawing the segment will report what is wrong with it
            log.debug("asking for the number of candidates failed", exc_info=raised)
            return None
        return count if isinstance(count, int) and count > 0 else None

    def _late(self, segment: Segment) -> Finished:
        """A segment that the run has no time left for: its draft is its translation, or it fails."""
        if finished := self._drafts.finish(segment, self.signature):
            return with_warnings(finished, self._generator, self._reranker)
        late = NotInTime(f"not begun before the run's deadline of {self._deadlines.run:.15g} s")
        return Finished.without_candidates(segment, StopReason.FAILED, self.signature, late)

    def _expire(self, key: str) -> None:
        if self._engine.expire(key):
            # Don't wait until it finishes: it may be reranked for a while, and others can use its resources.
            self._generator.close(self._active[key][1])
        self._crank.wake.set()

    def _abandon(self, key: str, deadline: str, of_run: bool) -> None:
        # While the run goes on, scoring isn't abandoned: other segments need the reranker, so its work isn't lost.
        self._engine.abandon(key, deadline, scoring=of_run)
        self._crank.wake.set()

    def _finished(self) -> list[tuple[int, Finished]]:
        finished, self._passing = self._passing, []
        for _, one in finished:
            self._generator.close(one.segment)
        for one in self._engine.finished():
            self._generator.close(one.segment)
            self._timers.stop(one.segment.key)
            position, _ = self._active.pop(one.segment.key)
            one = self._stamped(with_warnings(self._drafts.joined(one), self._generator, self._reranker))
            finished.append((position, one))
            if self._copies is not None:
                copies, found = self._copies.end(one)
                if found is None:
                    self._begin_again(copies)
                else:
                    finished += ((copy.position, copy_of(found, copy.segment)) for copy in copies)
        if self._steering is not None:
            for position, one in finished:
                self._steering.add(position, one.outcome)
        self._room.set()
        return [(position, self._stamped(one)) for position, one in finished]

    def _stamped(self, one: Finished) -> Finished:
        """Add the n-best list and the run's recipe; a segment that an earlier run finished has its own."""
        outcome = one.outcome
        if self._nbest and one.ranked:
            outcome = replace(outcome, nbest=tuple(one.ranked[: self._nbest]))
        if self._recipe is not None and outcome.recipe is None:
            outcome = replace(outcome, recipe=self._recipe)
        return one if outcome is one.outcome else replace(one, outcome=outcome)


async def _each(items: Items) -> AsyncGenerator[AnyItem]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


async def in_order(finished: AsyncGenerator[tuple[int, Finished]]) -> AsyncGenerator[Finished]:
    """Put the segments that a driver yields back into the order of the input."""
    waiting: dict[int, Finished] = {}
    position = 0
    async with aclosing(finished):
        async for index, one in finished:
            waiting[index] = one
            while position in waiting:
                yield waiting.pop(position)
                position += 1
