"""The one contract of generators, as classes: a test class with a fixture ``make`` inherits its tests.

``make()`` gives a new generator of the same candidates; ``make(seed=…)`` one of others. A backend whose candidates are
the same only up to its engine's arithmetic says so by a method ``same`` of its own. Those that can be ``resampled``
have a fixture ``fresh`` too, a new generator of any sampling.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from quitmt.generate.anchors import Anchored, parse
from quitmt.protocols import Generator
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Draw, Request, Segment

SEGMENTS = [
    Segment("1", "The weather is nice today."),
    Segment("2", "She lost her keys on the way to the office, so she had to call her sister."),
    Segment("x", "No."),
]
SIZE = 48
FIRST = Request(SEGMENTS[0], 0, 1)
"""Answered first, so that whatever was asked for with it is under way by then."""
ENDLESS = 20_000

Found = dict[tuple[str, int], Candidate]


async def collect(generator: Generator, requests: list[Request]) -> Found:
    """All candidates of some asks, by segment and index; none may come twice."""
    found: Found = {}
    async for one in generator.draw(requests):
        assert one.error is None and one.seconds >= 0
        for index, candidate in enumerate(one.candidates, start=one.start):
            assert (one.segment.id, index) not in found
            found[one.segment.id, index] = candidate
    return found


def draw(generator: Generator, requests: list[Request]) -> Found:
    return asyncio.run(collect(generator, requests))


def error_of(generator: Generator, segment: Segment) -> Exception:
    async def work() -> list[Any]:
        return [one.error async for one in generator.draw([Request(segment, 0, 2)])]

    (error,) = asyncio.run(work())
    assert isinstance(error, Exception)
    return error


def everything(generator: Generator) -> Found:
    return draw(generator, [Request(segment, 0, SIZE) for segment in SEGMENTS])


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
    """What every generator guarantees."""

    def same(self, one: Found, other: Found) -> bool:
        return same(one, other)

    @pytest.fixture(scope="class")
    @classmethod
    def wholes(cls) -> dict[str, Found]:
        return {}

    @pytest.fixture
    def whole(self, make: Callable[[], Generator], wholes: dict[str, Found], request: pytest.FixtureRequest) -> Found:
        """All candidates of a new generator; drawn once per parameter of ``make``."""
        parameter = request.node.name.partition("[")[2]
        if parameter not in wholes:
            wholes[parameter] = everything(make())
        return wholes[parameter]

    def test_gives_exactly_what_was_asked_for(self, make: Callable[[], Generator]) -> None:
        requests = [Request(SEGMENTS[0], 8, 24), Request(SEGMENTS[1], 0, 1), Request(SEGMENTS[2], 3, 3)]
        assert set(draw(make(), requests)) == {("1", index) for index in range(8, 24)} | {("2", 0)}

    def test_pools_are_nested_in_whatever_pieces_and_order(self, make: Callable[[], Generator], whole: Found) -> None:
        generator, pieces = make(), Found()
        for start, stop in ((32, SIZE), (0, 8), (8, 32)):
            pieces |= draw(generator, [Request(segment, start, stop) for segment in SEGMENTS])
        assert self.same(pieces, whole)

    def test_the_other_segments_do_not_matter(self, make: Callable[[], Generator], whole: Found) -> None:
        alone: Found = {}
        for segment in SEGMENTS:
            alone |= draw(make(), [Request(segment, 0, SIZE)])
        assert self.same(alone, whole)

    def test_concurrent_calls_do_not_mix(self, make: Callable[[], Generator], whole: Found) -> None:
        generator, segments = make(), [*SEGMENTS, SEGMENTS[0]]

        async def work() -> list[Found]:
            return list(await asyncio.gather(*(collect(generator, [Request(segment, 0, 16)]) for segment in segments)))

        for segment, found in zip(segments, asyncio.run(work()), strict=True):
            assert self.same(found, {(segment.id, index): whole[segment.id, index] for index in range(16)})

    def test_equal_generators_have_equal_signatures(self, make: Callable[..., Generator]) -> None:
        assert make().signature == make().signature != ""


class SamplingContract(Contract):
    """What a generator guarantees that samples anew, and from seeds."""

    def test_closing_is_harmless_at_any_time(self, make: Callable[[], Generator]) -> None:
        generator = make()
        generator.close(Segment("never seen"))
        before = draw(generator, [Request(SEGMENTS[0], 0, 8)])
        generator.close(SEGMENTS[0])
        assert self.same(draw(generator, [Request(SEGMENTS[0], 0, 8)]), before)

    def test_closing_a_segment_aborts_its_draws_and_no_others(self, make: Callable[[], Generator]) -> None:
        generator, twin, counts = make(), Segment(SEGMENTS[1].id, SEGMENTS[1].source), Counter[int]()

        async def work() -> None:
            async for one in generator.draw([FIRST, Request(twin, 0, 64), Request(SEGMENTS[1], 0, ENDLESS)]):
                counts[id(one.segment)] += len(one.candidates)
                generator.close(SEGMENTS[1])

        asyncio.run(work())
        assert counts[id(twin)] == 64, "an equal segment, of another run"
        assert counts[id(SEGMENTS[1])] < ENDLESS
        assert len(draw(generator, [Request(SEGMENTS[1], 0, 8)])) == 8

    def test_a_draw_that_is_left_is_not_continued(self, make: Callable[[], Generator]) -> None:
        generator = make()

        async def leave() -> None:
            async for _ in generator.draw([FIRST, Request(SEGMENTS[1], 0, ENDLESS)]):
                return

        asyncio.run(leave())
        assert len(draw(generator, [Request(SEGMENTS[1], 0, 8)])) == 8

    def test_candidates_and_signatures_differ_by_seed(self, make: Callable[..., Generator]) -> None:
        generator, other = make(), make(seed=4)
        found, others = (draw(one, [Request(SEGMENTS[1], 0, 16)]) for one in (generator, other))
        assert any(found["2", i].text != others["2", i].text for i in range(16))
        assert generator.signature != other.signature

    def test_candidates_follow_the_source_and_the_seed_whatever_the_id(self, make: Callable[..., Generator]) -> None:
        source = SEGMENTS[1].source
        segments = [SEGMENTS[1], Segment("twin", source), Segment("own", source, seed=4), Segment("new", f"{source}.")]
        together = draw(make(), [Request(segment, 0, 16) for segment in segments])
        first, twin, own, new = ({("2", i): together[one.id, i] for i in range(16)} for one in segments)
        assert self.same(first, twin)
        assert self.same(own, draw(make(seed=4), [Request(SEGMENTS[1], 0, 16)])), "a segment's seed is like the run's"
        texts = {tuple(found["2", i].text for i in range(16)) for found in (first, own, new)}
        assert len(texts) == 3


Fresh = Callable[[Sampling], Any]
BASE = Sampling(1.0, seed=3)
REQUESTS = [Request(SEGMENTS[0], 0, 8), Request(SEGMENTS[1], 0, 16), Request(SEGMENTS[2], 0, 3)]


def drawn(generator: Generator, requests: list[Request]) -> list[Draw]:
    async def work() -> list[Draw]:
        return [one async for one in generator.draw(requests)]

    return asyncio.run(work())


def anchors_of(draws: list[Draw]) -> Found:
    """By segment and place; a segment has them in one draw at most."""
    having = [one for one in draws if one.anchors is not None]
    assert len({one.segment.id for one in having}) == len(having)
    return {(one.segment.id, place): found for one in having for place, found in enumerate(one.anchors or ())}


class AnchorContract:
    """What a generator guarantees that can be resampled: greedy, and the anchors that are made with it."""

    words = "greedy,2@0.5"

    def same(self, one: Found, other: Found) -> bool:
        return same(one, other)

    def anchored(self, fresh: Fresh) -> Anchored:
        return Anchored(fresh(BASE), parse(self.words), BASE)

    def test_greedy_is_the_same_resampled_and_new(self, fresh: Fresh) -> None:
        requests = [Request(segment, 0, 2) for segment in SEGMENTS]
        resampled, new = fresh(BASE).resampled(Sampling(0.0)), fresh(Sampling(0.0))
        assert resampled.signature == new.signature
        assert self.same(draw(resampled, requests), draw(new, requests))

    def test_what_is_resampled_leaves_the_first_as_it_was(self, fresh: Fresh) -> None:
        generator, requests = fresh(BASE), [Request(segment, 0, 8) for segment in SEGMENTS]
        others = [generator.resampled(Sampling(1.0, seed=4)), generator.resampled(Sampling(0.0))]

        async def work() -> list[Found]:
            return list(await asyncio.gather(*(collect(one, requests) for one in (generator, *others))))

        found = asyncio.run(work())
        alone = [fresh(one) for one in (BASE, Sampling(1.0, seed=4), Sampling(0.0))]
        assert all(self.same(one, draw(other, requests)) for one, other in zip(found, alone, strict=True))

    def test_anchors_come_once_for_each_segment_and_in_order(self, fresh: Fresh) -> None:
        generator = self.anchored(fresh)
        together = anchors_of(drawn(generator, REQUESTS))
        origins = [anchor.text for anchor in parse(self.words) for _ in range(anchor.count)]
        for segment in SEGMENTS:
            found = [together[segment.id, place] for place in range(len(origins))]
            assert [one.origin for one in found] == origins
        assert len(together) == len(origins) * len(SEGMENTS)
        alone: Found = {}
        for request in REQUESTS:
            alone |= anchors_of(drawn(self.anchored(fresh), [request]))
        assert self.same(alone, together), "whatever the batch"

    def test_samples_are_the_same_with_anchors(self, fresh: Fresh) -> None:
        assert self.same(draw(self.anchored(fresh), REQUESTS), draw(fresh(BASE), REQUESTS))

    def test_asks_that_begin_later_bring_no_anchors(self, fresh: Fresh) -> None:
        generator = self.anchored(fresh)
        assert not anchors_of(drawn(generator, [Request(SEGMENTS[0], 8, 16)]))
        both = drawn(generator, [Request(SEGMENTS[0], 16, 24), Request(SEGMENTS[1], 0, 4)])
        assert {key[0] for key in anchors_of(both)} == {SEGMENTS[1].id}

    def test_closing_one_segment_leaves_the_anchors_of_others(self, fresh: Fresh) -> None:
        generator, requests = self.anchored(fresh), [Request(SEGMENTS[1], 0, 4), Request(SEGMENTS[0], 0, ENDLESS)]

        async def work() -> list[Draw]:
            draws = list[Draw]()
            async for one in generator.draw(requests):
                draws.append(one)
                generator.close(SEGMENTS[0])
            return draws

        found = [one for one in asyncio.run(work()) if one.segment is SEGMENTS[1]]
        assert sum(len(one.candidates) for one in found) == 4
        assert self.same(anchors_of(found), anchors_of(drawn(self.anchored(fresh), [Request(SEGMENTS[1], 0, 4)])))


class BeamContract(AnchorContract):
    """What a generator guarantees that has beam search too."""

    words = "greedy,beam:3,2@0.5"

    def beams(self, fresh: Fresh, size: int = 4) -> tuple[Any, Found]:
        generator = fresh(Sampling(beam=size))
        return generator, draw(generator, [Request(segment, 0, size) for segment in SEGMENTS])

    def test_a_beam_has_so_many_hypotheses_and_ends(self, fresh: Fresh) -> None:
        generator, whole = self.beams(fresh)
        assert set(whole) == {(segment.id, index) for segment in SEGMENTS for index in range(4)}
        assert generator.signature.endswith("|beam:4")
        for start, stop, count, ended in ((0, 2, 2, False), (2, 8, 2, True), (4, 8, 0, True), (90, 99, 0, True)):
            draws = drawn(generator, [Request(SEGMENTS[0], start, stop)])
            assert sum(len(one.candidates) for one in draws) == count
            assert [one.ended for one in draws] == [False] * (len(draws) - 1) + [ended]
            for one in draws:
                expected = {("1", one.start + place): found for place, found in enumerate(one.candidates)}
                assert self.same(expected, {key: whole[key] for key in expected})

    def test_a_beam_of_one_is_greedy(self, fresh: Fresh) -> None:
        _, one = self.beams(fresh, 1)
        assert self.same(one, draw(fresh(Sampling(0.0)), [Request(segment, 0, 1) for segment in SEGMENTS]))

    def test_hypotheses_do_not_depend_on_company_and_way(self, fresh: Fresh) -> None:
        _, whole = self.beams(fresh)
        alone: Found = {}
        for segment in SEGMENTS:
            alone |= draw(fresh(BASE).resampled(Sampling(beam=4)), [Request(segment, 0, 4)])
        assert self.same(alone, whole)

    def test_an_endless_ask_of_a_beam_ends(self, fresh: Fresh) -> None:
        draws = drawn(fresh(Sampling(beam=2)), [Request(SEGMENTS[0], 0, ENDLESS)])
        assert sum(len(one.candidates) for one in draws) == 2 and draws[-1].ended
