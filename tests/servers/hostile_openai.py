"""A server that means harm, in a process of its own: what a request meets depends on its prompt, the hour and luck.

A prompt with ``poison KIND`` in it always meets that kind. Other requests meet one now and then, if the server is not
sound, and during a storm all of them get 429 without a word about when to come back. Answers are those of
``fake_openai``, so what comes through can be compared.

    with hostile_server() as server:
        server.base_url; server.storm(90); server.restart(down_seconds=5)
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
import urllib.request
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.servers.fake_openai import prompt_of, text_of

MEBIBYTES_OF_A_BOMB = 128
STALL_SECONDS = 600.0
SHARE = 0.01
"""Of requests without poison, for each kind that passes."""


def _bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    zeros = bytes(2**20)
    return b"".join([*(packer.compress(zeros) for _ in range(MEBIBYTES_OF_A_BOMB)), packer.flush()])


BOMB = _bomb() if __name__ == "__main__" else b""


async def drop(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def stall(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    await asyncio.sleep(STALL_SECONDS)
    return web.Response()


async def gateway(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text="<h1>Gateway Time-out</h1>", status=504)


async def busy(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response({"error": {"message": "slow down"}}, status=429)


async def endless(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    with suppress(ConnectionResetError):
        await response.prepare(request)
        while True:
            await response.write(bytes(2**16))
    return response


async def bomb(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    return web.Response(body=BOMB, headers=headers)


async def refuse(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    text = '{"error": {"message": "I will not say \\ud83d"}}'
    return web.Response(text=text, status=400, content_type="application/json")


async def halves(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return _completion(body, "\ud83d")


async def deep(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text="[" * 100_000, content_type="application/json")


Kind = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]
POISONS: dict[str, Kind] = {
    one.__name__: one for one in (drop, stall, gateway, busy, endless, bomb, refuse, deep)
}  # fmt: skip
PASSING: list[Kind] = [drop, gateway, busy, endless, bomb, halves, deep]
"""What requests without poison meet now and then. A stall would only add time."""


def _completion(body: dict[str, Any], end: str = "") -> web.StreamResponse:
    texts = [text_of(prompt_of(body), body["seed"] + index) + end for index in range(body["n"])]
    choices = [{"index": i, "finish_reason": "stop", "message": {"content": text}} for i, text in enumerate(texts)]
    return web.Response(text=json.dumps({"choices": choices}), content_type="application/json")


class _Hostile:
    def __init__(self, sound: bool) -> None:
        self._sound, self._storm_ends = sound, 0.0

    def app(self) -> web.Application:
        app = web.Application()
        app.add_routes([web.post("/v1/chat/completions", self.answer), web.post("/storm", self.storm)])
        return app

    async def storm(self, request: web.Request) -> web.StreamResponse:
        self._storm_ends = time.monotonic() + float(await request.text())
        return web.Response()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if self._sound:
            return _completion(body)
        prompt = prompt_of(body)
        for name, kind in POISONS.items():
            if f"poison {name}" in prompt:
                return await kind(request, body)
        if time.monotonic() < self._storm_ends:
            return await busy(request, body)
        luck = int(random.random() / SHARE)
        return await PASSING[luck](request, body) if luck < len(PASSING) else _completion(body)


class HostileServer:
    def __init__(self, *, sound: bool) -> None:
        self._command = [sys.executable, str(Path(__file__)), "sound" if sound else "hostile"]
        self._port = "0"
        self.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        self._process = subprocess.Popen([*self._command, self._port], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = self._process.stdout.readline().strip()
        assert self._port, "the server did not start"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def restart(self, *, down_seconds: float) -> None:
        self.kill()
        time.sleep(down_seconds)
        self.start()

    def storm(self, seconds: float) -> None:
        """429 for everybody."""
        url = self.base_url.removesuffix("/v1") + "/storm"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(urllib.request.Request(url, str(seconds).encode(), method="POST")).close()


@contextmanager
def hostile_server(*, sound: bool = False) -> Iterator[HostileServer]:
    server = HostileServer(sound=sound)
    try:
        yield server
    finally:
        server.kill()


async def _serve(app: web.Application, port: int) -> None:
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(_Hostile(sys.argv[1] == "sound").app(), int(sys.argv[2])))
