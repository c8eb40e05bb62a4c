"""vLLM as a server, through the backend for OpenAI-compatible ones."""

from __future__ import annotations

import asyncio

import pytest

from quitmt.generate.openai import OpenAIGenerator
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Request, Segment
from vllm_server import served

pytestmark = pytest.mark.filterwarnings("ignore")
SEGMENTS = [Segment("1", "Good morning."), Segment("x", "No.")]
Found = dict[tuple[str, int], Candidate]


async def draw(generator: OpenAIGenerator, *requests: Request) -> Found:
    found: Found = {}
    async for one in generator.draw(requests):
        assert one.error is None
        found |= {(one.segment.id, index): c for index, c in enumerate(one.candidates, start=one.start)}
    return found


def test_a_real_server(smollm2: str) -> None:
    async def work() -> tuple[Found, Found]:
        async with served(smollm2) as url:
            generator = OpenAIGenerator(
                smollm2,
                Sampling(1.0, seed=2),
                languages=("en", "pt"),
                base_url=f"{url}/v1",
                max_tokens=8,
                logprobs=True,
            )
            await generator.check()
            whole = await draw(generator, *(Request(segment, 0, 16) for segment in SEGMENTS))
            pieces: Found = {}
            for start, stop in ((0, 5), (5, 16)):
                pieces |= await draw(generator, *(Request(segment, start, stop) for segment in SEGMENTS))
            return whole, pieces

    whole, pieces = asyncio.run(work())
    assert set(whole) == set(pieces) == {(segment.id, index) for segment in SEGMENTS for index in range(16)}
    assert sum(whole[key].text == pieces[key].text for key in whole) >= 0.9 * len(whole)  # ties round by the batch
    assert len({candidate.text for candidate in whole.values()}) > 16
    for candidate in whole.values():
        assert candidate.tokens is not None and 1 <= candidate.tokens <= 8
        assert candidate.log_probability is not None and candidate.log_probability < 0
