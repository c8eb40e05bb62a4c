"""vLLM in this process, with a real model: nested pools, aborting, waste, and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from quitmt import generate, rerank, stop
from quitmt.engine.driver import Driver, in_order
from quitmt.errors import ModelError, UsageError
from quitmt.generate.vllm import VllmGenerator
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Request, Segment
from tests.vllm.conftest import ENGINE

pytestmark = pytest.mark.filterwarnings("ignore")
SEGMENTS = [Segment("1", "Good morning."), Segment("2", "The door is open."), Segment("x", "No.")]


@pytest.fixture(scope="module")
def generator(smollm2: str) -> Iterator[VllmGenerator]:
    made = VllmGenerator(
        smollm2, Sampling(1.0, seed=5), languages=("en", "pt"), max_tokens=12, dtype="float32", engine_args=ENGINE
    )
    yield made
    made.shutdown()


def draw(generator: VllmGenerator, requests: list[Request]) -> dict[tuple[str, int], Candidate]:
    async def work() -> dict[tuple[str, int], Candidate]:
        found = {}
        async for one in generator.draw(requests):
            assert one.error is None
            for index, candidate in enumerate(one.candidates, start=one.start):
                assert (one.segment.id, index) not in found
                found[one.segment.id, index] = candidate
        return found

    return asyncio.run(work())


def texts(found: dict[tuple[str, int], Candidate]) -> dict[tuple[str, int], str]:
    return {key: candidate.text for key, candidate in found.items()}


def test_pools_are_nested(generator: VllmGenerator) -> None:
    whole = draw(generator, [Request(segment, 0, 20) for segment in SEGMENTS])
    assert set(whole) == {(segment.id, index) for segment in SEGMENTS for index in range(20)}
    pieces = {}
    for start, end in ((0, 8), (8, 13), (13, 20)):
        pieces |= draw(generator, [Request(segment, start, end) for segment in SEGMENTS])
    same = sum(texts(pieces)[key] == text for key, text in texts(whole).items())
    assert same >= 0.9 * len(whole)  # another batch may round a tie differently


def test_no_two_requests_repeat_samples(generator: VllmGenerator) -> None:
    found = texts(draw(generator, [Request(SEGMENTS[1], 0, 48)]))
    first, second = [found["2", i] for i in range(24)], [found["2", i] for i in range(24, 48)]
    assert sum(a == b for a, b in zip(first, second, strict=True)) < 12
    assert len(set(found.values())) > 24


def test_log_probabilities_and_tokens(generator: VllmGenerator) -> None:
    for candidate in draw(generator, [Request(SEGMENTS[0], 0, 8)]).values():
        assert candidate.tokens is not None and 1 <= candidate.tokens <= 12
        assert candidate.log_probability is not None and candidate.log_probability < 0


def test_a_whole_run_wastes_nothing_and_speculation_says_what_it_wastes(generator: VllmGenerator) -> None:
    rule = stop.load("quit", k=8, w=2, alpha=1.0, n=64)  # stable at the end of the first window

    async def work(speculate: bool) -> tuple[list[int], int]:
        driver = Driver(generator, rerank.load("mbr:chrf"), rule, speculate=speculate)
        before = generator.wasted_tokens
        sizes = [one.outcome.size async for one in in_order(driver.run(SEGMENTS))]
        await asyncio.sleep(2)  # until aborted requests have said how far they were
        return sizes, driver.wasted.tokens - before

    assert asyncio.run(work(False)) == ([16, 16, 16], 0)
    assert asyncio.run(work(True))[0] == [16, 16, 16]


def test_closing_aborts_what_is_under_way(generator: VllmGenerator) -> None:
    async def work() -> list[str]:
        finished = []
        async for one in generator.draw([Request(SEGMENTS[1], 100, 164), Request(SEGMENTS[2], 100, 108)]):
            finished.append(one.segment.id)
            generator.close(SEGMENTS[1])
        return finished

    assert len(asyncio.run(work())) < 9
    assert id(SEGMENTS[1]) not in generator._running


def test_a_prompt_that_is_too_long_fails_its_own_segment(generator: VllmGenerator) -> None:
    async def work() -> list[tuple[str, str | None]]:
        requests = [Request(Segment("long", "word " * 600), 0, 100_000), Request(SEGMENTS[2], 0, 2)]
        return [(one.segment.id, str(one.error) if one.error else None) async for one in generator.draw(requests)]

    (long, found) = sorted(asyncio.run(work()))
    assert found == ("x", None)
    assert "more than the 512 the model takes (shorten it, or lower options['max_tokens'])" in str(long[1])


def test_bad_settings(smollm2: str, tmp_path: object) -> None:
    with pytest.raises(UsageError, match="vllm: cannot sample with epsilon"):
        generate.load(f"vllm:{smollm2}", Sampling(epsilon=0.02), languages=("en", "pt"))
    with pytest.raises(UsageError, match="must be told the languages"):
        generate.load(f"vllm:{smollm2}")
    with pytest.raises(ModelError, match="vLLM cannot load"):
        generate.load(f"vllm:{tmp_path}/nothing", languages=("en", "pt"))


def test_other_sampling_on_the_same_engine(generator: VllmGenerator) -> None:
    greedy = generator.resampled(Sampling(0.0))
    found = texts(draw(greedy, [Request(SEGMENTS[1], 0, 3)]))
    assert len(set(found.values())) == 1 and len(found) == 3
    assert greedy._engine is generator._engine
    assert "|t:0|seed:0|max:12|" in greedy.signature and "|t:1|seed:5|max:12|" in generator.signature
