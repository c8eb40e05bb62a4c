"""Does QUIT keep a vLLM server busy? Output tokens a second beside a plain client that sends everything at once.

    python benchmarks/vllm_server.py MODEL_FOLDER [--segments 64] [--rounds 2]

Needs an environment with vLLM (`make test-vllm` makes one, and the model in .cache/smollm2). Starts a server on this
machine, then takes turns, so that a noisy machine is noisy for all: a QUIT run, and a client that asks for exactly as
many candidates of every segment in one go, with more requests outstanding than the server can batch. Tokens are the
server's own count. Then windows at once, k at a time and speculative windows, for 1 and for 32 segments in flight.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from quitmt import rerank, stop
from quitmt.engine.driver import Driver, in_order
from quitmt.generate.openai import CHOICES_PER_CALL, OpenAIGenerator
from quitmt.protocols import StoppingRule
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment
from simulation.replay import StepAtATime

SUBJECTS = (
    "The teacher",
    "My neighbour",
    "A small dog",
    "The old captain",
    "Her sister",
    "Our team",
    "Nobody",
    "The cook",
)
ACTIONS = (
    "opened the window before dinner.", "walked along the river in the rain.", "lost the map of the city.",
    "painted the door green.", "forgot to call the doctor.", "found a letter under the bed.",
    "will travel to the coast tomorrow.", "has never seen the sea.",
)  # fmt: skip
MAX_TOKENS, SEQUENCES = 16, 64


class Bench:
    def __init__(self, url: str, model: str, segments: list[Segment]) -> None:
        self.url, self.model, self.segments = url, model, segments

    def generator(self) -> OpenAIGenerator:
        return OpenAIGenerator(
            self.model,
            Sampling(1.0),
            languages=("en", "pt"),
            base_url=f"{self.url}/v1",
            max_tokens=MAX_TOKENS,
            clean=False,
        )

    async def tokens(self) -> float:
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/metrics") as answer:
            found = re.findall(r"^vllm:generation_tokens_total\S* (\S+)", await answer.text(), re.MULTILINE)
        return sum(map(float, found))

    async def quit(
        self, segments: list[Segment], in_flight: int, *, k_at_a_time: bool = False, speculate: bool = False
    ):  # type: ignore[no-untyped-def]
        """Sizes, tokens and seconds of a run."""
        rule: StoppingRule = stop.load("quit", k=8, w=2, alpha=1e-3, n=32)
        rule = StepAtATime(rule) if k_at_a_time else rule
        generator = self.generator()
        driver = Driver(generator, rerank.load("mbr:chrf"), rule, in_flight=in_flight, speculate=speculate)
        before, start = await self.tokens(), time.perf_counter()
        outcomes = [one.outcome async for one in in_order(driver.run(segments))]
        seconds = time.perf_counter() - start
        assert not any(outcome.error for outcome in outcomes)
        sizes = [outcome.size for outcome in outcomes]
        await asyncio.sleep(2)  # for the server to count what it had begun
        print(
            f"  requests: {dict(generator.tally)}; candidates used: {sum(sizes)}; wasted: {driver.wasted}", flush=True
        )
        return sizes, await self.tokens() - before, seconds

    async def plain(self, sizes: list[int]) -> tuple[float, float]:
        """Tokens and seconds of a client that knows beforehand what it wants, and asks for all of it."""
        generator, outstanding = self.generator(), asyncio.Semaphore(4 * SEQUENCES // CHOICES_PER_CALL)
        requests = [
            Request(segment, start, min(start + CHOICES_PER_CALL, size))
            for segment, size in zip(self.segments, sizes, strict=True)
            for start in range(0, size, CHOICES_PER_CALL)
        ]
        bodies = [
            generator._bodies.body(request.segment, request.start, request.stop - request.start, {})
            for request in requests
        ]
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def post(body: object) -> None:
                options = {"json": body} if isinstance(body, dict) else {"data": body}
                headers = {"Content-Type": "application/json"}
                async with (
                    outstanding,
                    session.post(f"{self.url}/v1/chat/completions", headers=headers, **options) as answer,
                ):
                    answer.raise_for_status()
                    await answer.json()

            before, start = await self.tokens(), time.perf_counter()
            await asyncio.gather(*map(post, bodies))
            seconds = time.perf_counter() - start
        await asyncio.sleep(2)
        return await self.tokens() - before, seconds


@asynccontextmanager
async def served(model: str) -> AsyncIterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--host", "127.0.0.1"]
    command += ["--port", str(port), "--max-model-len", "512", "--max-num-seqs", str(SEQUENCES), "--dtype", "float32"]
    command += ["--enforce-eager", "--no-enable-chunked-prefill"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_WAIT_POLICY": "passive"}
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        async with aiohttp.ClientSession() as session:
            while True:
                assert process.returncode is None, "the server ended before it answered"
                try:
                    async with session.get(f"http://127.0.0.1:{port}/health"):
                        break
                except aiohttp.ClientError:
                    await asyncio.sleep(1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def measure(model: str, count: int, rounds: int) -> None:
    texts = [f"{subject} {action}" for action in ACTIONS for subject in SUBJECTS]
    segments = [Segment(str(index), texts[index % len(texts)]) for index in range(count)]
    async with served(model) as url:
        bench = Bench(url, model, segments)
        await bench.quit(segments[:4], 4)  # warm up
        totals = {"QUIT, 32 in flight": [0.0, 0.0], "plain, everything at once": [0.0, 0.0]}
        for _ in range(rounds):
            sizes, tokens, seconds = await bench.quit(segments, 32)
            add(totals["QUIT, 32 in flight"], tokens, seconds)
            add(totals["plain, everything at once"], *await bench.plain(sizes))
        table(totals, "plain, everything at once")
        for in_flight, some in ((1, segments[: max(2, count // 16)]), (32, segments)):
            totals = {}
            for _ in range(rounds):
                for name, options in SCHEDULES.items():
                    print(f"{name}, {in_flight} in flight:", flush=True)
                    _, tokens, seconds = await bench.quit(some, in_flight, **options)
                    add(totals.setdefault(name, [0.0, 0.0]), tokens, seconds)
            table(totals, "window at once", f", {in_flight} in flight")


SCHEDULES: dict[str, dict[str, bool]] = {
    "window at once": {},
    "k at a time": {"k_at_a_time": True},
    "speculative windows": {"speculate": True},
}


def add(total: list[float], tokens: float, seconds: float) -> None:
    total[0] += tokens
    total[1] += seconds


def table(totals: dict[str, list[float]], against: str, suffix: str = "") -> None:
    rate = {name: tokens / seconds for name, (tokens, seconds) in totals.items()}
    print(f"\n| client{suffix} | tokens | seconds | tokens a second | ratio |\n|---|---|---|---|---|")
    for name, (tokens, seconds) in totals.items():
        print(f"| {name} | {tokens:.0f} | {seconds:.1f} | {rate[name]:.0f} | {rate[name] / rate[against]:.2f} |")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--segments", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    asyncio.run(measure(args.model, args.segments, args.rounds))


if __name__ == "__main__":
    main()
