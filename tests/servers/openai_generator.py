"""Generators for the local OpenAI-shaped servers of the tests, and what they give."""

from __future__ import annotations

import asyncio
from typing import Any

from quitmt.errors import QuitmtError
from quitmt.generate.openai import OpenAIGenerator
from quitmt.generate.remote.client import Client
from quitmt.generate.remote.limits import RetryPolicy
from quitmt.sampling import Sampling
from quitmt.types import Draw, Request, Segment
from tests.contract.generators import SEGMENTS, Found
from tests.servers.fake_openai import Faults

ALL_FAULTS = Faults(
    drop=0.1, too_many=0.05, broken=0.05, stall=0.01, few=0.08, garbage=0.05, stall_seconds=9, retry_after="0"
)


def quick(*words: Any, **settings: Any) -> Client:
    """A client that does not wait long."""
    return Client(*words, policy=RetryPolicy(backoff_seconds=0.01, pause_seconds=0.01), **settings)


def generator(url: str | list[str], sampling: Sampling | None = None, **settings: Any) -> OpenAIGenerator:
    settings = {"languages": ("en", "pt"), "client": quick, "base_url": url} | settings
    return OpenAIGenerator("m", sampling or Sampling(seed=3), **settings)


def with_client(url: str | list[str], **settings: Any) -> tuple[OpenAIGenerator, Client]:
    made: list[Client] = []

    def make(*words: Any, **more: Any) -> Client:
        made.append(quick(*words, **more))
        return made[-1]

    return generator(url, client=make, **settings), made[-1]


def draws(generator: OpenAIGenerator, asks: list[Request]) -> list[Draw]:
    async def work() -> list[Draw]:
        return [one async for one in generator.draw(asks)]

    return asyncio.run(work())


def errors(generator: OpenAIGenerator, segment: Segment = SEGMENTS[0], size: int = 8) -> list[QuitmtError | None]:
    return [one.error for one in draws(generator, [Request(segment, 0, size)])]


def texts(found: Found) -> dict[tuple[str, int], str]:
    return {key: candidate.text for key, candidate in found.items()}
