"""Segments that an earlier run had begun: what it drew is not drawn again, and nothing else changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quitmt import rerank, stop
from quitmt.engine.deadlines import Deadlines
from quitmt.engine.driver import Driver, in_order
from quitmt.generate.function import FunctionGenerator
from quitmt.types import Begun, Candidate, Finished, Segment, StopReason

WORDS = "o gato viu a casa velha na rua".split()


def text(source: str, index: int) -> str:
    rng = random.Random(f"{source} {index}")
    return " ".join(rng.choice(WORDS) for _ in range(4))


def run(spec: str, known: dict[str, int], segments: int, **options: object) -> tuple[list[Finished], dict[str, int]]:
    """What comes out, and the lowest index that was asked for of each segment."""
    requested: dict[str, int] = {}

    def sample(source: str, start: int, stop: int) -> list[str]:
        requested[source] = min(start, requested.get(source, start))
        return [text(source, index) for index in range(start, stop)]

    rule = stop.load(spec, k=4, w=2, n=30)
    reranker = rerank.load("mbr:chrf", variant=str(options.pop("variant", "exact")))
    driver = Driver(FunctionGenerator(sample), reranker, rule, **options)  # type: ignore[arg-type]

    def item(number: int) -> Segment | Begun:
        segment = Segment(str(number), f"source {number}")
        drawn = [Candidate(text(segment.source, index)) for index in range(known.get(segment.source, 0))]
        return Begun(segment, drawn) if drawn else segment

    async def work() -> list[Finished]:
        return [one async for one in in_order(driver.run([item(number) for number in range(segments)]))]

    return asyncio.run(work()), requested


def timeless(finished: Sequence[Finished]) -> list[object]:
    return [
        (o.translation, o.index, o.score, o.size, o.stop, o.trajectory, o.effort, [c.text for c in one.candidates])
        for one in finished
        for o in [one.outcome]
    ]


LOSS = "loss:minimum=8,most=0.05"
WAYS: list[dict[str, object]] = [{}, {"speculate": True}, {"deadlines": Deadlines(1e6)}, {"variant": "prune"}]


@cache
def undisturbed(spec: str, way: int) -> list[object]:
    found, _ = run(spec, {}, 3, **WAYS[way])
    return timeless(found)


@pytest.mark.parametrize(
    ("spec", "options"), [*product(["quit", "full", "fixed:10"], WAYS), *((LOSS, way) for way in WAYS[:3])]
)
@settings(max_examples=6)
@given(counts=st.lists(st.integers(0, 40), min_size=3, max_size=3))
def test_the_same_as_if_nothing_had_happened(spec: str, options: dict[str, object], counts: list[int]) -> None:
    known = {f"source {number}": count for number, count in enumerate(counts)}
    resumed, requested = run(spec, known, 3, **options)
    assert timeless(resumed) == undisturbed(spec, WAYS.index(options))
    for source, start in requested.items():
        assert start >= known[source] - known[source] % 4 and known[source] < 30


def test_what_is_in_flight_can_be_looked_at(make_pool: Callable[[int, int], list[str]]) -> None:
    """While a run goes on and after it was broken off: candidates without a gap, by position."""
    pool = make_pool(0, 64)
    seen: list[dict[int, list[str]]] = []

    async def sample(source: str, start: int, stop: int) -> list[str]:
        if source == "slow" and start > 0:
            seen.append({position: [c.text for c in drawn.candidates] for position, drawn in driver.drawn()})
            await asyncio.sleep(3600)
        return pool[start:stop]

    driver = Driver(FunctionGenerator(sample), rerank.load("mbr:chrf"), stop.load("quit", k=4, w=2, alpha=0.0, n=64))

    async def work() -> None:
        run = driver.run([Finished.without_candidates(Segment("0"), StopReason.STABLE, ""), Segment("1", "slow")])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                async for _ in run:
                    pass

    asyncio.run(work())
    [first] = seen
    assert first.keys() == {1} and first[1] == pool[: len(first[1])] and first[1]
    assert {position: [c.text for c in drawn.candidates] for position, drawn in driver.drawn()} == first
