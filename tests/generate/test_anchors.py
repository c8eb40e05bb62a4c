"""Anchors: what may be asked for, and a generator that begins with them; engines run the contract beside their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.contract.generators import SEGMENTS, anchors_of, drawn

from quitmt import generate
from quitmt.errors import GenerationError, UsageError
from quitmt.generate.anchors import Anchor, Anchored, parse
from quitmt.generate.function import FunctionGenerator
from quitmt.protocols import GeneratorTraits, traits_of
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Draw, Request, Segment

BASE = Sampling(0.9, top_k=7, min_p=0.1, seed=5)


class Parrot:
    """Says how it was asked. ``broken`` names the sampling that fails for a segment; a beam finds one less. Parrots
    that were resampled from one another are one ``family``."""

    traits = GeneratorTraits(sentence_level=True)

    def __init__(self, sampling: Sampling, broken: Sampling | None = None, family: list[Parrot] | None = None) -> None:
        self.sampling, self.broken, self.family = sampling, broken, [] if family is None else family
        self.family.append(self)
        self.signature = f"parrot|{sampling.signature}"
        self.requests: list[Request] = []
        self.closed: list[Segment] = []
        self.wasted_tokens = 1
        self.waiting: str | None = None
        self.warmed = False

    def resampled(self, sampling: Sampling) -> Parrot:
        return Parrot(sampling, self.broken, self.family)

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        self.requests += requests
        for request in requests:
            if self.sampling == self.broken and request.segment == SEGMENTS[0]:
                yield Draw(request.segment, request.start, (), error=GenerationError("no"))
                continue
            stop = min(request.stop, self.sampling.beam - 1) if self.sampling.beam else request.stop
            for index in reversed(range(request.start, stop)):  # one by one, the last first
                await asyncio.sleep(0)
                last = bool(self.sampling.beam) and index == request.start
                yield Draw(request.segment, index, (Candidate(f"{self.sampling.signature} {index}"),), 1.0, ended=last)

    def close(self, segment: Segment) -> None:
        self.closed.append(segment)

    async def warm(self) -> None:
        self.warmed = True


def anchored(words: str, **settings: Any) -> Anchored:
    return with_family(words, **settings)[0]


def with_family(words: str, **settings: Any) -> tuple[Anchored, list[Parrot]]:
    """The parrot that samples comes first, then those of the anchors."""
    parrot = Parrot(BASE, **settings)
    return Anchored(parrot, parse(words), BASE), parrot.family


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("none", []),
        ("greedy", [Anchor("greedy")]),
        ("beam:4", [Anchor("beam:4", 4, beam=4)]),
        ("4@0.3", [Anchor("4@0.3", 4, temperature=0.3)]),
        (" greedy , beam:16,1@1 ", [Anchor("greedy"), Anchor("beam:16", 16, beam=16), Anchor("1@1", temperature=1.0)]),
        ("beam:2,beam:4", [Anchor("beam:2", 2, beam=2), Anchor("beam:4", 4, beam=4)]),
    ],
)
def test_what_may_be_asked_for(text: str, found: list[Anchor]) -> None:
    assert list(parse(text)) == found


def test_what_may_not() -> None:
    for text in (
        "beam:0", "beam:-1", "beam:", "beam:x", "beam:1.5", "beam:99999", "beam", "4@0", "4@0.0", "4@x", "4@", "4@-1",
        "4@1e3", "0@0.5", "99999@0.5", "4@0.3.1", "4@.", "@0.5", "", " ", ",", "greedy,", "none,greedy", "greedy,none",
        "Greedy", "greedy beam:4", "given",
    ):  # fmt: skip
        with pytest.raises(UsageError, match=r"^anchors must be none, or some of greedy, beam:N, N@T") as caught:
            parse(text)
        assert "greedy,beam:4" in str(caught.value.hint)


@pytest.mark.parametrize("text", ["greedy,greedy", "beam:4,greedy,beam:4", "2@0.5,2@0.5", "2@0.5,4@0.50"])
def test_nothing_is_asked_for_twice(text: str) -> None:
    with pytest.raises(UsageError, match="names the same anchor twice"):
        parse(text)


def test_how_each_is_made() -> None:
    greedy, beam, low = (anchor.sampling(BASE) for anchor in parse("greedy,beam:4,2@0.3"))
    assert greedy == Sampling(0.0, seed=5)
    assert beam == Sampling(beam=4, seed=5)
    assert (low.temperature, low.top_k, low.min_p) == (0.3, 7, 0.1)
    assert low.seed != BASE.seed, "or they would be likenesses of the samples"


def test_they_come_with_the_first_samples_and_in_the_order_given() -> None:
    draws = drawn(anchored("2@0.3,greedy,beam:3"), [Request(SEGMENTS[0], 0, 3), Request(SEGMENTS[1], 2, 4)])
    found = anchors_of(draws)
    assert list(found) == [("1", place) for place in range(5)]
    assert [one.origin for one in found.values()] == ["2@0.3"] * 2 + ["greedy"] + ["beam:3"] * 2
    assert [one.text.split()[-1] for one in found.values()] == ["0", "1", "0", "0", "1"]
    (together,) = [one for one in draws if one.anchors is not None]
    assert (together.start, together.candidates, together.seconds, together.ended) == (0, (), 5.0, False)
    samples = {(one.segment.id, one.start): one.candidates[0].origin for one in draws if one.candidates}
    assert samples == dict.fromkeys([("1", 0), ("1", 1), ("1", 2), ("2", 2), ("2", 3)], "")


def test_anchors_are_asked_for_once() -> None:
    generator, (_, greedy, beam) = with_family("greedy,beam:3")
    for start in (0, 8, 16):
        drawn(generator, [Request(SEGMENTS[0], start, start + 8)])
    assert (greedy.requests, beam.requests) == ([Request(SEGMENTS[0], 0, 1)], [Request(SEGMENTS[0], 0, 3)])


def test_the_error_of_a_part_is_an_error_of_its_segment() -> None:
    generator = anchored("greedy,beam:3", broken=Sampling(beam=3, seed=5))
    draws = drawn(generator, [Request(SEGMENTS[0], 0, 2), Request(SEGMENTS[1], 0, 2)])
    assert [one.segment for one in draws if one.error] == [SEGMENTS[0]]
    assert {key[0] for key in anchors_of(draws)} == {SEGMENTS[1].id}
    assert sum(len(one.candidates) for one in draws if one.segment is SEGMENTS[1]) == 2


def test_what_a_part_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, (_, greedy) = with_family("greedy")

    async def fail(requests: Sequence[Request]) -> AsyncIterator[Draw]:
        raise ZeroDivisionError
        yield  # an async generator

    monkeypatch.setattr(greedy, "draw", fail)
    with pytest.raises(ZeroDivisionError):
        drawn(generator, [Request(SEGMENTS[0], 0, 2)])


def test_all_parts_are_closed_warmed_and_counted() -> None:
    generator, family = with_family("greedy,beam:3")
    generator.close(SEGMENTS[0])
    asyncio.run(generator.warm())
    assert [parrot.closed for parrot in family] == [[SEGMENTS[0]]] * 3
    assert all(parrot.warmed for parrot in family) and generator.wasted_tokens == 3
    assert generator.waiting is None
    family[1].waiting = "for the server"
    assert generator.waiting == "for the server"


def test_its_signature_and_traits() -> None:
    generator = anchored("greedy,beam:3")
    assert generator.signature == f"parrot|{BASE.signature}|a:greedy,beam:3"
    traits = traits_of(generator, GeneratorTraits)
    assert traits.anchored and traits.sentence_level


def test_a_function_makes_none() -> None:
    with pytest.raises(UsageError, match="function:own cannot make anchors"):
        Anchored(FunctionGenerator(lambda *_: [], name="own"), parse("greedy"), BASE)


def sample(source: str, start: int, stop: int) -> list[str]:
    return [source] * (stop - start)


parrot = Parrot(BASE)


@pytest.mark.parametrize("spec", ["openai:m", "vllm:m"])
def test_engines_without_beam_search_refuse_it(spec: str) -> None:
    generate.find(spec).check_anchors(parse("greedy,4@0.3"))
    with pytest.raises(UsageError, match=f"{spec[:-1]} has no beam search for .*beam:4") as caught:
        generate.find(spec).check_anchors(parse("greedy,beam:4"))
    assert "greedy" in str(caught.value.hint)
    with pytest.raises(UsageError, match="has no beam search"):
        generate.find(spec).check(Sampling(beam=4), ("en", "pt"), {}, installed=False)


@pytest.mark.parametrize("spec", ["embedded:en-pt", "bergamot:folder", "hf:m", "ct2:folder", f"{__name__}:parrot"])
def test_the_others_take_all(spec: str) -> None:
    generate.find(spec).check_anchors(parse("greedy,beam:4,2@0.3"))


def test_functions_of_one_s_own_refuse_them() -> None:
    generate.find(f"{__name__}:sample").check_anchors(parse("none"))
    with pytest.raises(UsageError, match="sample cannot make anchors"):
        generate.find(f"{__name__}:sample").check_anchors(parse("greedy"))
    with pytest.raises(UsageError, match="unknown model"):
        generate.find("nothing").check_anchors(parse("greedy"))
