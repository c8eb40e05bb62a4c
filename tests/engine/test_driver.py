"""The live driver: same results as the pure engine, many segments at once, and one failure is one outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from quitmt import rerank, stop
from quitmt.engine.driver import LOOKAHEAD, Driver, Item, in_order
from quitmt.errors import InputError, UsageError
from quitmt.generate.function import FunctionGenerator
from quitmt.generate.recorded import RecordedGenerator
from quitmt.loops.iterate import iterate
from quitmt.protocols import StoppingRule
from quitmt.types import Candidate, Draw, Finished, Outcome, RecordedPool, Request, Segment, StopReason


def run(driver: Driver, segments: Iterable[Item]) -> list[Finished]:
    async def collect() -> list[Finished]:
        return [one async for one in in_order(driver.run(segments))]

    return asyncio.run(collect())


def pools(make_pool: Callable[[int, int], list[str]], count: int, size: int = 40) -> list[RecordedPool]:
    return [RecordedPool(Segment(str(i)), tuple(map(Candidate, make_pool(i, size)))) for i in range(count)]


class Slow:
    """Serves recorded pools, one candidate a draw, those of all asks mixed, the last ones first."""

    signature = "slow"

    def __init__(self, recorded: Sequence[RecordedPool]) -> None:
        self.pools = {pool.segment.id: pool.candidates for pool in recorded}
        self.closed: list[str] = []
        self.in_flight: set[str] = set()
        self.most_in_flight = 0

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        self.in_flight |= {request.segment.id for request in requests}
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        pairs = [(request.segment, index) for request in requests for index in range(request.start, request.stop)]
        for segment, index in sorted(pairs, key=lambda pair: (-pair[1], pair[0].id)):
            await asyncio.sleep(0)
            yield Draw(segment, index, self.pools[segment.id][index : index + 1])

    def close(self, segment: Segment) -> None:
        self.closed.append(segment.id)
        self.in_flight.discard(segment.id)


@pytest.mark.parametrize("in_flight", [1, 3, 50])
def test_how_many_are_in_flight_changes_nothing(in_flight: int, make_pool: Callable[[int, int], list[str]]) -> None:
    recorded = pools(make_pool, 12)
    reranker, rule = rerank.load("mbr:chrf"), stop.load("quit", k=2, w=3, alpha=0.01, n=40)
    expected = [run(Driver(RecordedGenerator([pool]), reranker, rule), [pool.segment])[0] for pool in recorded]
    slow = Slow(recorded)
    found = run(Driver(slow, reranker, rule, in_flight=in_flight), [pool.segment for pool in recorded])
    for one, other in zip(found, expected, strict=True):
        assert one.candidates == other.candidates
        assert (one.outcome.index, one.outcome.trajectory) == (other.outcome.index, other.outcome.trajectory)
    assert slow.most_in_flight == min(in_flight, 12)
    assert sorted(slow.closed, key=int) == [pool.segment.id for pool in recorded]


def test_one_segment_that_fails_is_one_failed_outcome() -> None:
    def sample(source: str, start: int, stop: int) -> list[str]:
        if source == "bad" and start:
            raise OSError("no more memory")
        return [source + "x" * index for index in range(start, stop)]

    driver = Driver(FunctionGenerator(sample), rerank.load("mbr:chrf"), stop.load("quit", k=2, w=2, alpha=0, n=12))
    outcomes = [one.outcome for one in run(driver, [Segment(name, name) for name in ("a", "bad", "b")])]
    assert [outcome.stop for outcome in outcomes] == [StopReason.BUDGET, StopReason.FAILED, StopReason.BUDGET]
    assert str(outcomes[1].error).startswith("segment bad: sampling failed: OSError: no more memory (test_driver.py, ")
    assert outcomes[1].size == 4  # what was there before it failed


def test_a_generator_that_raises_for_the_whole_batch_is_asked_one_by_one(
    make_pool: Callable[[int, int], list[str]],
) -> None:
    class Fragile(Slow):
        async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
            if any(request.segment.id == "1" for request in requests):
                raise ConnectionError("lost")
            async for draw in super().draw(requests):
                yield draw

    recorded = pools(make_pool, 4)
    driver = Driver(Fragile(recorded), rerank.load("mbr:chrf"), stop.load("full", n=8))
    outcomes = [one.outcome for one in run(driver, [pool.segment for pool in recorded])]
    assert [outcome.stop.value for outcome in outcomes] == ["budget", "failed", "budget", "budget"]
    assert str(outcomes[1].error).startswith("generating failed: ConnectionError: lost (test_driver.py, line ")


def test_a_generator_that_gives_too_few_is_a_failure(make_pool: Callable[[int, int], list[str]]) -> None:
    driver = Driver(Slow(pools(make_pool, 1, size=5)), rerank.load("mbr:chrf"), stop.load("full", n=8))
    [finished] = run(driver, [Segment("0")])
    assert finished.outcome.error == "the generator returned fewer candidates than requested"


def test_a_slow_segment_holds_up_only_so_many() -> None:
    release = asyncio.Event()
    read = 0

    async def sample(source: str, start: int, stop: int) -> list[str]:
        if source == "slow":
            await release.wait()
        return ["x"] * (stop - start)

    def segments() -> Iterator[Segment]:
        nonlocal read
        for number in range(1000):
            read += 1
            yield Segment(str(number), "slow" if number == 0 else "fast")

    async def work() -> tuple[int, list[Finished]]:
        driver = Driver(FunctionGenerator(sample), rerank.load("mbr:chrf"), stop.load("fixed:1"), in_flight=4)
        finished, waiting = [], 0
        async for position, one in driver.run(segments()):
            finished.append((position, one))
            if len(finished) == LOOKAHEAD * 4 - 1:  # everything that may be ahead of the slow one
                waiting = read
                release.set()
        return waiting, [one for _, one in sorted(finished, key=lambda pair: pair[0])]

    waiting, finished = asyncio.run(work())
    assert waiting <= LOOKAHEAD * 4 + 1
    assert [one.segment.id for one in finished] == [str(number) for number in range(1000)]


def test_what_was_admitted_is_finished_before_a_bad_input_is_reported() -> None:
    def segments() -> Iterator[Segment]:
        yield Segment("1", "a")
        yield Segment("2", "b")
        raise InputError("line 3 is not UTF-8")

    driver = Driver(FunctionGenerator(lambda s, i, j: [s] * (j - i)), rerank.load("mbr:chrf"), stop.load("fixed:8"))
    finished = []

    async def work() -> None:
        async for _, one in driver.run(segments()):
            finished.append(one.segment.id)

    with pytest.raises(InputError, match="line 3"):
        asyncio.run(work())
    assert sorted(finished) == ["1", "2"]


def test_leaving_early_closes_everything(make_pool: Callable[[int, int], list[str]]) -> None:
    recorded = pools(make_pool, 8)
    slow = Slow(recorded)
    driver = Driver(slow, rerank.load("mbr:chrf"), stop.load("full", n=40), in_flight=4)
    results = iterate(in_order(driver.run([pool.segment for pool in recorded])))
    assert next(results).segment.id == "0"
    results.close()
    assert slow.in_flight == set()


def test_at_least_one_in_flight() -> None:
    with pytest.raises(UsageError, match="at least 1 segment"):
        Driver(RecordedGenerator(), rerank.load("mbr:chrf"), stop.load("full"), in_flight=0)


class Steered:
    """A steered rule that records what its steering is asked."""

    def __init__(self) -> None:
        self._rule = stop.load("full", k=2, n=4)
        self.asked: list[bool] = []
        self.added: list[int] = []
        self.ready = True

    def __getattr__(self, name: str) -> object:
        return getattr(self._rule, name)

    def steer(self) -> Steered:
        return self

    def expect(self, length: int | None) -> None:
        pass

    def next(self, position: int, *, blank: bool = False) -> StoppingRule:
        assert position == len(self.asked)
        self.asked.append(blank)
        return self._rule

    def add(self, position: int, outcome: Outcome) -> None:
        self.added.append(position)


def test_steering_is_asked_for_every_item_and_counts_only_untranslated_lines_as_blank() -> None:
    """A resumed run must plan as the first one did, so finished segments take part as if they were in flight."""
    rule: Any = Steered()

    def finished(stop_reason: StopReason, size: int) -> Finished:
        done = Finished.without_candidates(Segment(f"{stop_reason} {size}"), stop_reason, "")
        return replace(done, outcome=replace(done.outcome, size=size))

    items = [
        Segment("new", "new"),
        finished(StopReason.STABLE, 0),  # a blank line
        finished(StopReason.STABLE, 8),
        finished(StopReason.FAILED, 0),
        finished(StopReason.DECIDED, 4),
    ]
    driver = Driver(FunctionGenerator(numbered), rerank.load("mbr:chrf"), rule, nbest=2)
    [new, *_] = run(driver, items)
    assert rule.asked == [False, True, False, False, False]
    assert sorted(rule.added) == [0, 1, 2, 3, 4]
    assert len(new.outcome.nbest) == 2  # steered segments have n-best lists too


def numbered(source: str, start: int, stop: int) -> list[str]:
    return [f"{source} {index}" for index in range(start, stop)]
