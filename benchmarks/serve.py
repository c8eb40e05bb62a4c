"""What the server costs, and what it does under load. One command, a table; every figure is of this run.

    python benchmarks/serve.py                      # all parts; some ten minutes on two cores
    python benchmarks/serve.py throughput latency   # some of them
    python benchmarks/serve.py overload --seconds 30

Parts: ``throughput`` (candidates a CPU second at 64 clients, against ``quitmt translate`` of the same lines),
``latency`` (at 1, 8 and 64 clients, beside the deadline), ``overload`` (three times what it can do), ``leaving`` (500
clients that go away midway). The server is a process of its own with the embedded models; clients send one sentence a
request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import aiohttp

PARTS = ("throughput", "latency", "overload", "leaving")
DEADLINE = 8.0
TICKS = os.sysconf("SC_CLK_TCK")


def sentences(count: int) -> list[str]:
    """Different sentences of a news-like length, made up here."""
    rng = random.Random(7)
    who = ["The mayor", "A young engineer", "My neighbour's daughter", "The old fisherman", "Nobody in the village"]
    did = ["explained", "denied", "remembered", "discovered after a long search", "told the reporters"]
    what = ["that the bridge would be closed", "how the money had been spent", "why the school needed a new roof"]
    when = ["until the end of the year.", "because of the heavy rain in March.", "although the council had objected."]
    found = dict[str, None]()
    while len(found) < count:
        parts = [rng.choice(each) for each in (who, did, what, when)]
        found[" ".join([*parts[:3], f"for the {rng.randrange(2, 99)} families", parts[3]])] = None
    return list(found)


@dataclass
class Answers:
    """What clients got."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """Of those that were translated."""
    refused_seconds: list[float] = field(default_factory=list)
    texts: dict[str, set[str]] = field(default_factory=dict)
    """Of a source, the translations that no deadline cut short."""
    stops: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    no_retry_after: int = 0

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


class Server:
    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid
        self.http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=120)
        )

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def megabytes(self) -> float:
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    async def metric(self, name: str) -> float:
        async with self.http.get(f"{self.url}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}[{{ ]", line))

    async def ask(self, text: str, answers: Answers, **options: Any) -> None:
        body = {"text": text, "source": "en", "target": "pt", **options}
        start = time.monotonic()
        try:
            async with self.http.post(f"{self.url}/api/translate", json=body) as answer:
                told = await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError):
            answers.lost += 1
            return
        taken = time.monotonic() - start
        answers.statuses[answer.status] += 1
        if answer.status != 200:
            answers.refused_seconds.append(taken)
            answers.no_retry_after += "Retry-After" not in answer.headers
            return
        answers.seconds.append(taken)
        found = told["translation"]
        stops = [sentence["stop"] for sentence in found["sentences"]]
        answers.stops.update(stops)
        if "deadline" not in stops:
            answers.texts.setdefault(text, set()).add(found["text"])


@asynccontextmanager
async def serving(*words: str) -> AsyncIterator[Server]:
    command = [sys.executable, "-m", "quitmt", "serve", "--port", "0", "--quiet", *words]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    address = ""
    while not address:
        line = (await process.stderr.readline()).decode()
        if not line:
            raise SystemExit("the server did not start")
        address = found[1] if (found := re.search(r" at (http\S+)", line)) else ""
    server = Server(address, process.pid)
    try:
        yield server
    finally:
        await server.http.close()
        process.send_signal(signal.SIGTERM)
        code = await process.wait()
        print(f"  the server ended with {code}")


async def clients(server: Server, count: int, texts: Sequence[str], **options: Any) -> Answers:
    """So many clients, each of which sends the next text when its last one is answered."""
    answers, left = Answers(), iter(texts)

    async def client() -> None:
        for text in left:
            await server.ask(text, answers, **options)

    await asyncio.gather(*(client() for _ in range(count)))
    return answers


def translated(lines: Sequence[str]) -> tuple[int, float]:
    """Candidates and CPU seconds of ``quitmt translate``, loading and all."""
    with tempfile.TemporaryDirectory() as folder:
        source, outcomes = Path(folder) / "source", Path(folder) / "outcomes.jsonl"
        source.write_text("\n".join(lines) + "\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "quitmt", "translate", str(source), "-q", "-o", os.devnull]
        subprocess.run([*command, "--jsonl", str(outcomes)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = [json.loads(line) for line in outcomes.read_text().splitlines()]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return sum(one["size"] + one.get("anchors", 0) for one in found), cpu


async def throughput(count: int) -> None:
    lines = sentences(count)
    few, few_cpu = translated(lines[:1])
    many, many_cpu = translated(lines)
    alone = (many - few) / (many_cpu - few_cpu)
    async with serving("--deadline", "0") as server:
        await clients(server, 4, lines[:4])
        before, cpu = await server.metric("quitmt_candidates_total"), server.cpu_seconds()
        start = time.monotonic()
        answers = await clients(server, 64, lines)
        wall = time.monotonic() - start
        done = await server.metric("quitmt_candidates_total") - before
        served = done / (server.cpu_seconds() - cpu)
    print(f"throughput: {count} sentences, 64 clients, no deadline; statuses {dict(answers.statuses)}")
    print(f"  translate {alone:.0f} candidates a CPU second, the server {served:.0f}: {served / alone:.2f} of it")
    print(f"  {count / wall:.2f} requests a second")


async def latency(count: int) -> None:
    print(f"latency: seconds, deadline {DEADLINE:g} s")
    async with serving("--deadline", str(DEADLINE)) as server:
        for number in (1, 8, 64):
            lines = sentences(max(number * 4, count // 4))
            answers = await clients(server, number, lines)
            shown = ", ".join(f"p{int(100 * q)} {answers.quantile(q):.2f}" for q in (0.5, 0.95, 0.99))
            late = max(answers.seconds, default=0.0) - DEADLINE
            print(f"  {number:>2} clients: {shown}, latest {late:+.2f} after the deadline; "
                  f"{dict(answers.statuses)}, {dict(answers.stops)}")  # fmt: skip


async def overload(seconds: float) -> None:
    async with serving("--deadline", str(DEADLINE)) as server:
        calm = await clients(server, 1, sentences(6))
        start, memory = time.monotonic(), 0.0
        at_capacity = await clients(server, 64, sentences(256))
        rate = len(at_capacity.seconds) / (time.monotonic() - start)
        memory = server.megabytes()
        texts, answers, tasks, peak = cycle(sentences(64)), Answers(), set[asyncio.Task[None]](), 0.0
        end, sent = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            tasks.add(asyncio.create_task(server.ask(next(texts), answers)))
            sent += 1
            peak = max(peak, server.megabytes()) if sent % 16 == 0 else peak
            await asyncio.sleep(1 / (3 * rate))
        await asyncio.gather(*tasks)
        after = await clients(server, 1, sentences(6))
    differing = sum(len(found) > 1 for found in answers.texts.values())
    print(f"overload: {sent} requests in {seconds:g} s, three times {rate:.2f} a second")
    print(f"  statuses {dict(answers.statuses)}, lost {answers.lost}, no Retry-After {answers.no_retry_after}")
    late = max(answers.seconds, default=0.0) - DEADLINE
    print(f"  translated: p50 {answers.quantile(0.5):.2f} p99 {answers.quantile(0.99):.2f} s, latest {late:+.2f} after")
    print(f"  the deadline; stops {dict(answers.stops)}")
    print(f"  refusals took {max(answers.refused_seconds, default=0):.2f} s at most")
    print(f"  texts with different translations where no deadline cut in: {differing} of {len(answers.texts)}")
    print(f"  memory {memory:.0f} MB at capacity, {peak:.0f} MB under overload: {peak / memory:.2f}")
    print(f"  one client before: p50 {calm.quantile(0.5):.2f} s, after: {after.quantile(0.5):.2f} s")


async def leaving(count: int) -> None:
    async with serving("--deadline", "0") as server:
        await clients(server, 4, sentences(4))
        await server.http.close()
        server.http = aiohttp.ClientSession()
        before, rng = server.descriptors(), random.Random(1)
        host, port = server.url.removeprefix("http://").split(":")

        async def client(text: str) -> None:
            await asyncio.sleep(rng.random() * 5)
            _, writer = await asyncio.open_connection(host, int(port))
            body = json.dumps({"text": text, "source": "en", "target": "pt", "stream": rng.random() < 0.5}).encode()
            head = f"POST /api/translate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
            await asyncio.sleep(rng.random())
            writer.close()

        await asyncio.gather(*(client(text) for text in sentences(count)))
        names = ("quitmt_requests_in_flight", "quitmt_active_segments", "quitmt_waiting_segments")
        for _ in range(100):
            left = [await server.metric(name) for name in names]
            if left == [1, 0, 0]:
                break
            await asyncio.sleep(0.1)
        descriptors = server.descriptors()
        check = await clients(server, 1, sentences(1))
    print(f"leaving: {count} clients went away midway")
    print(f"  left: requests {left[0] - 1:.0f} (besides the question), slots {left[1]:.0f}, waiting {left[2]:.0f}")
    print(f"  file descriptors {before} before, {descriptors} after; the next request: {dict(check.statuses)}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--count", type=int, default=192, help="sentences (192)")
    parser.add_argument("--seconds", type=float, default=120.0, help="of overload (120)")
    args = parser.parse_args()
    for part in args.parts:
        if part == "throughput":
            await throughput(args.count)
        elif part == "latency":
            await latency(args.count)
        elif part == "overload":
            await overload(args.seconds)
        elif part == "leaving":
            await leaving(500)
        else:
            raise SystemExit(f"there is no part {part!r}: {', '.join(PARTS)}")


if __name__ == "__main__":
    asyncio.run(main())
