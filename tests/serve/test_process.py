"""``quitmt serve`` as a process: it starts, prints its address, drains on SIGTERM, and ends immediately on a second
signal."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("aiohttp")
from quitmt.serve.limits import Limits
from quitmt.serve.running import ServeSettings, listen, serve, started
from tests.serve.conftest import Model, functions

MODEL = """
import asyncio, pathlib

async def sample(source, start, stop):
    pathlib.Path("begun").touch()
    while "wait" in source and not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    return [source.upper()] * (stop - start)
"""
RECIPE = """
[model]
name = "slow_model:sample"
source_language = "en"
target_language = "pt"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slow_model.py").write_text(MODEL)
    (tmp_path / "my.toml").write_text(RECIPE)
    return tmp_path


@contextmanager
def process(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(folder)])}
    command = [sys.executable, "-m", "quitmt", "serve", "--port", "0", "--allow-functions", *words]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stderr is not None
        try:
            for line in running.stderr:
                if found := re.search(r"serving en-pt at (\S+)$", line):
                    yield running, found[1]
                    break
            else:
                raise AssertionError("it did not start")
        finally:
            running.kill()


def translate(url: str, text: str) -> str:
    ask = json.dumps({"q": text, "source": "en", "target": "pt"}).encode()
    request = urllib.request.Request(f"{url}/translate", ask, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.loads(answer.read())["translatedText"])


def until(found: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    while not found():
        time.sleep(0.01)


@pytest.mark.slow
def test_a_signal_lets_requests_finish(folder: Path) -> None:
    with process(folder, "--recipe", "my.toml", "--deadline", "0") as (running, url), ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(translate, url, "please wait")
        until((folder / "begun").exists)
        running.send_signal(signal.SIGTERM)
        assert running.stderr is not None
        assert "1 requests have 30 s to finish" in running.stderr.readline()
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(f"{url}/ready", timeout=60)
        refused.value.close()
        (folder / "go").touch()
        assert under_way.result() == "PLEASE WAIT"
        assert running.wait() == 0


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(folder: Path) -> None:
    with process(folder, "--recipe", "my.toml", "--deadline", "0") as (running, url), ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(translate, url, "please wait")
        until((folder / "begun").exists)
        running.send_signal(signal.SIGTERM)
        assert running.stderr is not None and "to finish" in running.stderr.readline()
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 143
        assert under_way.exception() is not None


def test_when_the_time_to_finish_is_over_requests_are_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
    settings = ServeSettings(("my.toml",), port=0, limits=Limits(deadline=None), drain=0, allow_functions=True)
    said = list[str]()

    async def work(listening: socket.socket, pool: ThreadPoolExecutor) -> tuple[int, BaseException | None]:
        serving = asyncio.Event()

        def say(line: str) -> None:
            said.append(line)
            if line.startswith("serving"):
                serving.set()

        server = asyncio.create_task(serve(settings, listening, say))
        server.add_done_callback(lambda _: serving.set())  # whatever it failed by is raised below
        await serving.wait()
        assert said[-1].startswith("serving"), await server
        under_way = pool.submit(translate, f"http://127.0.0.1:{listening.getsockname()[1]}", "please wait")
        await asyncio.to_thread(until, (folder / "begun").exists)
        os.kill(os.getpid(), signal.SIGINT)
        return await server, await asyncio.to_thread(under_way.exception)

    with closing(listen(settings)) as listening, ThreadPoolExecutor(1) as pool:
        code, error = asyncio.run(work(listening, pool))
    assert code == 0 and error is not None
    assert said[-2:] == ["1 requests didn't finish in time", "stopped"]


@pytest.mark.parametrize("rounds", range(5))
def test_a_client_that_comes_as_the_server_ends_leaves_no_socket(rounds: int) -> None:
    """Collects garbage, so that pytest reports unclosed resources here."""
    chosen = ServeSettings(port=0, quiet=True)

    async def work(listening: socket.socket) -> None:
        async with started(chosen, listening, lambda _: None, functions((Model(True), Model(False)))):
            clients.enter_context(socket.create_connection(listening.getsockname()))
            for _ in range(rounds):
                await asyncio.sleep(0)

    with closing(listen(chosen)) as listening, ExitStack() as clients:
        asyncio.run(work(listening))
    gc.collect()
