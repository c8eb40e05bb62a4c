"""One run from the command line: items in, results written in order, everything finished journaled at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field

from quitmt.cli.progress import Progress
from quitmt.cli.show import describe
from quitmt.corpus import one_line
from quitmt.engine.driver import Driver, Item, in_order
from quitmt.engine.engine import Finished
from quitmt.errors import InputError
from quitmt.files.journal import Journal
from quitmt.files.outcomes import format_outcome
from quitmt.files.outputs import Output
from quitmt.files.pools import format_pool


@dataclass(slots=True)
class Outputs:
    """The places that results go to; any of them may be absent."""

    budget: int
    generator: str = ""
    """Signature, for the pools."""
    text: Output | None = None
    show: Output | None = None
    outcomes: Output | None = None
    pools: Output | None = None

    def write(self, finished: Finished) -> None:
        outcome = finished.outcome
        if self.text:
            self.text.write(one_line(outcome.translation))
        if self.show:
            self.show.write(describe(outcome, self.budget))
        if self.outcomes:
            self.outcomes.write(format_outcome(outcome))
        if self.pools and finished.candidates:
            self.pools.write(format_pool(finished.segment, finished.candidates, self.generator))

    def all(self) -> list[Output]:
        return [output for output in (self.text, self.show, self.outcomes, self.pools) if output]

    def flush(self) -> None:
        for output in self.all():
            output.flush()

    def close(self) -> None:
        with ExitStack() as stack:  # one that cannot be closed does not keep the others open
            for output in self.all():
                stack.callback(output.close)


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

    async def work(self, items: AsyncIterable[tuple[Item, int]]) -> None:
        """``items`` come with a checksum of their content, for the journal."""
        await self.driver.check()
        await self.driver.warm()
        async with aclosing(in_order(self._journaled(items))) as ordered:
            async for finished in ordered:
                self.outputs.write(finished)
                self.outputs.flush()
        for output in self.outputs.all():
            output.begin()

    async def _journaled(self, items: AsyncIterable[tuple[Item, int]]) -> AsyncGenerator[tuple[int, Finished]]:
        async with aclosing(self.driver.run(self._known(items), expected=self.expected)) as finished:
            async for position, one in finished:
                check = self._checks.pop(position, None)
                if self.journal and check is not None:
                    self.journal.add(position, one, check)
                self.progress.add(one.outcome)
                yield position, one

    async def _known(self, items: AsyncIterable[tuple[Item, int]]) -> AsyncGenerator[Item]:
        """The items, those that an earlier run finished as they were then."""
        position = 0
        async for item, check in items:
            if isinstance(item, Finished):
                yield item
            elif self.journal and (done := self.journal.find(position, item, check)):
                yield done
            else:
                self._checks[position] = check
                yield item
            position += 1
        if self.journal and position < self.journal.length:
            raise InputError(
                f"cannot resume: the input has {position} lines, fewer than the run that {self.journal.path} holds",
                hint="give the same input, or delete that file to start over",
            )
