"""How long a client waits, for whom, and what it says meanwhile; time is simulated."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from tests.servers.fake_openai import scripted_server
from tests.servers.scripts import HeldTime, SlowTime, Time, client, drop, garbage, post, status, until

from quitmt.errors import GenerationError
from quitmt.generate.remote.client import Client
from quitmt.generate.remote.limits import RetryPolicy

Answer = Callable[[web.Request], web.StreamResponse]
FAULTS: dict[str, Answer] = {
    "429": status(429),
    "429 with Retry-After": status(429, Retry_After="5"),
    "500": status(500),
    "503": status(503),
    "504": status(504),
    "drop": drop,
    "garbage": garbage,
}


def well(request: web.Request) -> web.StreamResponse:
    return web.json_response("well")


async def send(one: Client, body: bytes, sender: str) -> Any:
    return (await one.post("/x", body, lambda found: found, sender=sender)).value


def poisoned_run(fault: Answer, time: Time, poisoned: int, innocents: int, **settings: Any) -> tuple[list[Any], Client]:
    """Poisoned requests are alone until they fail, and only then the innocent ones come, as in a run whose window waits
    for its oldest segments. What each got, the poisoned ones first."""

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        return fault(request) if b"poison" in await request.read() else well(request)

    async def work() -> list[Any]:
        async with one.connected():
            await send(one, b"", "first")
            lost = [send(one, b"poison", f"p{index}") for index in range(poisoned)]
            found = await asyncio.gather(*lost, return_exceptions=True)
            others = [send(one, b"", f"i{index}") for index in range(innocents)]
            return found + await asyncio.gather(*others, return_exceptions=True)

    with scripted_server(answer) as server:
        one = client(server.base_url, time, **settings)
        one.probe = ("/x", b"harmless")
        return asyncio.run(work()), one


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("poisoned", [1, 12])
def test_poisoned_requests_fail_nobody_else(fault: str, poisoned: int) -> None:
    found, _ = poisoned_run(FAULTS[fault], Time(), poisoned, 50)
    assert [isinstance(one, GenerationError) for one in found[:poisoned]] == [True] * poisoned
    assert found[poisoned:] == ["well"] * 50


@pytest.mark.parametrize("fault", ["429", "504"])
def test_a_poisoned_request_does_not_narrow_the_way_for_the_others(fault: str) -> None:
    answered = itertools.count()

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        if b"poison" in await request.read():
            return FAULTS[fault](request)
        number = next(answered)
        await until(lambda: server.peak >= (16 if number < 16 else 32 if number < 48 else 64))  # it doubles each round
        return well(request)

    async def work() -> list[Any]:
        async with one.connected():
            bad = [asyncio.create_task(send(one, b"poison", "p")) for _ in range(8)]
            await asyncio.wait(bad)
            return await asyncio.gather(*(send(one, b"", f"i{index}") for index in range(200)))

    with scripted_server(answer) as server:
        one = client(server.base_url, concurrency=64)
        assert asyncio.run(work()) == ["well"] * 200
        assert server.peak == 64


def test_one_request_that_is_told_to_wait_again_and_again_waits_alone() -> None:
    time = HeldTime()

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        return status(429, Retry_After="50")(request) if b"poison" in await request.read() else well(request)

    async def work() -> None:
        async with one.connected(), asyncio.timeout(120):
            bad = asyncio.create_task(send(one, b"poison", "p"))
            await until(lambda: time.sleeping)
            time.advance(60)
            await until(lambda: len(server.requests) == 2 and time.sleeping)
            for index in range(30):
                assert await send(one, b"", f"i{index}") == "well", "while time stands still"
            bad.cancel()
            await asyncio.gather(bad, return_exceptions=True)

    with scripted_server(answer) as server:
        one = client(server.base_url, time)
        asyncio.run(work())


@pytest.mark.parametrize("fault", FAULTS)
def test_patience_is_the_same_for_every_failure(fault: str) -> None:
    time = Time()
    (error, *_), one = poisoned_run(FAULTS[fault], time, 1, 0, patience=200)
    assert isinstance(error, GenerationError) and 200 <= time.now - 1000 < 240
    assert one.tally["sent"] > 9, "in time, not in tries"


def test_patience_with_time_outs_is_the_same() -> None:
    time, stuck = Time(), False

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        if stuck:
            await asyncio.Event().wait()
        return well(request)

    with scripted_server(answer) as server:
        one = client(server.base_url, time, timeout=0.2, patience=20)
        assert post(one) == ["well"]
        stuck = True
        (error,) = post(one)
    assert isinstance(error, GenerationError)
    assert "within 0.2 seconds (" in str(error) and "times in 20 s" in str(error)


def test_90_seconds_of_429_fail_nobody() -> None:
    time = SlowTime()

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        return status(429)(request) if index and time.now < 1090 else well(request)

    with scripted_server(answer) as server:
        assert post(client(server.base_url, time), 188) == ["well"] * 188
    assert time.now >= 1090


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_does_nothing_for_anybody_is_given_up_for_all_at_once(fault: str) -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        return FAULTS[fault](request) if index else well(request)

    async def work() -> list[Any]:
        async with one.connected():
            await send(one, b"", "first")
            found = []
            for start in range(0, 100, 10):  # ten at a time
                ten = [send(one, b"", f"{start + index}") for index in range(10)]
                found += await asyncio.gather(*ten, return_exceptions=True)
            return found

    time = SlowTime()
    with scripted_server(answer) as server:
        one = client(server.base_url, time, policy=RetryPolicy(patience_seconds=100))
        one.probe = ("/x", b"harmless")
        assert all(isinstance(error, GenerationError) for error in asyncio.run(work()))
    assert time.now - 1000 < 400, "not a hundred seconds for each ten"


def test_no_patience_is_no_second_attempt() -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        return status(500)(request)

    with scripted_server(answer) as server:
        (error,) = post(client(server.base_url, patience=0))
        assert str(error).startswith(f"the server at {server.base_url} answers 500: no (once)")
        assert len(server.requests) == 1


def test_says_what_it_waits_for() -> None:
    said: list[str | None] = []

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        said.append(one.waiting)
        return status(429)(request) if index < 4 else well(request)

    time = Time()
    with scripted_server(answer) as server:
        one = client(server.base_url, time, policy=RetryPolicy(backoff_seconds=8, backoff_ceiling_seconds=8))
        assert one.waiting is None
        assert post(one) == ["well"]
        waits = f"the server at {server.base_url} answers 429: no; trying again for"
        assert said == [
            None,
            f"{waits} 292 s more",
            f"{waits} 284 s more",
            f"{waits} 276 s more",
            f"{waits} 268 s more",
        ]
        assert one.waiting is None


def test_says_that_the_server_is_gone() -> None:
    said: list[str | None] = []

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        if index:
            said.append(one.waiting)
        return drop(request) if 0 < index < 30 else well(request)

    async def work() -> None:
        async with one.connected():
            for count in (1, 10):
                await asyncio.gather(*(send(one, b"", f"{index}") for index in range(count)))

    with scripted_server(answer) as server:
        one = client(server.base_url, SlowTime(), patience=1000)
        asyncio.run(work())
    gone = f"cannot reach the server at {server.base_url}: the connection was dropped; trying again for 9"
    assert any((one or "").startswith(gone) for one in said)
    assert one.waiting is None
