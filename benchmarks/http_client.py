"""CPU a request of our HTTP client, against that of the openai package, with the same number of requests in flight.

    python benchmarks/http_client.py [--requests 4000] [--in-flight 256] [--choices 8]

The server runs in a process of its own and gives each answer after a moment, so that all are in flight at once. What is
counted is the CPU of this process, which is the client's. Rounds alternate; the table gives the median.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import aiohttp
import openai
from tests.servers.fake_openai import Faults, fake_server_process

from quitmt.generate.openai import OpenAIGenerator
from quitmt.generate.remote.client import Client
from quitmt.generate.remote.transport import Address
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment

SOURCE = "She lost her keys on the way to the office, so she had to call her sister."
MESSAGES = [{"role": "user", "content": f"Translate from English into German:\n\n{SOURCE}"}]

Work = Callable[[int], Awaitable[None]]


async def spread(requests: int, in_flight: int, work: Work) -> None:
    """Each worker does one request after the other."""
    left = iter(range(requests))

    async def worker() -> None:
        for index in left:
            await work(index)

    await asyncio.gather(*(worker() for _ in range(in_flight)))


async def with_openai(url: str, requests: int, in_flight: int, choices: int) -> None:
    limits = {"max_retries": 0, "timeout": 120.0}
    async with openai.AsyncOpenAI(base_url=url, api_key="none", **limits) as client:  # type: ignore[arg-type]

        async def work(index: int) -> None:
            answer = await client.chat.completions.create(
                model="m", messages=MESSAGES, n=choices, seed=index * choices, temperature=1.2, top_p=1.0
            )  # type: ignore[call-overload]
            assert len([choice.message.content for choice in answer.choices]) == choices

        await spread(requests, in_flight, work)


async def with_our_client(url: str, requests: int, in_flight: int, choices: int) -> None:
    client = Client(Address(url), concurrency=in_flight)

    async def work(index: int) -> None:
        fields = {"model": "m", "messages": MESSAGES, "n": choices, "seed": index * choices, "temperature": 1.2}
        reply = await client.post("/chat/completions", json.dumps(fields).encode(), lambda found: found["choices"])
        assert len([choice["message"]["content"] for choice in reply.value]) == choices

    async with client.connected():
        await spread(requests, in_flight, work)


async def with_our_generator(url: str, requests: int, in_flight: int, choices: int) -> None:
    """All of it: prompt, choices put into place, texts cleaned, draws."""
    generator = OpenAIGenerator(
        "m", Sampling(), languages=("en", "de"), base_url=url, concurrency=in_flight, choices_per_call=choices
    )
    asks = [Request(Segment(str(index), SOURCE), 0, choices) for index in range(requests)]
    found = 0
    async for draw in generator.draw(asks):
        found += len(draw.candidates)
    assert found == requests * choices


async def with_plain_aiohttp(url: str, requests: int, in_flight: int, choices: int) -> None:
    """The floor: no retries, no limits."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def work(index: int) -> None:
            fields = {"model": "m", "messages": MESSAGES, "n": choices, "seed": index * choices, "temperature": 1.2}
            async with session.post(f"{url}/chat/completions", data=json.dumps(fields).encode()) as response:
                assert len(json.loads(await response.read())["choices"]) == choices

        await spread(requests, in_flight, work)


CLIENTS = {
    f"openai {openai.__version__}, `chat.completions.create`": with_openai,
    "quitmt, `Client.post`": with_our_client,
    "quitmt, `OpenAIGenerator.draw`": with_our_generator,
    f"aiohttp {aiohttp.__version__}, nothing around it": with_plain_aiohttp,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--choices", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    milliseconds: dict[str, list[float]] = {name: [] for name in CLIENTS}
    with fake_server_process(Faults(seconds=0.2, canned=True)) as url:
        for index in range(args.rounds + 1):
            for name, run in CLIENTS.items():
                requests = args.requests if index else args.in_flight  # the first round only warms up
                start = time.process_time()
                asyncio.run(run(url, requests, args.in_flight, args.choices))
                if index:
                    milliseconds[name].append(1000 * (time.process_time() - start) / requests)
    ours = statistics.median(milliseconds["quitmt, `OpenAIGenerator.draw`"])
    print(f"{args.in_flight} in flight, {args.choices} choices a request, {args.requests} requests a round\n")
    print("| client | CPU ms a request | range | of ours |\n|---|---|---|---|")
    for name, values in milliseconds.items():
        median = statistics.median(values)
        print(f"| {name} | {median:.3f} | {min(values):.3f}–{max(values):.3f} | {median / ours:.2f} |")


if __name__ == "__main__":
    main()
