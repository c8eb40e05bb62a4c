"""A real server that silently ignores ``n``: ``transformers serve`` with a tiny chat model.

It seeds torch as a whole when a request arrives, and generates one after the other: a candidate is that of its seed as
long as one request is in flight, and of any seed otherwise. It samples only if the model's own settings say so.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.generators import SEGMENTS, draw, same
from tests.models import tiny

from quitmt import rerank, stop
from quitmt.engine.driver import Driver, in_order
from quitmt.generate.openai import OpenAIGenerator
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment, StopReason

pytest.importorskip("fastapi", reason="transformers serve needs fastapi")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a server, and the name of its model."""
    folder = tmp_path_factory.mktemp("causal") / "model"
    tiny.make_chat(folder)
    settings = folder / "generation_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "do_sample": True, "top_k": 0}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "transformers"), "serve", str(folder)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "passive"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not _answers(f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None, "transformers serve ended before it answered"
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1", str(folder)
        process.terminate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def generator(server: tuple[str, str], concurrency: int = 2) -> OpenAIGenerator:
    url, model = server
    return OpenAIGenerator(
        model,
        Sampling(1.0, seed=3),
        languages=("en", "pt"),
        base_url=url,
        max_tokens=4,
        clean=False,
        concurrency=concurrency,
    )


def test_every_candidate_arrives_although_n_is_ignored(server: tuple[str, str]) -> None:
    assert set(draw(generator(server), [Request(SEGMENTS[0], 3, 13)])) == {("1", index) for index in range(3, 13)}


def test_pools_are_nested_with_one_request_at_a_time(server: tuple[str, str]) -> None:
    whole, one = draw(generator(server, concurrency=1), [Request(SEGMENTS[0], 0, 9)]), generator(server, concurrency=1)
    pieces = draw(one, [Request(SEGMENTS[0], 4, 9)]) | draw(
        one, [Request(SEGMENTS[0], 0, 4), Request(SEGMENTS[1], 0, 2)]
    )
    assert same({key: found for key, found in pieces.items() if key[0] == "1"}, whole)


def test_a_run_over_segments(server: tuple[str, str]) -> None:
    async def work() -> list[tuple[int, StopReason]]:
        rule = stop.load("quit", k=2, w=2, n=8)
        driver = Driver(generator(server), rerank.load("mbr:chrf"), rule, in_flight=2)
        segments = [Segment("1", "No."), Segment("2", "The weather is nice today.")]
        return [(one.outcome.size, one.outcome.stop) async for one in in_order(driver.run(segments))]

    for size, stop_reason in asyncio.run(work()):
        assert 4 <= size <= 8 and stop_reason in (StopReason.STABLE, StopReason.BUDGET)
