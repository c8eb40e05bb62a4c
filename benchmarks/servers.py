"""One server and two: requests a second, and who gets how many of them.

    python benchmarks/servers.py [--requests 200] [--seconds 0.2] [--concurrency 4]

The servers are fakes that answer after some seconds, each with at most ``--concurrency`` requests in flight, so that
the servers are the limit and not this machine. What could be reached: concurrency / seconds, summed over the servers.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers.fake_openai import Faults, fake_server

from quitmt.generate.openai import OpenAIGenerator
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0.2, help="until an answer")
    parser.add_argument("--concurrency", type=int, default=4, help="of each server")
    args = parser.parse_args()
    print("| servers | requests/s | could be | shares |\n|---|---:|---:|---|")
    for name, slowness in (("one", [1]), ("two", [1, 1]), ("two, one of them 4 times as slow", [1, 4])):
        delays = [args.seconds * factor for factor in slowness]
        rate, shares = measure(delays, args.requests, args.concurrency)
        most = sum(args.concurrency / delay for delay in delays)
        print(f"| {name} | {rate:.1f} | {most:.1f} | {' / '.join(f'{share:.0%}' for share in shares)} |", flush=True)


def measure(delays: list[float], requests: int, concurrency: int) -> tuple[float, list[float]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(fake_server(Faults(seconds=delay, canned=True))) for delay in delays]
        urls = [server.base_url for server in servers]
        generator = OpenAIGenerator(
            "m", Sampling(), languages=("en", "pt"), base_url=urls, concurrency=concurrency, choices_per_call=1
        )

        async def work() -> float:
            asks = [Request(Segment(str(number), "Good morning."), 0, 1) for number in range(requests)]
            start = time.perf_counter()
            async for draw in generator.draw(asks):
                assert draw.error is None
            return time.perf_counter() - start

        seconds = asyncio.run(work())
        counts = [len(server.requests) for server in servers]
    return requests / seconds, [count / sum(counts) for count in counts]


if __name__ == "__main__":
    main()
