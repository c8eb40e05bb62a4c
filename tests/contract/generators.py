"""The one contract of generators, as classes: a test class with a fixture ``make`` inherits its tests.

``make()`` gives a new generator of the same candidates; ``make(seed=…)`` one of others. A backend whose candidates are
the same only up to its engine's arithmetic says so by a method ``same`` of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from quitmt.protocols import Generator
from quitmt.types import Ask, Candidate, Segment

SEGMENTS = [
    Segment("1", "The weather is nice today."),
    Segment("2", "She lost her keys on the way to the office, so she had to call her sister."),
    Segment("x", "No."),
]
SIZE = 48

Found = dict[tuple[str, int], Candidate]


async def collect(generator: Generator, asks: list[Ask]) -> Found:
    """All candidates of some asks, by segment and index; none may come twice."""
    found: Found = {}
    async for one in generator.draw(asks):
        assert one.error is None and one.seconds >= 0
        for index, candidate in enumerate(one.candidates, start=one.start):
            assert (one.segment.id, index) not in found
            found[one.segment.id, index] = candidate
    return found


def draw(generator: Generator, asks: list[Ask]) -> Found:
    return asyncio.run(collect(generator, asks))


def error_of(generator: Generator, segment: Segment) -> Exception:
    async def work() -> list[Any]:
        return [one.error async for one in generator.draw([Ask(segment, 0, 2)])]

    (error,) = asyncio.run(work())
    assert isinstance(error, Exception)
    return error


def everything(generator: Generator) -> Found:
    return draw(generator, [Ask(segment, 0, SIZE) for segment in SEGMENTS])


def same(one: Found, other: Found) -> bool:
    """Equal, but for the last digits of log-probabilities, in which batches of different shapes differ, and for counts
    of tokens that a server gave the one time and not the other."""
    assert one.keys() == other.keys()
    return all(
        a.text == b.text
        and (a.tokens == b.tokens or None in (a.tokens, b.tokens))
        and abs((a.log_probability or 0) - (b.log_probability or 0)) < 1e-4
        for a, b in ((one[key], other[key]) for key in one)
    )


class Contract:
    """What every generator promises."""

    def same(self, one: Found, other: Found) -> bool:
        return same(one, other)

    def test_gives_exactly_what_was_asked_for(self, make: Callable[[], Generator]) -> None:
        asks = [Ask(SEGMENTS[0], 8, 24), Ask(SEGMENTS[1], 0, 1), Ask(SEGMENTS[2], 3, 3)]
        assert set(draw(make(), asks)) == {("1", index) for index in range(8, 24)} | {("2", 0)}

    def test_pools_are_nested(self, make: Callable[[], Generator]) -> None:
        whole, generator, pieces = everything(make()), make(), {}
        for start, stop in ((0, 8), (8, 32), (32, SIZE)):
            pieces |= draw(generator, [Ask(segment, start, stop) for segment in SEGMENTS])
        assert self.same(pieces, whole)

    def test_any_part_can_be_asked_for_first(self, make: Callable[[], Generator]) -> None:
        whole, generator = everything(make()), make()
        late = draw(generator, [Ask(SEGMENTS[1], 40, SIZE)])
        early = draw(generator, [Ask(SEGMENTS[1], 0, 40)])
        assert self.same(late | early, {key: value for key, value in whole.items() if key[0] == "2"})

    def test_the_other_segments_do_not_matter(self, make: Callable[[], Generator]) -> None:
        alone: Found = {}
        for segment in SEGMENTS:
            alone |= draw(make(), [Ask(segment, 0, SIZE)])
        assert self.same(alone, everything(make()))

    def test_concurrent_calls_do_not_mix(self, make: Callable[[], Generator]) -> None:
        generator, segments = make(), [*SEGMENTS, SEGMENTS[0]]

        async def work() -> list[Found]:
            return list(await asyncio.gather(*(collect(generator, [Ask(segment, 0, 16)]) for segment in segments)))

        whole = everything(make())
        for segment, found in zip(segments, asyncio.run(work()), strict=True):
            assert self.same(found, {(segment.id, index): whole[segment.id, index] for index in range(16)})

    def test_has_a_signature(self, make: Callable[..., Generator]) -> None:
        assert make().signature == make().signature != ""


class SamplingContract(Contract):
    """What a generator promises that samples anew, and from seeds."""

    def test_closing_is_harmless_at_any_time(self, make: Callable[[], Generator]) -> None:
        generator = make()
        generator.close(Segment("never seen"))
        before = draw(generator, [Ask(SEGMENTS[0], 0, 8)])
        generator.close(SEGMENTS[0])
        assert self.same(draw(generator, [Ask(SEGMENTS[0], 0, 8)]), before)

    def test_closing_aborts_what_is_under_way(self, make: Callable[[], Generator]) -> None:
        generator = make()

        async def count() -> int:
            return sum([len(one.candidates) async for one in generator.draw([Ask(SEGMENTS[0], 0, 100_000)])])

        async def work() -> int:
            counting = asyncio.create_task(count())
            await asyncio.sleep(0.1)
            generator.close(SEGMENTS[0])
            return await counting

        assert asyncio.run(work()) < 100_000
        assert len(draw(generator, [Ask(SEGMENTS[0], 0, 8)])) == 8

    def test_a_draw_that_is_left_is_not_continued(self, make: Callable[[], Generator]) -> None:
        generator = make()

        async def work() -> None:
            async def leave() -> None:
                async for _ in generator.draw([Ask(SEGMENTS[0], 0, 100_000)]):
                    return

            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(leave(), 0.1)

        asyncio.run(work())
        assert len(draw(generator, [Ask(SEGMENTS[1], 0, 8)])) == 8

    def test_candidates_differ_by_segment_and_seed(self, make: Callable[..., Generator]) -> None:
        twin = Segment("twin", SEGMENTS[1].source)
        found = draw(make(), [Ask(SEGMENTS[1], 0, 16), Ask(twin, 0, 16)])
        other = draw(make(seed=4), [Ask(SEGMENTS[1], 0, 16)])
        texts = [
            [pool[name, i].text for i in range(16)] for pool, name in ((found, "2"), (found, "twin"), (other, "2"))
        ]
        assert texts[0] != texts[1] and texts[0] != texts[2]

    def test_the_signature_has_the_seed(self, make: Callable[..., Generator]) -> None:
        assert make().signature != make(seed=4).signature

    def test_closing_a_segment_leaves_an_equal_one_of_another_run_alone(self, make: Callable[[], Generator]) -> None:
        generator, twin = make(), Segment(SEGMENTS[1].id, SEGMENTS[1].source)

        async def count(segment: Segment, stop: int) -> int:
            return sum([len(one.candidates) async for one in generator.draw([Ask(segment, 0, stop)])])

        async def work() -> tuple[int, int]:
            counting = asyncio.create_task(count(twin, 64)), asyncio.create_task(count(SEGMENTS[1], 100_000))
            await asyncio.sleep(0.05)
            generator.close(SEGMENTS[1])
            return await counting[0], await counting[1]

        kept, closed = asyncio.run(work())
        assert kept == 64 and closed < 100_000
