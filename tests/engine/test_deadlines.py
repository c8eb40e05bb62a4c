"""Deadlines in the driver, by a clock that the tests move: no test waits, and none depends on how fast it runs."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import pytest

from quitmt import rerank, stop
from quitmt.engine.deadlines import Deadlines, Timers, grace
from quitmt.engine.driver import Driver, in_order
from quitmt.errors import GenerationError, UsageError
from quitmt.generate.recorded import RecordedGenerator
from quitmt.protocols import Reranker, Update
from quitmt.types import Candidate, Draw, Finished, Outcome, RecordedPool, Request, Segment, StopReason


class FakeTimer:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when, self.callback, self.pending = when, callback, True

    def cancel(self) -> None:
        self.pending = False


class FakeClock:
    def __init__(self) -> None:
        self.now, self.timers = 1000.0, list[FakeTimer]()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(when, callback))
        return self.timers[-1]

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.pending and timer.when <= end]:
            first = min(due, key=lambda timer: timer.when)
            first.pending, self.now = False, max(self.now, first.when)
            first.callback()
        self.now = end

    @property
    def pending(self) -> list[float]:
        return [timer.when - self.now for timer in self.timers if timer.pending]


class Taking:
    """A generator whose every ask takes so many seconds; one of many asks after the other."""

    signature = "taking"

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self.clock, self.seconds = clock, seconds
        self.requested, self.closed = list[str](), list[str]()
        self._gone = list[Segment]()

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        for request in requests:
            self.requested.append(request.segment.id)
            self.clock.advance(self.seconds)
            if not any(request.segment is one for one in self._gone):
                yield Draw(
                    request.segment,
                    request.start,
                    tuple(candidate(index) for index in range(request.start, request.stop)),
                )

    def close(self, segment: Segment) -> None:
        self.closed.append(segment.id)
        self._gone.append(segment)


def ignore(*_: object) -> None:
    pass


def candidate(index: int) -> Candidate:
    return Candidate("x" * (1 + index * 7 % 11))


def length() -> Reranker:
    return rerank.qe(lambda source, text: len(text), name="length")


def segments(count: int) -> list[Segment]:
    return [Segment(str(number), f"source {number}") for number in range(count)]


def run(driver: Driver, items: Iterable[Segment | Finished], expected: int | None = None) -> list[Outcome]:
    async def collect() -> list[Outcome]:
        return [one.outcome async for one in in_order(driver.run(items, expected=expected))]

    return asyncio.run(collect())


def driver_of(
    generator: Taking, deadline: float | None = None, run_deadline: float | None = None, n: int = 10_000, **more: int
) -> Driver:
    deadlines = Deadlines(deadline, run_deadline)
    return Driver(generator, length(), stop.load("full", n=n), deadlines=deadlines, clock=generator.clock, **more)


def is_best(outcome: Outcome) -> bool:
    texts = [candidate(index).text for index in range(outcome.size)]
    return outcome.translation == max(texts, key=len) and len(outcome.translation) > 0


@pytest.mark.parametrize("seconds", [0.5, 1.0, 3.0])
def test_every_segment_ends_at_its_deadline_with_the_best_so_far(seconds: float) -> None:
    taking = Taking(FakeClock(), seconds)
    outcomes = run(driver_of(taking, deadline=10, in_flight=3), segments(7))
    assert [outcome.stop for outcome in outcomes] == [StopReason.DEADLINE] * 7
    assert all(is_best(outcome) and outcome.size <= 10 / seconds * 32 + 32 for outcome in outcomes)
    assert set(taking.closed) == {outcome.id for outcome in outcomes}
    assert taking.clock.pending == []


def test_a_deadline_that_is_not_reached_changes_nothing() -> None:
    for rule in (stop.load("full", n=100), stop.load("quit", k=5, w=4, alpha=0.5, n=100)):
        found = []
        for deadlines in (Deadlines(), Deadlines(1e6, 1e7)):
            taking = Taking(FakeClock(), 1.0)
            driver = Driver(taking, length(), rule, deadlines=deadlines, clock=taking.clock)
            outcomes = run(driver, segments(5), expected=5)
            found.append([(one.translation, one.index, one.stop, one.trajectory, one.size) for one in outcomes])
            assert not driver.wasted
        assert found[0] == found[1]


def test_a_generator_is_told_as_soon_as_time_is_up() -> None:
    """While what has arrived is reranked, nothing more is generated for the segment."""
    clock = FakeClock()
    taking = Taking(clock, 0.0)
    closed_meanwhile: list[list[str]] = []

    class Watching:
        signature = "watching"
        inner = length()

        def open(self, segment: Segment) -> object:
            return self.inner.open(segment)

        def extend(self, updates: Sequence[Update]) -> object:
            done = asyncio.run_coroutine_threadsafe(ring(), loop)
            done.result()
            closed_meanwhile.append(list(taking.closed))
            return self.inner.extend(updates)

    async def ring() -> None:
        clock.advance(5.0)

    async def work() -> list[Outcome]:
        nonlocal loop
        loop = asyncio.get_running_loop()
        rule = stop.load("full", n=10_000)
        driver = Driver(taking, Watching(), rule, deadlines=Deadlines(5.0), clock=clock)  # type: ignore[arg-type]
        return [one.outcome async for one in in_order(driver.run(segments(1)))]

    loop: asyncio.AbstractEventLoop
    [outcome] = asyncio.run(work())
    assert outcome.stop is StopReason.DEADLINE and is_best(outcome)
    assert closed_meanwhile == [["0"]]


def test_when_the_run_is_over_the_rest_is_not_begun() -> None:
    taking = Taking(FakeClock(), 1.0)
    blank = Finished(Segment("blank"), Outcome("blank", "", "", None, None, 0, StopReason.STABLE, ()), ())
    items = [*segments(2), *[Segment(f"late {number}", "x") for number in range(40)], blank]
    outcomes = run(driver_of(taking, run_deadline=60, in_flight=2), items)  # how many there are is not known
    assert [outcome.stop for outcome in outcomes[:2]] == [StopReason.DEADLINE] * 2
    assert all(is_best(outcome) for outcome in outcomes[:2])
    late = outcomes[2:-1]
    assert {outcome.stop for outcome in late} == {StopReason.FAILED}
    assert {outcome.error for outcome in late} == {"not begun before the run's deadline of 60 s"}
    assert outcomes[-1].stop is StopReason.STABLE and len(late) == 40
    assert set(taking.requested) == {"0", "1"}


def test_a_run_of_known_length_is_paced() -> None:
    taking = Taking(FakeClock(), 0.125)
    outcomes = run(driver_of(taking, run_deadline=64, in_flight=1), segments(8), expected=8)
    assert [outcome.stop for outcome in outcomes] == [StopReason.DEADLINE] * 8
    assert all(is_best(outcome) for outcome in outcomes)
    assert taking.clock.now <= 1064.0 + 8 * 0.125


def test_a_segment_gets_its_share_of_what_is_left() -> None:
    clock = FakeClock()
    timers = Timers(Deadlines(run=100), clock, ignore, ignore, in_flight=4, expected=50)
    timers.start("a", 0)
    assert clock.pending == [100, 110, 100 * 4 / 50]
    timers.stop("a")
    clock.advance(50)
    timers.start("b", 40)
    assert clock.pending == [50, 60, 50 * 4 / 10]
    timers.stop("b")
    timers.start("c", 60)  # more than were announced
    assert clock.pending == [50, 60, 200]
    timers.close()
    assert clock.pending == []


def test_the_shorter_of_both_deadlines_counts() -> None:
    for deadline, share in ((3.0, 3.0), (30.0, 20.0)):
        clock = FakeClock()
        Timers(Deadlines(deadline, 100), clock, ignore, ignore, in_flight=2, expected=10).start("a", 0)
        assert clock.pending == [100, 110, share, deadline + grace(deadline)]


def test_the_end_of_the_run_rings_for_all_that_are_under_way() -> None:
    clock, rung, left = FakeClock(), list[str](), list[tuple[str, str, bool]]()
    timers = Timers(Deadlines(run=100), clock, rung.append, lambda *about: left.append(about), in_flight=2)
    for name in "abc":
        timers.start(name, 0)
    timers.stop("b")
    assert not timers.over and clock.pending == [100, 110]
    clock.advance(100)
    assert timers.over and rung == ["a", "c"]
    timers.stop("a")
    clock.advance(9.5)
    assert left == []
    clock.advance(0.5)
    assert left == [("c", "the run's deadline of 100 s", True)]


def test_the_grace_is_a_tenth_of_the_deadline_within_bounds() -> None:
    assert [grace(seconds) for seconds in (0.1, 5, 10, 40, 100, 86_400)] == [1, 1, 1, 4, 10, 10]


class Hung:
    """A generator that answers for some segments only; what it was told, and what was cancelled."""

    signature = "hung"

    def __init__(self, *answers: str) -> None:
        self.answers, self.closed, self.cancelled = answers, list[str](), list[str]()
        self.waiting = asyncio.Event()

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        for request in requests:
            if request.segment.id in self.answers and request.start == 0:
                yield Draw(request.segment, 0, tuple(candidate(index) for index in range(request.stop)))
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += [request.segment.id for request in requests]

    def close(self, segment: Segment) -> None:
        self.closed.append(segment.id)

    async def check(self) -> None:
        await anext(self.draw([]))


@pytest.mark.parametrize(
    ("deadlines", "told"),
    [
        (Deadlines(5.0), "no candidate arrived before the deadline of 5 s"),
        (Deadlines(run=5.0), "no candidate arrived before the run's deadline of 5 s"),
    ],
)
def test_a_generator_that_hangs_is_left_behind(deadlines: Deadlines, told: str) -> None:
    clock, others = FakeClock(), set(threading.enumerate())

    async def work() -> tuple[list[Outcome], Hung]:
        hung = Hung("1")
        driver = Driver(hung, length(), stop.load("full", n=100), deadlines=deadlines, clock=clock)
        outcomes = asyncio.create_task(collected(driver, segments(3)))
        await hung.waiting.wait()
        while not outcomes.done():  # what has arrived is reranked before time is up
            await settled(others)
            clock.advance(0.5)
        return await outcomes, hung

    outcomes, hung = asyncio.run(work())
    assert [outcome.stop for outcome in outcomes] == [StopReason.FAILED, StopReason.DEADLINE, StopReason.FAILED]
    assert [outcome.error for outcome in outcomes] == [told, None, told]
    assert is_best(outcomes[1])
    assert sorted(set(hung.closed)) == sorted(set(hung.cancelled)) == ["0", "1", "2"]
    assert clock.now <= 1000 + 5 + 1 + 0.5 and clock.pending == []


async def settled(others: set[threading.Thread]) -> None:
    """Nothing else is left to do: also no thread, but for those that tests before left behind."""
    while any(thread.name == "quitmt-call" for thread in set(threading.enumerate()) - others):
        await asyncio.sleep(0.001)
    for _ in range(20):
        await asyncio.sleep(0)


async def collected(driver: Driver, items: Iterable[Segment]) -> list[Outcome]:
    return [one.outcome async for one in in_order(driver.run(items))]


def test_a_share_of_the_run_is_no_reason_to_give_up() -> None:
    """A generator that is slower than the pace: the first segments get what they waited for."""
    taking = Taking(FakeClock(), 3.0)
    outcomes = run(driver_of(taking, run_deadline=20, in_flight=1), segments(40), expected=40)
    begun = [outcome for outcome in outcomes if outcome.size]
    assert len(begun) >= 6 and all(outcome.stop is StopReason.DEADLINE and is_best(outcome) for outcome in begun)


class Stuck:
    """A reranker whose second call does not come back before it is released."""

    signature = "stuck"

    def __init__(self, first: int) -> None:
        self.inner, self.calls, self.first = length(), 0, first
        self.begun, self.release = threading.Event(), threading.Event()

    def open(self, segment: Segment) -> object:
        return self.inner.open(segment)

    def extend(self, updates: Sequence[Update]) -> object:
        self.calls += 1
        if self.calls >= self.first:
            self.begun.set()
            self.release.wait(60)
        return self.inner.extend(updates)


@pytest.mark.parametrize("first", [1, 2])
def test_a_reranker_that_takes_long_is_not_waited_for_when_the_run_is_over(first: int) -> None:
    clock, stuck = FakeClock(), Stuck(first)

    async def work() -> list[Outcome]:
        taking = Taking(clock, 0.0)
        rule = stop.load("full", n=10_000)
        driver = Driver(taking, stuck, rule, deadlines=Deadlines(run=5.0), clock=clock)  # type: ignore[arg-type]
        outcomes = asyncio.create_task(collected(driver, segments(1)))
        while not stuck.begun.is_set():
            await asyncio.sleep(0.001)
        clock.advance(5.9)
        await asyncio.sleep(0.01)
        assert not outcomes.done()  # the grace
        clock.advance(0.2)
        return await outcomes

    [outcome] = asyncio.run(work())
    stuck.release.set()
    if first == 1:
        assert outcome.error == "no candidate was scored before the run's deadline of 5 s"
    else:
        assert outcome.stop is StopReason.DEADLINE and is_best(outcome)


def test_a_segment_of_a_run_that_goes_on_waits_for_the_reranker() -> None:
    clock, stuck = FakeClock(), Stuck(1)

    async def work() -> list[Outcome]:
        rule = stop.load("full", n=10_000)
        driver = Driver(Taking(clock, 0.0), stuck, rule, deadlines=Deadlines(5.0), clock=clock)  # type: ignore[arg-type]
        outcomes = asyncio.create_task(collected(driver, segments(1)))
        while not stuck.begun.is_set():
            await asyncio.sleep(0.001)
        clock.advance(500)
        await asyncio.sleep(0.01)
        stuck.release.set()
        return await outcomes

    [outcome] = asyncio.run(work())
    assert outcome.stop is StopReason.DEADLINE and is_best(outcome)


def test_a_check_takes_no_longer_than_the_run_may() -> None:
    clock = FakeClock()

    async def work() -> None:
        hung = Hung()
        driver = Driver(hung, length(), stop.load("full"), deadlines=Deadlines(run=5.0), clock=clock)
        check = asyncio.create_task(driver.check())
        await hung.waiting.wait()
        clock.advance(5)
        await check

    with pytest.raises(GenerationError, match="did not answer within the run's deadline of 5 s"):
        asyncio.run(work())
    assert clock.pending == []


def test_what_is_compiled_on_first_use_is_warm_before_the_clock_starts() -> None:
    """A reranker whose first call takes longer than the run may."""
    clock = FakeClock()

    class Cold(Taking):
        warmed = 0

        async def warm(self) -> None:
            Cold.warmed += 1

    class Compiling:
        signature = "compiling"

        def __init__(self) -> None:
            self.inner, self.compiled = length(), False

        def open(self, segment: Segment) -> object:
            return self.inner.open(segment)

        def extend(self, updates: Sequence[Update]) -> object:
            if not self.compiled:
                loop.call_soon_threadsafe(clock.advance, 100.0)
            self.compiled = True
            return self.inner.extend(updates)

    async def work(warm: bool, deadlines: Deadlines) -> StopReason:
        nonlocal loop
        loop = asyncio.get_running_loop()
        rule = stop.load("full", n=64)
        driver = Driver(Cold(clock, 0.0), Compiling(), rule, deadlines=deadlines, clock=clock)  # type: ignore[arg-type]
        if warm:
            await driver.warm()
        [outcome] = await collected(driver, segments(1))
        return outcome.stop

    loop: asyncio.AbstractEventLoop
    assert asyncio.run(work(False, Deadlines(run=5.0))) is StopReason.FAILED
    assert asyncio.run(work(True, Deadlines(run=5.0))) is StopReason.BUDGET
    assert asyncio.run(work(True, Deadlines(5.0))) is StopReason.BUDGET
    assert Cold.warmed == 2


def test_without_deadlines_nothing_is_warmed_and_a_failure_of_it_is_nothing() -> None:
    called = list[str]()

    def score(source: str, text: str) -> float:
        called.append(source)
        raise OSError("no model")

    reranker = rerank.qe(score, name="failing")
    for deadlines, calls in ((Deadlines(), False), (Deadlines(5.0), True)):
        asyncio.run(Driver(RecordedGenerator(), reranker, stop.load("full"), deadlines=deadlines).warm())
        assert bool(called) is calls


def test_scoring_of_recorded_pools_has_deadlines_too() -> None:
    clock = FakeClock()
    recorded = [RecordedPool(one, tuple(candidate(index) for index in range(640))) for one in segments(4)]

    def slow(source: str, text: str) -> float:
        loop.call_soon_threadsafe(clock.advance, 1 / 16)
        return len(text)

    async def work() -> tuple[list[Outcome], Driver]:
        nonlocal loop
        loop = asyncio.get_running_loop()
        reranker = rerank.qe(slow, name="slow")
        driver = Driver(
            RecordedGenerator(recorded), reranker, stop.load("full", n=640), deadlines=Deadlines(1.0), clock=clock
        )
        return [one.outcome async for one in in_order(driver.run([pool.segment for pool in recorded]))], driver

    loop: asyncio.AbstractEventLoop
    outcomes, driver = asyncio.run(work())
    assert [outcome.stop for outcome in outcomes] == [StopReason.DEADLINE] * 4
    assert all(is_best(outcome) and outcome.size < 640 for outcome in outcomes)
    assert not driver.wasted  # nothing was generated


@pytest.mark.parametrize("value", [0, -1.5, math.nan, math.inf])
def test_bad_deadlines(value: float) -> None:
    with pytest.raises(UsageError, match="a segment's deadline must be a number of seconds above 0, not "):
        Deadlines(value)
    with pytest.raises(UsageError, match="a run's deadline must be"):
        Deadlines(run=value)
