"""What every generator must do: one endless sequence a segment, whatever is asked for when and beside what."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from quitmt import generate
from quitmt.generate.function import FunctionGenerator
from quitmt.generate.recorded import RecordedGenerator, RecordedPool
from quitmt.protocols import Generator
from quitmt.sampling import Sampling
from quitmt.types import Ask, Candidate, Segment

SEGMENTS = [
    Segment("1", "The weather is nice today."),
    Segment("2", "She lost her keys on the way to the office, so she had to call her sister."),
    Segment("x", "No."),
]
SIZE = 48


def recorded() -> Generator:
    def text(segment: Segment, index: int) -> str:
        return f"{segment.source} {random.Random(f'{segment.id} {index}').randrange(9)}"

    return RecordedGenerator(RecordedPool(s, tuple(Candidate(text(s, i)) for i in range(SIZE))) for s in SEGMENTS)


def function() -> Generator:
    return FunctionGenerator(lambda source, start, stop: [f"{source} {i * i % 7}" for i in range(start, stop)])


GENERATORS: dict[str, Callable[[], Generator]] = {
    "recorded": recorded,
    "function": function,
    "embedded": lambda: generate.load("embedded:en-pt", Sampling(seed=3)),
    "embedded, cut off": lambda: generate.load("embedded:en-pt", Sampling(top_k=20, top_p=0.95, epsilon=0.001)),
}


@pytest.fixture(params=GENERATORS)
def make(request: pytest.FixtureRequest) -> Callable[[], Generator]:
    return GENERATORS[request.param]


def draw(generator: Generator, asks: list[Ask]) -> dict[tuple[str, int], Candidate]:
    """All candidates of some asks, by segment and index; none may come twice."""

    async def work() -> dict[tuple[str, int], Candidate]:
        found: dict[tuple[str, int], Candidate] = {}
        async for one in generator.draw(asks):
            assert one.error is None and one.seconds >= 0
            for index, candidate in enumerate(one.candidates, start=one.start):
                assert (one.segment.id, index) not in found
                found[one.segment.id, index] = candidate
        return found

    return asyncio.run(work())


def everything(generator: Generator) -> dict[tuple[str, int], Candidate]:
    return draw(generator, [Ask(segment, 0, SIZE) for segment in SEGMENTS])


def test_gives_exactly_what_was_asked_for(make: Callable[[], Generator]) -> None:
    asks = [Ask(SEGMENTS[0], 8, 24), Ask(SEGMENTS[1], 0, 1)]
    assert set(draw(make(), asks)) == {("1", index) for index in range(8, 24)} | {("2", 0)}


def test_pools_are_nested(make: Callable[[], Generator]) -> None:
    whole, generator, pieces = everything(make()), make(), {}
    for start, stop in ((0, 8), (8, 32), (32, SIZE)):
        pieces |= draw(generator, [Ask(segment, start, stop) for segment in SEGMENTS])
    assert pieces == whole


def test_any_part_can_be_asked_for_first(make: Callable[[], Generator]) -> None:
    whole, generator = everything(make()), make()
    late = draw(generator, [Ask(SEGMENTS[1], 40, SIZE)])
    early = draw(generator, [Ask(SEGMENTS[1], 0, 40)])
    assert late | early == {key: value for key, value in whole.items() if key[0] == "2"}


def test_the_other_segments_do_not_matter(make: Callable[[], Generator]) -> None:
    alone = {}
    for segment in SEGMENTS:
        alone |= draw(make(), [Ask(segment, 0, SIZE)])
    assert alone == everything(make())


def test_concurrent_calls_do_not_mix(make: Callable[[], Generator]) -> None:
    generator = make()

    async def texts(segment: Segment) -> list[str]:
        draws = [one async for one in generator.draw([Ask(segment, 0, 16)])]
        return [c.text for one in sorted(draws, key=lambda one: one.start) for c in one.candidates]

    async def work() -> list[list[str]]:
        return list(await asyncio.gather(*(texts(segment) for segment in SEGMENTS)))

    whole = everything(make())
    assert asyncio.run(work()) == [[whole[segment.id, i].text for i in range(16)] for segment in SEGMENTS]


def test_closing_is_harmless_at_any_time(make: Callable[[], Generator]) -> None:
    generator = make()
    generator.close(Segment("never seen"))
    before = draw(generator, [Ask(SEGMENTS[0], 0, 8)])
    if isinstance(generator, RecordedGenerator):
        return  # what is closed there is gone
    generator.close(SEGMENTS[0])
    assert draw(generator, [Ask(SEGMENTS[0], 0, 8)]) == before


def test_has_a_signature(make: Callable[[], Generator]) -> None:
    assert make().signature == make().signature != ""
