"""A server that speaks OpenAI's API and goes wrong on purpose.

Deterministic where it matters: choice i of a request with seed s is ``text_of(prompt, s + i)``, whatever went wrong on
the way, so that a run through faults can be compared with one without. Which requests go wrong is drawn from a seed.

    with fake_server(Faults(drop=0.1)) as server:    # in a thread
        server.base_url, server.requests, server.peak

    python tests/servers/fake_openai.py '{"drop": 0.1}'    # in a process of its own: prints its address
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakSet

from aiohttp import web

WORDS = "o a um gato cão casa rua velha nova viu comeu dormiu perto longe de da do muito pouco hoje".split()


@dataclass(frozen=True)
class Faults:
    """Shares of requests are between 0 and 1 and do not overlap; the rest is always so."""

    drop: float = 0.0
    """Closes the connection without an answer."""
    too_many: float = 0.0
    """429, with ``retry_after``."""
    broken: float = 0.0
    """500."""
    stall: float = 0.0
    """Does not answer for ``stall_seconds``."""
    few: float = 0.0
    """Fewer choices than asked for."""
    garbage: float = 0.0
    """Half an answer as JSON, correct as HTTP."""
    seed: int = 0
    stall_seconds: float = 60.0
    retry_after: str | None = "0.01"
    seconds: float = 0.0
    """How long each answer takes."""
    canned: bool = False
    """Every text is the same, to be quick."""
    slots: int | None = None
    """More than this many at a time are answered with 503."""
    ignore_n: bool = False
    key: str | None = None
    model: str | None = None
    context: int | None = None
    """Longer prompts, in characters, are refused."""
    unknown: tuple[str, ...] = ()
    """Fields that are refused."""
    empty: str | None = None
    """Every text is empty, with this finish_reason."""
    shuffled: bool = False
    """Choices come in another order than that of their indices."""


@dataclass
class Server:
    base_url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    running: int = 0
    peak: int = 0
    cancelled: int = 0
    """Requests whose client went away before the answer."""
    dead: bool = False
    """Every connection is dropped, until it is set back: what was under way too."""
    refusal: tuple[int, str] | None = None
    """Status and message for every request, until it is set back."""


def text_of(prompt: str, seed: int) -> str:
    """One sample: mostly the words that belong to the prompt, as samples of one source resemble each other."""
    base = random.Random(prompt).choices(WORDS, k=8)
    rng = random.Random(f"{seed} {prompt}")
    return " ".join(rng.choice(WORDS) if rng.random() < 0.2 else word for word in base)


class _Service:
    def __init__(self, faults: Faults, server: Server) -> None:
        self._faults, self._server, self._rng = faults, server, random.Random(faults.seed)

    def app(self) -> web.Application:
        app = web.Application()
        app.add_routes([web.post(f"/v1/{path}", self.answer) for path in ("chat/completions", "completions")])
        return app

    async def answer(self, request: web.Request) -> web.StreamResponse:
        server, body = self._server, await request.json()
        server.requests.append(body)
        server.headers.append(dict(request.headers))
        server.running += 1
        server.peak = max(server.peak, server.running)
        try:
            return await self._answer(request, body)
        except asyncio.CancelledError:
            server.cancelled += 1
            raise
        finally:
            server.running -= 1

    async def _answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if (refusal := self._server.refusal or self._refusal(request, body)) is not None:
            status, message = refusal
            return web.json_response({"error": {"message": message, "code": status}}, status=status)
        fault = self._fault()
        await asyncio.sleep(self._faults.stall_seconds if fault == "stall" else self._faults.seconds)
        retry_after = {"Retry-After": self._faults.retry_after} if self._faults.retry_after else {}
        if fault == "drop" or self._server.dead:
            assert request.transport is not None
            request.transport.abort()
        if fault == "too_many":
            return web.json_response({"error": {"message": "slow down"}}, status=429, headers=retry_after)
        if fault == "broken":
            return web.Response(text="Internal Server Error", status=500)
        if self._faults.slots is not None and self._server.running > self._faults.slots:
            return web.json_response({"error": {"message": "busy"}}, status=503, headers=retry_after)
        text = json.dumps(self._completion(body, few=fault == "few"))
        text = text[: len(text) // 2] if fault == "garbage" else text
        return web.Response(text=text, content_type="application/json")

    def _refusal(self, request: web.Request, body: dict[str, Any]) -> tuple[int, str] | None:
        faults = self._faults
        if faults.key is not None and request.headers.get("Authorization") != f"Bearer {faults.key}":
            return 401, f"Incorrect API key provided: {request.headers.get('Authorization')}"
        if faults.model is not None and body["model"] != faults.model:
            return 404, f"The model `{body['model']}` does not exist."
        if wrong := [name for name in faults.unknown if name in body]:
            return 400, f"Unrecognized request argument supplied: {wrong[0]}"
        if faults.context is not None and len(prompt_of(body)) > faults.context:
            return 400, f"This model's maximum context length is {faults.context} tokens."
        return None

    def _fault(self) -> str | None:
        share = self._rng.random()
        for name in ("drop", "too_many", "broken", "stall", "few", "garbage"):
            share -= getattr(self._faults, name)
            if share < 0:
                self._server.faults[name] += 1
                return name
        return None

    def _completion(self, body: dict[str, Any], few: bool) -> dict[str, Any]:
        count = 1 if self._faults.ignore_n else body.get("n", 1)
        if self._faults.canned:
            texts = [" ".join(WORDS[:8])] * count
        else:
            texts = ["" if self._faults.empty else text_of(prompt_of(body), body["seed"] + i) for i in range(count)]
        choices = [self._choice(body, index, text) for index, text in enumerate(texts)]
        if few:
            choices = self._rng.sample(choices, self._rng.randrange(count))
        elif self._faults.shuffled:
            self._rng.shuffle(choices)
        tokens = sum(len(text.split()) for text in texts)
        return {"choices": choices, "usage": {"completion_tokens": tokens}, "model": body["model"]}

    def _choice(self, body: dict[str, Any], index: int, text: str) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index, "finish_reason": self._faults.empty or "stop"}
        values = [-0.5 * (i + 1) for i in range(len(text.split()))]
        if "messages" in body:
            choice["message"] = {"role": "assistant", "content": text}
            listed: Any = {"content": [{"token": "t", "logprob": value} for value in values]}
        else:
            choice["text"] = text
            listed = {"token_logprobs": values}
        return choice | ({"logprobs": listed} if body.get("logprobs") else {})


def prompt_of(body: dict[str, Any]) -> str:
    return body["prompt"] if "prompt" in body else json.dumps(body["messages"], ensure_ascii=False)


async def _run(
    app: web.Application, server: Server, ready: Callable[[], None], stop: asyncio.Event, port: int = 0
) -> None:
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    assert runner.server is not None
    transports = _transports(runner.server)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(runner.server, "127.0.0.1", port)
    server.base_url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    ready()
    await stop.wait()
    loop.remove_reader(listening.sockets[0])  # closed now, it would lose the sockets accepted a moment ago
    # Such a socket is a task until it is a connection, and a connection until it is closed.
    while asyncio.all_tasks() - {asyncio.current_task()} or runner.server.connections:
        for transport in transports:
            transport.abort()
        await asyncio.sleep(0)
    listening.close()
    await runner.cleanup()


def _transports(server: web.Server) -> WeakSet[asyncio.Transport]:
    """All transports of a server from now on, because it forgets those it closes before they have sent everything."""
    found, remember = WeakSet[asyncio.Transport](), server.connection_made

    def connection_made(handler: Any, transport: asyncio.Transport) -> None:
        found.add(transport)
        remember(handler, transport)

    server.connection_made = connection_made  # type: ignore[method-assign]
    return found


@contextmanager
def _in_thread(app: web.Application, server: Server, port: int = 0) -> Iterator[Server]:
    ready, stop = Future[Callable[[], object]](), asyncio.Event()

    async def work() -> None:
        loop = asyncio.get_running_loop()
        await _run(app, server, lambda: ready.set_result(lambda: loop.call_soon_threadsafe(stop.set)), stop, port)

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True, name="fake-openai")
    thread.start()
    end = ready.result(60)
    try:
        yield server
    finally:
        end()
        thread.join()


@contextmanager
def fake_server(faults: Faults | None = None, port: int = 0) -> Iterator[Server]:
    """Runs in a thread until the end of the block."""
    server = Server()
    with _in_thread(_Service(faults or Faults(), server).app(), server, port):
        yield server


@contextmanager
def scripted_server(answer: Callable[[int, web.Request], Awaitable[web.StreamResponse]]) -> Iterator[Server]:
    """Answers the i-th request, to any path, as it is told."""
    server = Server()

    async def handle(request: web.Request) -> web.StreamResponse:
        server.headers.append(dict(request.headers))
        server.requests.append({"path": request.path, "body": await request.read()})
        server.running += 1
        server.peak = max(server.peak, server.running)
        try:
            return await answer(len(server.requests) - 1, request)
        except asyncio.CancelledError:
            server.cancelled += 1
            raise
        finally:
            server.running -= 1

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    with _in_thread(app, server):
        yield server


@contextmanager
def fake_server_process(faults: Faults | None = None) -> Iterator[str]:
    """Runs in a process of its own, so that its CPU is not the client's; yields the address."""
    command = [sys.executable, str(Path(__file__)), json.dumps(asdict(faults or Faults()))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


if __name__ == "__main__":
    alone = Server()
    service = _Service(Faults(**json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}")), alone)
    asyncio.run(_run(service.app(), alone, lambda: print(alone.base_url, flush=True), asyncio.Event()))
