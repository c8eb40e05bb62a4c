"""A client with simulated time, and servers that answer by a script."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from quitmt.generate.remote.address import Address
from quitmt.generate.remote.client import Client

KEY = "sk-very-secret"


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class SlowTime(Time):
    """The same, but there is time for others to do something while one sleeps."""

    async def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        for _ in range(50):
            await asyncio.sleep(0.001)
        self.now = max(self.now, end)


def client(url: str | list[str], time: Time | None = None, **settings: Any) -> Client:
    time, urls = time or Time(), [url] if isinstance(url, str) else url
    return Client(
        [Address(one, KEY) for one in urls],
        sleep=time.sleep,
        clock=lambda: time.now,
        jitter=lambda ceiling: ceiling,
        **settings,
    )


def post(client: Client, count: int = 1) -> list[Any]:
    """So many requests at once; their values, or the errors."""

    async def one(index: int) -> Any:
        return (await client.post("/x", str(index).encode(), lambda found: found)).value

    async def work() -> list[Any]:
        async with client.connected():
            return await asyncio.gather(*(one(index) for index in range(count)), return_exceptions=True)

    return asyncio.run(work())


def script(*answers: Callable[[web.Request], web.StreamResponse]) -> Callable[..., Awaitable[web.StreamResponse]]:
    """These answers first, then all is well."""

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        return answers[index](request) if index < len(answers) else web.json_response("well")

    return answer


def status(code: int, **headers: str) -> Callable[[web.Request], web.StreamResponse]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: web.json_response({"error": {"message": "no"}}, status=code, headers=named)


def drop(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def garbage(request: web.Request) -> web.StreamResponse:
    return web.Response(text='{"choices": [', content_type="application/json")


class HeldTime(Time):
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeping: list[tuple[float, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        own = (self.now + seconds, asyncio.Event())
        self.sleeping.append(own)
        try:
            await own[1].wait()
        finally:
            self.sleeping.remove(own)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for end, event in self.sleeping:
            if end <= self.now:
                event.set()


async def until(condition: Callable[[], Any]) -> None:
    """Wait for what a server in another thread does."""
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.005)
