"""One run from the command line: items in, results written in order, everything finished journaled at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass, field

from quitmt.cli.progress import Progress
from quitmt.cli.show import describe
from quitmt.cli.splitting import Lines
from quitmt.engine.driver import Driver, Item, in_order
from quitmt.engine.finishing import with_scores
from quitmt.errors import InputError, OutputError, QuitmtError
from quitmt.failures import OneMistake
from quitmt.files.journal import Journal
from quitmt.files.outcomes import format_outcome, nbest_lines
from quitmt.files.outputs import Output, one_line
from quitmt.files.pools import format_pool
from quitmt.types import Begun, Finished, RecordedPool, StopReason

KEEP_SECONDS = 5.0
"""How often candidates of segments under way are written to the journal: what a kill may cost at most. A segment that
is done sooner costs the journal nothing."""


@dataclass(slots=True)
class Outputs:
    """The places that results go to; any of them may be absent.

    A failed segment is a blank line of text, whatever it had until it failed: its outcome tells that.
    """

    budget: int
    generator: str = ""
    """Signature, for the pools."""
    recorded: dict[str, RecordedPool] = field(default_factory=dict)
    """By id, the pools in flight that were read from a file."""
    score_name: str | None = None
    """Of the scores that pools are kept with, if any."""
    written: int = 0
    """Segments so far: n-best lists count them from 0."""
    text: Output | None = None
    show: Output | None = None
    outcomes: Output | None = None
    pools: Output | None = None
    nbest: Output | None = None
    lines: Lines | None = None
    """Of a run that was split into sentences, which are put together again."""
    opening: list[str] = field(default_factory=list)
    """Said before the first segment that an earlier run did not finish: until then something may turn out to be wrong
    with the input."""

    def write(self, finished: Finished) -> None:
        outcome = finished.outcome
        if self.text:
            line: str | None = "" if outcome.stop is StopReason.FAILED else outcome.translation
            if self.lines:
                line = self.lines.add(finished)
            if line is not None:
                self.text.write(one_line(line))
        if self.show:
            self.show.write(describe(outcome, self.budget))
        if self.outcomes:
            self.outcomes.write(format_outcome(outcome))
        read = self.recorded.pop(outcome.id, None)
        if self.pools and finished.candidates:
            self.pools.write(format_pool(self._pool(finished, read)))
        if self.nbest and outcome.stop is not StopReason.FAILED:
            for line in nbest_lines(self.written, outcome.nbest):
                self.nbest.write(line)
        self.written += 1

    def _pool(self, finished: Finished, read: RecordedPool | None) -> RecordedPool:
        """What is kept of a segment. A pool that was read and used whole has no more candidates for the reason that it
        had before."""
        generator = self.generator if read is None else read.generator
        whole = read is not None and finished.outcome.stop is StopReason.EXHAUSTED
        stop = read.stop if read is not None and whole else finished.outcome.stop.value
        return RecordedPool(finished.segment, tuple(finished.candidates), generator, tuple(finished.anchors), stop)

    def scored(self, finished: Finished) -> Finished:
        """With what pools are kept with."""
        return with_scores(finished, self.score_name) if self.pools and self.score_name else finished

    def all(self) -> list[Output]:
        return [output for output in (self.text, self.show, self.outcomes, self.pools, self.nbest) if output]

    def flush(self) -> None:
        for output in self.all():
            output.flush()

    def settle(self) -> None:
        for output in self.all():
            output.settle()

    def close(self) -> None:
        with ExitStack() as stack:  # one that cannot be closed does not keep the others open
            for output in self.all():
                stack.callback(output.close)


class Hopeless(QuitmtError):
    """All segments so far failed by one mistake in the user's code: going on would only take time."""


@dataclass(slots=True)
class Run:
    driver: Driver
    outputs: Outputs
    progress: Progress
    journal: Journal | None = None
    expected: int | None = None
    """How many items there are, if that is known."""
    _checks: dict[int, int] = field(default_factory=dict)
    """Position → checksum, of the segments in flight."""
    _kept: dict[int, int] = field(default_factory=dict)
    """Position → how many candidates the journal has, of segments that have been in flight for a while."""
    _mistake: OneMistake = field(default_factory=OneMistake)

    async def work(self, items: AsyncIterable[tuple[Item, int]]) -> None:
        """``items`` come with a checksum of their content, for the journal."""
        await self.driver.check()
        await self.driver.warm()
        watchers = [asyncio.create_task(self._keep_regularly()), asyncio.create_task(self._tell_waiting())]
        try:
            async with aclosing(in_order(self._journaled(items))) as ordered:
                async for finished in ordered:
                    self.outputs.write(finished)
                    self.outputs.flush()
        finally:
            for watcher in watchers:
                watcher.cancel()
            self._keep_candidates(of_all=True)
        self.outputs.settle()

    async def _journaled(self, items: AsyncIterable[tuple[Item, int]]) -> AsyncGenerator[tuple[int, Finished]]:
        async with aclosing(self.driver.run(self._known(items), expected=self.expected)) as finished:
            async for position, one in finished:
                check = self._checks.pop(position, None)
                self._kept.pop(position, None)
                one = self.outputs.scored(one) if check is not None else one
                if self.journal and check is not None:
                    self.journal.add(position, one, check)
                self.progress.add(one, position)
                yield position, one
                self._mistake.add(one)
                if self._mistake:
                    raise Hopeless(str(self._mistake))

    async def _keep_regularly(self) -> None:
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            self._keep_candidates()

    async def _tell_waiting(self) -> None:
        while True:
            await asyncio.sleep(1)
            self.progress.wait(self.driver.waiting)

    def _keep_candidates(self, *, of_all: bool = False) -> None:
        """Candidates of the segments in flight go to the journal: of those that were in flight the last time, too, or
        of all. Each once, so that the journal grows no faster than a file of all pools would."""
        if not self.journal:
            return
        with suppress(OutputError):  # the next segment that finishes will say so
            for position, begun in self.driver.drawn():
                kept = self._kept.setdefault(position, 0 if of_all else -1)
                if kept < 0:
                    self._kept[position] = 0
                elif len(begun.candidates) > kept:
                    self._kept[position] = len(begun.candidates)
                    self.journal.add_drawn(position, kept, begun, self._checks[position])

    def _say_opening(self) -> None:
        for line in self.outputs.opening:
            self.progress.say(line)
        self.outputs.opening.clear()

    async def _known(self, items: AsyncIterable[tuple[Item, int]]) -> AsyncGenerator[Item | Begun]:
        """The items: what an earlier run finished as it was then, what it had begun with the candidates it drew."""
        position = 0
        async for item, check in items:
            if isinstance(item, Finished):
                yield item
            elif self.journal and (done := self.journal.find(position, item, check)):
                yield done
            else:
                self._say_opening()
                self._checks[position] = check
                begun = self.journal.drawn(position, item, check) if self.journal else None
                if begun:
                    self._kept[position] = len(begun.candidates)
                yield begun or item
            position += 1
        if self.journal and position < self.journal.length:
            raise InputError(
                f"cannot resume: the input has {position} lines, fewer than the run that {self.journal.path} holds",
                hint="give the same input, or delete that file to start over",
            )
        self._say_opening()
