"""Growing beams: one nested sequence, whatever is asked for first; made up, and with the embedded model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from quitmt import generate
from quitmt.errors import GenerationError, UsageError
from quitmt.generate.beams import GrowingBeams
from quitmt.generate.function import FunctionGenerator
from quitmt.plan import Recipe
from quitmt.plan.build import build_generator
from quitmt.plan.recipe import ModelRecipe
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Draw, Request, Segment

FOUND = {2: ["a", "b"], 4: ["b", "c", "a", "d"], 8: ["e", "a", "a", "f", "b", "g", "c", "h"], 16: list("abcdefgh")}
"""Beams are not nested, may find a text twice, and the last one finds too few."""
UNION = list("abcdefgh")


class Search:
    """Hypotheses by the size of the beam."""

    def __init__(self, log: list[tuple[str, int]], size: int = 0) -> None:
        self.log, self.size = log, size
        self.signature = f"made-up|beam:{size}"

    def resampled(self, sampling: Sampling) -> Search:
        assert sampling.beam is not None
        return Search(self.log, sampling.beam)

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        for request in requests:
            self.log.append((request.segment.id, self.size))
            await asyncio.sleep(0)
            if request.segment.id == "broken" and self.size == 4:
                yield Draw(request.segment, 0, (), error=GenerationError("no luck"))
            else:
                yield Draw(request.segment, 0, tuple(map(Candidate, FOUND[self.size])), 0.5)

    def close(self, segment: Segment) -> None:
        """Nothing is kept."""


def drawn(generator: Any, requests: list[Request]) -> list[Draw]:
    async def work() -> list[Draw]:
        return [one async for one in generator.draw(requests)]

    return asyncio.run(work())


def texts(draws: list[Draw]) -> list[str]:
    return [one.text for draw in sorted(draws, key=lambda draw: draw.start) for one in draw.candidates]


@pytest.mark.parametrize("cuts", [[], [1], [2], [3, 5], [1, 2, 3, 4, 5, 6, 7]])
def test_the_union_is_one_sequence_however_it_is_asked_for(cuts: list[int]) -> None:
    generator, segment = GrowingBeams(Search([]), 2), Segment("1", "x")
    found = [
        draw
        for start, stop in zip([0, *cuts], [*cuts, 8], strict=True)
        for draw in drawn(generator, [Request(segment, start, stop)])
    ]
    assert texts(found) == UNION and not any(draw.ended for draw in found)


def test_a_beam_is_searched_for_when_it_is_needed_and_once() -> None:
    log: list[tuple[str, int]] = []
    generator, segment = GrowingBeams(Search(log), 2), Segment("1", "x")
    drawn(generator, [Request(segment, 0, 2)])
    assert log == [("1", 2)]
    drawn(generator, [Request(segment, 2, 3), Request(segment, 3, 4)])  # two at once
    assert log == [("1", 2), ("1", 4)]
    [draw] = drawn(generator, [Request(segment, 4, 20)])
    assert log == [("1", 2), ("1", 4), ("1", 8), ("1", 16)]
    assert [one.text for one in draw.candidates] == UNION[4:] and draw.ended and draw.seconds == 1.0


def test_segments_have_unions_of_their_own_and_fail_alone() -> None:
    good, broken = Segment("good", "x"), Segment("broken", "x")
    found = {
        draw.segment.id: draw
        for draw in drawn(GrowingBeams(Search([]), 2), [Request(good, 0, 4), Request(broken, 0, 4)])
    }
    assert texts([found["good"]]) == UNION[:4]
    assert str(found["broken"].error) == "no luck"


def test_a_closed_segment_begins_anew() -> None:
    log: list[tuple[str, int]] = []
    generator, segment = GrowingBeams(Search(log), 2), Segment("1", "x")
    for _ in range(2):
        assert texts(drawn(generator, [Request(segment, 0, 2)])) == UNION[:2]
        generator.close(segment)
    assert log == [("1", 2)] * 2


def test_the_embedded_model_s_union_holds_each_beam() -> None:
    generator = build_generator(ModelRecipe(name="embedded:en-pt", beams=2))
    segment = Segment("1", "The weather is nice today.")
    found = texts(drawn(generator, [Request(segment, 0, 3)]) + drawn(generator, [Request(segment, 3, 6)]))
    assert len(set(found)) == 6
    for size in (2, 4):
        hypotheses = texts(drawn(generate.load("embedded:en-pt", Sampling(beam=size)), [Request(segment, 0, size)]))
        assert set(hypotheses) <= set(found)
        assert size > 2 or hypotheses == found[:2]
    assert generator.signature.endswith("|beam:2|doubled")


@pytest.mark.parametrize("first", [0, -1, 1025, 1.5, True])
def test_the_first_beam_has_a_size_that_makes_sense(first: Any) -> None:
    with pytest.raises(UsageError, match=f"beams must be a whole number from 1 to 1024, not {first}"):
        GrowingBeams(Search([]), first)


def test_what_has_no_beam_search_cannot_grow_beams() -> None:
    with pytest.raises(UsageError, match="function:own has no beam search"):
        GrowingBeams(FunctionGenerator(lambda *_: [], name="own"), 2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model.beams": 4, "model.temperature": 1.0}, "searches, and"),
        ({"model.beams": 4, "model.anchors": "greedy"}, "do not go together"),
    ],
)
def test_what_does_not_go_with_beams(changes: dict[str, Any], said: str) -> None:
    from quitmt.plan.check import check

    with pytest.raises(UsageError) as caught:
        check(Recipe().changed({"model.name": "embedded:en-pt", **changes}), installed=False)
    assert said in str(caught.value)
