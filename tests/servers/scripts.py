"""A client with simulated time, and servers that answer by a script."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from quitmt.generate.remote.client import Client
from quitmt.generate.remote.transport import Address

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
    """The same, but it moves only when all have done what they can: no request is under way, and who is left sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way = 0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._moving: asyncio.Task[None] | None = None

    async def sleep(self, seconds: float) -> None:
        sleeper = (self.now + seconds, asyncio.get_running_loop().create_future())
        self._sleepers.append(sleeper)
        if self._moving is None or self._moving.done():
            self._moving = asyncio.create_task(self._move())
        try:
            await sleeper[1]
        finally:
            self._sleepers.remove(sleeper)

    async def _move(self) -> None:
        while self._sleepers:
            rounds = 0
            while rounds < 50:
                await asyncio.sleep(0.001 if self.under_way else 0)
                rounds = 0 if self.under_way else rounds + 1
            self.now = min([end for end, _ in self._sleepers], default=self.now)
            for end, awake in self._sleepers:
                if end == self.now and not awake.done():
                    awake.set_result(None)


class _Watched(Client):
    """Lets the time know what is under way."""

    def __init__(self, time: Time, addresses: list[Address], **settings: Any) -> None:
        super().__init__(addresses, sleep=time.sleep, clock=lambda: time.now, jitter=lambda most: most, **settings)
        self._time = time

    async def _send(self, *words: Any) -> Any:
        if not isinstance(self._time, SlowTime):
            return await super()._send(*words)
        self._time.under_way += 1
        try:
            return await super()._send(*words)
        finally:
            self._time.under_way -= 1


def client(url: str | list[str], time: Time | None = None, **settings: Any) -> Client:
    time, urls = time or Time(), [url] if isinstance(url, str) else url
    return _Watched(time, [Address(one, KEY) for one in urls], **settings)


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
