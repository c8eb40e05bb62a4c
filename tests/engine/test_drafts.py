"""Under a run's deadline every segment gets its cheapest translation before any time is spent on samples. The clock is
one that the tests move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.engine.test_deadlines import FakeClock, Taking, driver_of, length, run, segments

from quitmt import stop
from quitmt.engine.deadlines import Deadlines
from quitmt.engine.driver import Driver, in_order
from quitmt.errors import InputError
from quitmt.protocols import GeneratorTraits
from quitmt.types import Candidate, Draw, Outcome, Request, Segment, StopReason


class Anchoring(Taking):
    """Makes one anchor for each segment, which takes a second, as does every request for samples."""

    traits = GeneratorTraits(anchored=True)

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock, 1.0)
        self.requests: list[Request] = []

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        self.requests += requests
        for request in requests:
            if request.start == 0 and request.anchors:
                self.clock.advance(1.0)
                yield Draw(
                    request.segment, 0, (), 1.0, anchors=(Candidate(f"draft of {request.segment.id}", origin="greedy"),)
                )
        async for draw in super().draw([request for request in requests if request.stop > request.start]):
            yield draw


def anchored(clock: FakeClock, run_deadline: float) -> tuple[Anchoring, Driver]:
    generator = Anchoring(clock)
    rule = stop.load("full", n=10_000)
    deadlines = Deadlines(run=run_deadline)
    return generator, Driver(generator, length(), rule, deadlines=deadlines, clock=clock, in_flight=2)


def test_segments_that_are_not_reached_in_time_are_translated_by_their_first_anchor() -> None:
    _, driver = anchored(FakeClock(), 12.0)
    outcomes = run(driver, segments(10), expected=10)
    assert {outcome.stop for outcome in outcomes} == {StopReason.DEADLINE}
    late = [outcome for outcome in outcomes if not outcome.size]
    assert late and [outcome.translation for outcome in late] == [f"draft of {outcome.id}" for outcome in late]
    assert {(one.index, one.score, one.origin, one.anchors, one.seconds.generate) for one in late} == {
        (-1, None, "greedy", 1, 1.0)
    }


def test_anchors_are_made_once() -> None:
    generator, driver = anchored(FakeClock(), 1000.0)
    outcomes = run(driver, segments(4), expected=4)
    made = [request.segment.id for request in generator.requests if request.start == 0 and request.anchors]
    assert sorted(made) == ["0", "1", "2", "3"]
    assert all(outcome.anchors == 1 and outcome.size and outcome.seconds.generate >= 1.0 for outcome in outcomes)


def test_anchors_that_the_user_gave_come_after_drafts() -> None:
    _, driver = anchored(FakeClock(), 1000.0)
    [outcome] = run(driver, [Segment("0", "source", anchors=("a very long translation of the user's own",))], 1)
    assert (outcome.origin, outcome.index, outcome.anchors) == ("given", -2, 1)


def test_where_there_are_no_anchors_the_draft_is_the_first_sample() -> None:
    taking = Taking(FakeClock(), 1.0)
    outcomes = run(driver_of(taking, run_deadline=10.5, in_flight=2), segments(10), expected=10)
    assert [outcome.stop for outcome in outcomes] == [StopReason.DEADLINE] * 10
    late = [outcome for outcome in outcomes if outcome.score is None]
    assert late and {(one.translation, one.index, one.size) for one in late} == {("x", 0, 1)}


def test_if_there_is_no_time_for_all_drafts_the_shortest_segments_have_them() -> None:
    items = [Segment(str(number), "word " * (10 - number)) for number in range(10)]
    outcomes = run(anchored(FakeClock(), 4.5)[1], items, expected=10)
    assert [outcome.stop for outcome in outcomes[:4]] == [StopReason.FAILED] * 4
    assert outcomes[0].error == "not begun before the run's deadline of 4.5 s"
    assert [outcome.translation for outcome in outcomes[4:]] == [f"draft of {number}" for number in range(4, 10)]


def test_a_segment_whose_samples_never_arrive_keeps_its_draft() -> None:
    class Silent(Taking):
        """Answers requests for one sample, and never any other."""

        waiting: asyncio.Event

        async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
            if all(request.stop == 1 for request in requests):
                async for draw in super().draw(requests):
                    yield draw
            else:
                self.waiting.set()
                await asyncio.Event().wait()

    clock = FakeClock()

    async def work() -> list[Outcome]:
        silent = Silent(clock, 0.0)
        silent.waiting = asyncio.Event()
        driver = driver_of(silent, run_deadline=5)
        found = asyncio.create_task(_collected(driver, segments(2)))
        await silent.waiting.wait()
        clock.advance(6.5)
        return await found

    outcomes = asyncio.run(work())
    assert [(one.stop, one.translation, one.error) for one in outcomes] == [(StopReason.DEADLINE, "x", None)] * 2


async def _collected(driver: Driver, items: list[Segment]) -> list[Outcome]:
    return [one.outcome async for one in in_order(driver.run(items, expected=len(items)))]


def test_a_segment_that_cannot_be_drafted_fails_with_its_own_error() -> None:
    class Broken(Taking):
        async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
            if any(request.segment.id == "1" for request in requests):
                raise ValueError("no such word")
            async for draw in super().draw(requests):
                yield draw

    taking = Broken(FakeClock(), 0.0)
    outcomes = run(driver_of(taking, run_deadline=1000, n=8, in_flight=1), segments(3), expected=3)
    assert [outcome.stop for outcome in outcomes] == [StopReason.BUDGET, StopReason.FAILED, StopReason.BUDGET]
    assert "no such word" in str(outcomes[1].error)


def test_an_input_that_breaks_off_is_told_after_what_came_before_it() -> None:
    async def broken() -> AsyncIterator[Segment]:
        yield from_here[0]
        yield from_here[1]
        raise InputError("line 3 is not UTF-8")

    from_here, found = segments(2), list[Outcome]()

    async def work() -> None:
        async for one in in_order(driver.run(broken(), expected=3)):
            found.append(one.outcome)

    driver = driver_of(Taking(FakeClock(), 0.0), run_deadline=1000, n=8)
    with pytest.raises(InputError, match="line 3 is not UTF-8"):
        asyncio.run(work())
    assert [outcome.stop for outcome in found] == [StopReason.BUDGET] * 2


def test_recorded_pools_need_no_drafts() -> None:
    class Recorded(Taking):
        traits = GeneratorTraits(recorded=True)

    taking = Recorded(FakeClock(), 0.0)
    rule = stop.load("full", n=8)
    driver = Driver(taking, length(), rule, deadlines=Deadlines(run=10), clock=taking.clock)
    run(driver, segments(3), expected=3)
    assert len(taking.requested) == 3
