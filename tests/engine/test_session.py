"""The long-lived form: fair turns, deadlines from the submission, cancelling that frees slots, and the same results as
a run of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from quitmt import rerank, stop
from quitmt.engine.driver import Driver, in_order
from quitmt.engine.session import GRACE, Session
from quitmt.generate.recorded import RecordedGenerator
from quitmt.stop.learned import LEAST
from quitmt.types import Candidate, Draw, Finished, Outcome, RecordedPool, Request, Segment, Snapshot, StopReason


class Sampling:
    """Candidates that follow from source and index; ``gate`` holds back those of some sources."""

    signature = "sampling|seed:0"

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.closed: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.aborted: list[str] = []

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        for request in requests:
            if not request.start:
                self.begun.append(request.segment.source)
        for request in requests:
            try:
                if gate := self.gates.get(request.segment.source):
                    await gate.wait()
            except asyncio.CancelledError:
                self.aborted.append(request.segment.source)
                raise
            texts = [f"{request.segment.source} {index % 3}" for index in range(request.start, request.stop)]
            yield Draw(request.segment, request.start, tuple(map(Candidate, texts)))

    def close(self, segment: Segment) -> None:
        self.closed.append(segment.source)


RULE = stop.load("fixed:8", k=4, n=8)


def session(generator: Any, *, in_flight: int = 2, rule: Any = RULE, clock: Any = None) -> Session:
    return Session(generator, rerank.load("mbr:chrf"), rule, in_flight=in_flight, clock=clock)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def until(found: Callable[[], Any]) -> None:
    for _ in range(10_000):
        if found():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came about")


def test_the_outcomes_are_those_of_a_run_of_its_own(make_pool: Callable[[int, int], list[str]]) -> None:
    rule = stop.load("quit", k=2, w=3, alpha=0.01, n=40)
    pools = [RecordedPool(Segment(str(i)), tuple(map(Candidate, make_pool(i, 40)))) for i in range(12)]

    class Pools:
        signature = "pools"

        async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
            for request in reversed(requests):
                await asyncio.sleep(0)
                yield Draw(
                    request.segment,
                    request.start,
                    pools[int(request.segment.id)].candidates[request.start : request.stop],
                )

        def close(self, segment: Segment) -> None: ...

    async def alone(pool: RecordedPool) -> Finished:
        driver = Driver(RecordedGenerator([pool]), rerank.load("mbr:chrf"), rule)
        [found] = [one async for one in in_order(driver.run([pool.segment]))]
        return found

    async def work() -> None:
        expected = [await alone(pool) for pool in pools]
        async with session(Pools(), rule=rule, in_flight=5) as shared:
            tickets = [shared.submit(pool.segment, group=i % 3, deadline=600) for i, pool in enumerate(pools)]
            found = [await ticket for ticket in tickets]
        for one, other in zip(found, expected, strict=True):
            assert one.outcome.trajectory == other.outcome.trajectory
            assert one.candidates == other.candidates and one.outcome.id == other.outcome.id

    run(work())


def test_equal_ids_of_different_requests_do_not_meet() -> None:
    async def work() -> list[str]:
        async with session(Sampling()) as shared:
            tickets = [shared.submit(Segment("1", text), group=text) for text in "abc"]
            return [(await ticket).outcome.source for ticket in tickets]

    assert run(work()) == ["a", "b", "c"]


def test_groups_take_turns() -> None:
    generator = Sampling()

    async def work() -> None:
        gate = generator.gates["first"] = asyncio.Event()
        async with session(generator, in_flight=1) as shared:
            first = shared.submit(Segment("1", "first"), group="first")
            await until(lambda: generator.begun)
            large = [shared.submit(Segment(str(i), f"large {i}"), group="large") for i in range(4)]
            small = [shared.submit(Segment("1", f"small {i}"), group=f"small {i}") for i in range(2)]
            assert shared.waiting.segments == 6 and shared.waiting.characters == 4 * 7 + 2 * 7
            gate.set()
            for ticket in (first, *large, *small):
                await ticket
            assert shared.waiting.segments == shared.waiting.characters == shared.active == 0

    run(work())
    assert generator.begun == ["first", "large 0", "small 0", "small 1", "large 1", "large 2", "large 3"]


def test_what_is_cancelled_frees_its_slot_at_once_and_its_place_in_the_queue() -> None:
    generator = Sampling()

    async def work() -> None:
        generator.gates["stuck"] = asyncio.Event()
        async with session(generator, in_flight=1) as shared:
            stuck = shared.submit(Segment("1", "stuck"), group=1)
            await until(lambda: generator.begun)
            waiting = shared.submit(Segment("1", "never"), group=2)
            after = shared.submit(Segment("1", "after"), group=3)
            waiting.cancel()
            assert shared.waiting.segments == 1
            stuck.cancel()
            stuck.cancel()
            assert (await after).outcome.stop is StopReason.BUDGET
            with pytest.raises(asyncio.CancelledError):
                await stuck
            assert shared.active == 0

    run(work())
    assert generator.begun == ["stuck", "after"] and "stuck" in generator.closed


def test_rules_observers_and_ranks_are_each_segments_own() -> None:
    async def work() -> None:
        seen: list[tuple[int, StopReason | None]] = []

        def look(snapshot: Snapshot, anchors: object, candidates: object, stop_reason: StopReason | None) -> None:
            seen.append((snapshot.size, stop_reason))

        async with session(Sampling()) as shared:
            plain = shared.submit(Segment("1", "x"), group=1)
            own = shared.submit(
                Segment("1", "x"), group=2, rule=stop.load("fixed:12", k=4, n=12), ranked=True, observer=look
            )
            assert (await plain).outcome.size == 8 and (await plain).ranked == ()
            finished = await own
            assert finished.outcome.size == 12 and "|n:12|" in finished.outcome.signature
            assert seen == [(4, None), (8, None), (12, StopReason.BUDGET)]
            best = finished.ranked[0]
            assert (best.index, best.score) == (finished.outcome.index, finished.outcome.score)
            assert [one.index for one in finished.ranked] == [0, 1, 2]
            scores = [one.score for one in finished.ranked]
            assert scores == sorted(scores, reverse=True)

    run(work())


def test_a_seed_of_its_own_is_in_the_signature() -> None:
    async def work() -> None:
        async with session(Sampling()) as shared:
            found = await shared.submit(Segment("1", "x", seed=5))
            assert "gen:sampling,seed:5|" in found.outcome.signature
            assert "gen:sampling,seed:0|" in (await shared.submit(Segment("1", "x"))).outcome.signature

    run(work())


def test_a_failure_is_an_outcome_and_others_go_on() -> None:
    class Fails(Sampling):
        async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
            if any(request.segment.source == "bad" for request in requests):
                raise OSError("no")
            async for draw in super().draw(requests):
                yield draw

    async def work() -> None:
        async with session(Fails()) as shared:
            bad, good = (shared.submit(Segment("1", text), group=text) for text in ("bad", "good"))
            assert ((await bad).outcome.error or "").startswith(
                "generating failed: OSError: no (test_session.py, line "
            )
            assert (await good).outcome.error is None

    run(work())


class Clock:
    """Moved by the test."""

    def __init__(self) -> None:
        self.now, self.timers = 100.0, dict[object, tuple[float, Callable[[], object]]]()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object], /) -> Any:
        clock = self

        class Timer:
            def cancel(self) -> None:
                clock.timers.pop(self, None)

        timer = Timer()
        self.timers[timer] = (when, callback)
        return timer

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for timer, (when, callback) in sorted(self.timers.items(), key=lambda one: one[1][0]):
            if when <= self.now and self.timers.pop(timer, None):
                callback()


def test_a_deadline_counts_from_the_submission_and_ends_waiting_too() -> None:
    clock, generator = Clock(), Sampling()

    async def work() -> None:
        generator.gates["stuck"] = asyncio.Event()
        async with session(generator, in_flight=1, clock=clock) as shared:
            stuck = shared.submit(Segment("1", "stuck"), group=1)
            await until(lambda: generator.begun)
            late = shared.submit(Segment("1", "late"), group=2, deadline=5)
            clock.advance(4.9)
            assert shared.waiting.segments == 1
            clock.advance(0.2)
            finished = await late
            assert (finished.outcome.stop, finished.outcome.error) == (
                StopReason.FAILED,
                "not begun before its deadline",
            )
            assert not clock.timers
            stuck.cancel()

    run(work())
    assert generator.begun == ["stuck"]


def test_what_is_begun_late_has_what_is_left_of_its_time() -> None:
    clock, generator = Clock(), Sampling()

    async def work() -> None:
        for name in ("first", "slow"):
            generator.gates[name] = asyncio.Event()
        async with session(generator, in_flight=1, clock=clock) as shared:
            first = shared.submit(Segment("1", "first"), group=1)
            await until(lambda: generator.begun)
            slow = shared.submit(Segment("1", "slow"), group=2, deadline=5)
            clock.advance(3)
            generator.gates["first"].set()
            await first
            await until(lambda: "slow" in generator.begun)
            assert sorted(round(when - 100, 3) for when, _ in clock.timers.values()) == [5, 5 + GRACE]
            clock.advance(2)
            await asyncio.sleep(0)
            assert shared.active == 1  # nothing has arrived, so it waits for the first candidates
            clock.advance(GRACE)
            assert (await slow).outcome.error == "no candidate arrived before its deadline"

    run(work())


def test_how_long_a_new_group_would_wait_follows_from_the_last_segments() -> None:
    clock, generator = Clock(), Sampling()

    async def work() -> None:
        generator.gates["slow"] = asyncio.Event()
        async with session(generator, in_flight=1, clock=clock) as shared:
            assert shared.seconds_to_begin == shared.seconds_to_clear == 0
            slow = shared.submit(Segment("1", "slow"), group=1)
            await until(lambda: generator.begun)
            clock.advance(3)
            generator.gates["slow"].set()
            await slow
            generator.gates["slow"].clear()
            held = shared.submit(Segment("1", "slow"), group=1)
            await until(lambda: len(generator.begun) == 2)
            large = [shared.submit(Segment(str(i), "x"), group="large") for i in range(5)]
            small = shared.submit(Segment("1", "x"), group="small")
            assert shared.seconds_to_begin == 3 * 2  # one of each group goes first
            assert shared.seconds_to_clear == 3 * 7
            for ticket in (held, *large, small):
                ticket.cancel()

    run(work())


def test_time_is_shared_where_more_wait_than_can_be_begun() -> None:
    clock, generator = Clock(), Sampling()

    async def work() -> None:
        generator.gates["stuck"] = asyncio.Event()
        async with session(generator, in_flight=1, clock=clock) as shared:
            tickets = [shared.submit(Segment(str(i), "stuck"), group="large", deadline=8) for i in range(4)]
            await until(lambda: generator.begun)
            rings = min(when - 100 for when, _ in clock.timers.values())
            assert rings == 8 / 4
            for ticket in tickets:
                ticket.cancel()
            small = shared.submit(Segment("1", "stuck"), group="small", deadline=8)
            more = [shared.submit(Segment(str(i), "stuck"), group="other", deadline=8) for i in range(7)]
            await until(lambda: len(generator.begun) == 2)
            # Of the large group only one counts: it takes turns with the small one.
            assert min(when - 100 for when, _ in clock.timers.values()) == 8 / 2
            for ticket in (small, *more):
                ticket.cancel()
            assert not clock.timers

    run(work())


def test_closing_settles_everything_and_takes_nothing_more() -> None:
    generator = Sampling()

    async def work() -> None:
        generator.gates["stuck"] = asyncio.Event()
        shared = session(generator, in_flight=1)
        await shared.start()
        tickets = [shared.submit(Segment(str(i), "stuck"), group=1) for i in range(3)]
        await until(lambda: generator.begun)
        await shared.close()
        errors = [(await ticket).outcome.error for ticket in [*tickets, shared.submit(Segment("9", "x"))]]
        assert errors == ["the session was closed"] * 4

    run(work())


def test_an_observer_that_fails_disturbs_nobody() -> None:
    def look(*_: object) -> None:
        raise ValueError("mine")

    async def work() -> Finished:
        async with session(Sampling()) as shared:
            return await shared.submit(Segment("1", "x"), observer=look)

    assert run(work()).outcome.stop is StopReason.BUDGET


def test_an_owner_is_no_part_of_what_fixes_candidates() -> None:
    one = Segment("1", "x")
    assert replace(one, owner="7").id == one.id and replace(one, owner="7").key != one.key == "1"


def test_a_rule_that_learns_does_so_from_all_callers() -> None:
    """The session keeps best scores and nothing else; each segment's signature names the top that it had."""

    async def run() -> list[Outcome]:
        pools = [
            RecordedPool(Segment(str(number)), tuple(Candidate(str(i), scores={"q": 0.5 + i / 100}) for i in range(20)))
            for number in range(12)
        ]
        session = Session(RecordedGenerator(pools), rerank.load("qe:recorded:q"), stop.load("headroom"))
        async with session:
            return [(await session.submit(pool.segment, group=pool.segment.id)).outcome for pool in pools]

    outcomes = asyncio.run(run())
    assert {one.size for one in outcomes[:LEAST]} == {12}  # the usual number, until enough is known
    assert ["top:unknown" in one.signature for one in outcomes] == [True] * LEAST + [False] * (12 - LEAST)
    assert all(one.error is None for one in outcomes)
