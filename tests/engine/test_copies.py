"""Equal segments of a run are translated once, whatever fails, is cancelled, ends late or is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from quitmt import rerank, stop
from quitmt.engine import copies
from quitmt.engine.copies import Admission, Copies
from quitmt.engine.deadlines import Limit
from quitmt.engine.driver import Driver, Item, Submission, in_order
from quitmt.engine.session import Session
from quitmt.engine.slots import Policy
from quitmt.generate.function import FunctionGenerator
from quitmt.generate.recorded import RecordedGenerator
from quitmt.protocols import RerankerTraits
from quitmt.types import Candidate, Finished, Outcome, RecordedPool, Segment, StopReason

RULE = stop.load("fixed:4", k=2, n=4)
POLICY = Policy.of(RULE, RerankerTraits(), signature="fixed")


class Sampler:
    """Counts the calls per source; those of gated sources wait, and the first calls of ``failing`` sources fail."""

    def __init__(self, **failing: int) -> None:
        self.calls: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.failing = failing

    async def __call__(self, source: str, start: int, stop: int) -> list[str]:
        if start == 0:
            self.calls.append(source)
        if gate := self.gates.get(source):
            await gate.wait()
        await asyncio.sleep(0)
        if self.failing.get(source):
            self.failing[source] -= 1
            raise RuntimeError("not yet")
        return [f"{source} {index % 3}" for index in range(start, stop)]


def run(sampler: Any, items: Iterable[Item], rule: Any = RULE, **settings: Any) -> list[Finished]:
    driver = Driver(FunctionGenerator(sampler), rerank.load("mbr:chrf"), rule, share=True, **settings)

    async def collect() -> list[Finished]:
        return [one async for one in in_order(driver.run(items))]

    return asyncio.run(collect())


def segments(text: str) -> list[Segment]:
    return [Segment(str(number), source) for number, source in enumerate(text, 1)]


def plain(outcome: Outcome) -> Outcome:
    return replace(outcome, id="", copied=False, seconds=type(outcome.seconds)(), effort=None)


@pytest.mark.parametrize("in_flight", [1, 2, 16])
def test_a_copy_has_the_outcome_of_its_own_work_and_costs_nothing(in_flight: int) -> None:
    sampler = Sampler()
    found = run(sampler, segments("abaabcaa"), in_flight=in_flight)
    assert sorted(sampler.calls) == ["a", "b", "c"]
    assert [one.outcome.copied for one in found] == [False, False, True, True, True, False, True, True]
    assert [one.outcome.id for one in found] == [one.segment.id for one in found] == list("12345678")
    for one in found:
        [alone] = run(Sampler(), [one.segment])
        assert plain(one.outcome) == plain(alone.outcome)
        assert one.outcome.cost == (0 if one.outcome.copied else 4)
        if one.outcome.copied:
            assert one.outcome.effort is None and not one.outcome.seconds.generate and not one.candidates


def test_segments_that_differ_in_what_decides_the_outcome_are_not_copies() -> None:
    sampler, a = Sampler(), Segment("1", "a")
    different = [
        a,
        replace(a, id="2", context="b"),
        replace(a, id="3", anchors=("b",)),
        replace(a, id="4", seed=1),
        replace(a, id="5", support=("b",)),
    ]
    assert not any(one.outcome.copied for one in run(sampler, different))
    assert sampler.calls == ["a"] * 5


def test_recorded_pools_are_matched_by_id() -> None:
    pools = [RecordedPool(Segment(id, "a"), tuple(map(Candidate, texts))) for id, texts in (("1", "xxyy"), ("2", "zz"))]
    driver = Driver(RecordedGenerator(pools), rerank.load("mbr:chrf"), RULE, share=True)

    async def collect() -> list[Finished]:
        return [one async for one in in_order(driver.run([pool.segment for pool in pools]))]

    assert [one.outcome.translation for one in asyncio.run(collect())] == ["x", "z"]


def test_copies_have_pools_and_scores_where_these_are_kept() -> None:
    first, copy = run(Sampler(), segments("aa"), ranked=True)
    assert copy.candidates == first.candidates and copy.ranked == first.ranked
    for one in run(Sampler(), segments("aa"), nbest=2):
        assert len(one.outcome.nbest) == 2


@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_failure_is_not_copied(in_flight: int) -> None:
    sampler = Sampler(a=2)
    found = run(sampler, segments("aaaab"), in_flight=in_flight)
    assert [one.outcome.stop is StopReason.FAILED for one in found] == [True, True, False, False, False]
    assert [one.outcome.copied for one in found] == [False, False, False, True, False]
    assert sampler.calls == ["a", "a", "a", "b"] if in_flight == 1 else sorted(sampler.calls) == list("aaab")


@pytest.mark.parametrize("in_flight", [1, 16])
def test_a_steered_run_depends_on_its_order_only(in_flight: int) -> None:
    """However many are in flight; a copy costs nothing and teaches nothing."""
    from quitmt.stop.loss import Loss
    from quitmt.stop.steering import Steered

    rule = Steered(Loss(step=4, budget=32), 12)
    text = "abcdefgabcahijklabmnopqrstabcdefghijkuvwxyz" * 2
    found = run(Sampler(), segments(text), rule, in_flight=in_flight)
    expected = run(Sampler(), segments(text), rule, in_flight=4)
    assert [plain(one.outcome) for one in found] == [plain(one.outcome) for one in expected]
    assert [one.outcome.copied for one in found] == [one in text[:place] for place, one in enumerate(text)]


def test_what_an_earlier_run_finished_is_copied_and_its_copies_are_not_done_again() -> None:
    whole = run(Sampler(), segments("abab"))
    sampler = Sampler()
    found = run(sampler, [whole[0], *segments("abab")[1:3], whole[3]])
    assert sampler.calls == ["b"] and [plain(one.outcome) for one in found] == [plain(one.outcome) for one in whole]
    assert [one.outcome.copied for one in found] == [False, False, True, True]


def test_who_cancels_does_not_cancel_copies() -> None:
    async def work() -> None:
        sampler = Sampler()
        sampler.gates["a"] = asyncio.Event()
        async with Session(FunctionGenerator(sampler), rerank.load("mbr:chrf"), RULE, share=True) as session:
            sampler.calls.clear()
            first, second, third = (session.submit(Segment(str(number), "a")) for number in range(3))
            while not sampler.calls or session.waiting.segments:
                await asyncio.sleep(0)
            first.cancel()
            second.cancel()
            while len(sampler.calls) < 2:
                await asyncio.sleep(0)
            sampler.gates["a"].set()
            assert (await third).outcome.stop is StopReason.BUDGET
            assert (await session.submit(Segment("4", "a"))).outcome.copied
            watched = await session.submit(Segment("5", "a"), observer=lambda *_: None)
            assert not watched.outcome.copied and session.free == 16

    asyncio.run(work())


def test_a_copy_does_not_wait_past_its_deadline() -> None:
    """It waits only for a segment whose deadline is as near as its own."""
    slow = Admission(0, Segment("1", "a"), POLICY)
    soon = Admission(1, Segment("2", "a"), POLICY, Limit(1.0, 2.0), since=10.0)
    later = replace(soon, segment=Segment("3", "a"), since=10.4)
    much_later = replace(soon, segment=Segment("4", "a"), since=20.0)
    known = Copies(keep_pools=False, keep_all=False)
    known.begin(slow)
    assert known.find(replace(slow, segment=Segment("5", "a"))) and not known.find(soon)
    known = Copies(keep_pools=False, keep_all=False)
    known.begin(soon)
    assert known.find(later) and not known.find(much_later) and not known.find(slow)
    known.begin(later)
    known = Copies(keep_pools=False, keep_all=False)
    known.begin(later)
    assert not known.find(soon)
    assert later.later(11.0).limit == Limit(pytest.approx(0.4), pytest.approx(1.4))


def test_a_result_that_time_cut_short_is_not_remembered() -> None:
    async def work() -> None:
        sampler = Sampler()
        sampler.gates["a"] = asyncio.Event()
        async with Session(FunctionGenerator(sampler), rerank.load("mbr:chrf"), RULE, share=True) as session:
            sampler.calls.clear()
            tickets = [session.submit(Segment(str(number), "a"), deadline=0.1) for number in range(3)]
            late = [await ticket for ticket in tickets]
            assert {one.outcome.stop for one in late} == {StopReason.FAILED} and sampler.calls == ["a"]
            sampler.gates["a"].set()
            assert not (await session.submit(Segment("4", "a"))).outcome.copied

    asyncio.run(work())


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "ENTRIES", 3)
    sampler = Sampler()
    found = run(sampler, segments("abcadabc"), in_flight=1)
    assert sampler.calls == list("abcdbc") and [one.outcome.copied for one in found].count(True) == 2
    known = Copies(keep_pools=True, keep_all=False)
    monkeypatch.setattr(copies, "BYTES", 20_000)
    for number in range(100):
        known.begin(Admission(number, Segment(str(number), f"{number} " * 50), POLICY))
    assert 0 < known.bytes <= 20_000 and len(known) == 3
    monkeypatch.setattr(copies, "ENTRIES", 10)
    known.begin(Admission(100, Segment("huge", "x" * 100_000), POLICY))
    assert len(known) == known.bytes == 0


def test_endless_copies_wait_for_room() -> None:
    async def work(seen: Callable[[], None]) -> None:
        sampler = Sampler()
        sampler.gates["a"] = asyncio.Event()
        driver = Driver(
            FunctionGenerator(sampler), rerank.load("mbr:chrf"), RULE, share=True, in_flight=2, ordered=False
        )
        submissions = (Submission(Segment(str(number), "a")) for number in range(1000))

        def items() -> Iterable[Submission]:
            for one in submissions:
                seen()
                yield one

        async def open_gate() -> None:
            await asyncio.sleep(0.05)
            assert count < 100
            sampler.gates["a"].set()

        opening = asyncio.create_task(open_gate())
        found = [one async for _, one in driver.run(items())]
        await opening
        assert len(found) == 1000 and sampler.calls == ["a"]

    count = 0

    def seen() -> None:
        nonlocal count
        count += 1

    asyncio.run(work(seen))
