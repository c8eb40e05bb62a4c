"""The client against servers that go wrong; time is simulated, so nothing here waits."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web
from tests.servers.fake_openai import scripted_server
from tests.servers.scripts import KEY, SlowTime, Time, client, drop, garbage, post, script, status, until

from quitmt.errors import GenerationError, MissingExtra, QuitmtError, UsageError
from quitmt.generate.remote.client import Client
from quitmt.generate.remote.failures import Refused, Reply
from quitmt.generate.remote.limits import RetryPolicy
from quitmt.generate.remote.transport import Address, Unusable


@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503, 504, 529])
def test_retries_what_may_pass(code: int) -> None:
    with scripted_server(script(status(code), status(code))) as server:
        one = client(server.base_url)
        assert post(one) == ["well"]
    assert one.tally == {"sent": 3, str(code): 2}


@pytest.mark.parametrize("fault", [drop, garbage])
def test_retries_what_was_lost_on_the_way(fault: Callable[[web.Request], web.StreamResponse]) -> None:
    with scripted_server(script(status(500), fault, fault)) as server:
        assert post(client(server.base_url)) == ["well"]
        assert len(server.requests) == 4


@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422, 307])
def test_does_not_retry_what_stays(code: int) -> None:
    with scripted_server(script(status(code, Location="/v1/x"))) as server:
        (error,) = post(client(server.base_url))
        assert isinstance(error, Refused) and error.status == code and error.message == "no"
        assert len(server.requests) == 1


def test_backs_off_exponentially_up_to_a_ceiling_and_gives_up() -> None:
    time = Time()
    with scripted_server(script(*[status(500)] * 99)) as server:
        policy = RetryPolicy(patience_seconds=15, backoff_seconds=1, backoff_ceiling_seconds=5)
        (error,) = post(client(server.base_url, time, policy=policy))
        assert len(server.requests) == 6
    assert time.slept == [1, 2, 4, 5, 3], "the last attempt is made when the patience ends"
    assert isinstance(error, GenerationError)
    assert str(error).startswith(f"the server at {server.base_url} answers 500: no (6 times in 15 s) (")


def test_jitter_is_full() -> None:
    time = Time()
    with scripted_server(script(*[status(500)] * 7)) as server:
        one = Client(Address(server.base_url), sleep=time.sleep, clock=lambda: time.now)
        assert post(one) == ["well"]
    ceilings = [0.5 * 2**attempt for attempt in range(7)]
    assert all(0 <= wait <= ceiling for wait, ceiling in zip(time.slept, ceilings, strict=True))
    assert len({wait / ceiling for wait, ceiling in zip(time.slept, ceilings, strict=True)}) == 7


@pytest.mark.parametrize("code", [429, 503, 500])
def test_honours_retry_after_in_seconds(code: int) -> None:
    time = Time()
    with scripted_server(script(status(code, Retry_After="7"))) as server:
        assert post(client(server.base_url, time)) == ["well"]
    assert time.now - 1000 >= 7


def test_honours_retry_after_as_a_date() -> None:
    time, date = Time(), format_datetime(datetime.now(UTC) + timedelta(seconds=250), usegmt=True)
    with scripted_server(script(status(429, Retry_After=date))) as server:
        assert post(client(server.base_url, time)) == ["well"]
    assert 150 < time.now - 1000 <= 251


def test_retry_after_holds_back_the_others_too() -> None:
    time, sent_at = SlowTime(), []

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        sent_at.append(time.now)
        return status(429, Retry_After="20")(request) if index == 0 else web.json_response("well")

    with scripted_server(answer) as server:
        assert post(client(server.base_url, time, concurrency=1), 4) == ["well"] * 4
    assert sent_at[0] == 1000 and min(sent_at[1:]) >= 1020


def test_does_not_wait_for_hours() -> None:
    time = Time()
    with scripted_server(script(status(429, Retry_After="7200"))) as server:
        (error,) = post(client(server.base_url, time))
    assert "asks to wait 7200 seconds" in str(error) and time.slept == []


def test_times_out_and_tries_again() -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30 if index == 1 else 0)
        return web.json_response("well")

    with scripted_server(answer) as server:
        one = client(server.base_url, timeout=0.3)
        assert post(one) + post(one) == ["well"] * 2
        assert one.tally["sent"] == 2 + one.tally["timeout"] >= 3


def test_a_reader_may_ask_for_another_answer() -> None:
    def read(found: Any) -> Any:
        if found == "bad":
            raise Unusable("is bad")
        return found

    async def work(client: Client) -> Reply[Any]:
        async with client.connected():
            return await client.post("/x", b"", read)

    with scripted_server(script(lambda _: web.json_response("bad"))) as server:
        reply = asyncio.run(work(client(server.base_url)))
    assert reply.value == "well" and reply.seconds >= 0


def test_a_web_page_is_not_an_answer() -> None:
    with scripted_server(script(lambda _: web.Response(text="<h1>hi</h1>", content_type="text/html"))) as server:
        (error,) = post(client(server.base_url))
    assert isinstance(error, Refused) and error.status == 200


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_server_that_is_not_there_is_known_soon() -> None:
    time, url = Time(), f"http://127.0.0.1:{free_port()}/v1"
    one = client(url, time)
    errors = post(one, 200)
    assert all(isinstance(error, GenerationError) for error in errors)
    hint = "is the server running, and is options['base_url'] right?"
    assert {str(error) for error in errors} == {f"cannot reach the server at {url}: Connection refused ({hint})"}
    assert one.tally["sent"] < 30, "most never needed to be sent"
    assert time.now - 1000 < 60


def test_a_name_that_does_not_exist() -> None:
    (error,) = post(client("http://no-such-host.invalid/v1"))
    assert isinstance(error, GenerationError) and "cannot reach the server at http://no-such-host.invalid/v1: " in str(
        error
    )


def test_https_where_there_is_only_http() -> None:
    with scripted_server(script()) as server:
        (error,) = post(client(server.base_url.replace("http:", "https:")))
    assert isinstance(error, GenerationError) and "cannot reach the server at https:" in str(error)


def test_a_server_that_goes_away_and_returns_fails_no_request() -> None:
    async def work(one: Client) -> list[Any]:
        async with one.connected():
            await one.post("/x", b"", lambda found: found)
            replies = [one.post("/x", b"", lambda found: found) for _ in range(40)]
            return [reply.value for reply in await asyncio.gather(*replies)]

    with scripted_server(script(lambda _: web.json_response("well"), *[drop] * 60)) as server:
        one = client(server.base_url, patience=1e6)
        assert asyncio.run(work(one)) == ["well"] * 40
    assert one.tally == {"sent": 101, "dropped": 60}


def test_a_server_that_stays_away_is_given_up_and_may_return() -> None:
    gone = True

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        return drop(request) if gone and index else web.json_response("well")

    async def work(one: Client) -> tuple[list[Any], Any]:
        nonlocal gone
        async with one.connected():
            await one.post("/x", b"", lambda found: found)
            many = [one.post("/x", b"", lambda found: found) for _ in range(100)]
            errors = await asyncio.gather(*many, return_exceptions=True)
            gone = False
            time.now += 100  # the next pause is over
            return errors, (await one.post("/x", b"", lambda found: found)).value

    with scripted_server(answer) as server:
        time = Time()
        one = client(server.base_url, time)
        errors, value = asyncio.run(work(one))
    assert all(isinstance(error, GenerationError) and "cannot reach" in str(error) for error in errors)
    assert one.tally["sent"] < 60 and value == "well"


def test_more_in_flight_as_long_as_all_is_well_but_never_more_than_allowed() -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        await until(lambda: server.peak > (16 if index >= 16 else 15))
        return web.json_response("well")

    with scripted_server(answer) as server:
        assert post(client(server.base_url, concurrency=40), 300) == ["well"] * 300
        assert 16 < server.peak <= 40


def test_what_is_too_much_for_the_server_is_sent_again() -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        if server.running > 4:
            return status(429)(request)
        await asyncio.sleep(0)
        return web.json_response("well")

    with scripted_server(answer) as server:
        assert post(client(server.base_url, patience=1e6), 100) == ["well"] * 100


def test_a_cancelled_request_gives_back_its_place() -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60 if index == 0 else 0)
        return web.json_response("well")

    async def work(one: Client) -> list[Any]:
        async with one.connected():
            tasks = [asyncio.create_task(one.post("/x", b"", lambda found: found)) for _ in range(6)]
            await until(lambda: server.requests)
            tasks[0].cancel()
            tasks[3].cancel()  # one that waits in the queue
            done = await asyncio.gather(*tasks, return_exceptions=True)
            return [type(one) if isinstance(one, BaseException) else one.value for one in done]

    with scripted_server(answer) as server:
        cancelled = asyncio.CancelledError
        found = asyncio.run(work(client(server.base_url, concurrency=1)))
        assert found == [cancelled, "well", "well", cancelled, "well", "well"]


def test_any_way_to_end_a_loop_is_a_clean_one() -> None:
    with scripted_server(script()) as server:
        one = client(server.base_url)

        async def work() -> Any:
            async with one.connected():
                return (await one.post("/x", b"", lambda found: found)).value

        for _ in range(2):
            loop = asyncio.new_event_loop()
            assert loop.run_until_complete(work()) == "well"
            loop.close()  # no tasks cancelled, no generators shut down: nothing may be left


def test_the_key_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    def echo(request: web.Request) -> web.StreamResponse:
        said = {"error": {"message": f"bad {request.headers['Authorization']}"}}
        return web.json_response(said, status=400)

    caplog.set_level(logging.DEBUG)
    with scripted_server(script(drop, status(500), garbage, echo)) as server:
        one = client(server.base_url)
        (error,) = post(one)
    assert server.headers[-1]["Authorization"] == f"Bearer {KEY}"
    shown = [str(error), repr(error), repr(one), repr(one.addresses), caplog.text]
    while error is not None:
        shown.append(repr(error))
        error = error.__cause__ or error.__context__
    assert not any(KEY in text for text in shown)
    assert "bad Bearer …" in shown[0] and "answers 500" in caplog.text


def test_uses_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_server(script()) as server:
        monkeypatch.setenv("http_proxy", server.base_url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "localhost")
        assert post(client("http://models.invalid/v1")) == ["well"]
        assert server.headers[0]["Host"] == "models.invalid"


WRONG = [
    "", "localhost:8000", "ftp://x/v1", "http://", "http://a b/v1", "http://x:port/v1",
    "http://a..b/v1", f"http://{'a' * 64}/v1", "http://x/v1\udcff", "http://x/v1\0",
]  # fmt: skip


@pytest.mark.parametrize("url", WRONG)
def test_refuses_what_is_not_an_address(url: str) -> None:
    with pytest.raises(UsageError, match="base_url") as caught:
        Address(url)
    str(caught.value).encode()


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hunter2@x/v1", "http://hunter2@x/v1", "http://me:hunter2@x:port/v1", "http://x/v1?key=hunter2",
        "http://a..b/v1?key=hunter2", "http://x/v1#hunter2", "http://me:hunter2@a..b/v1",
    ],
)  # fmt: skip
def test_refuses_secrets_in_addresses_without_showing_them(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Address(url)
    assert "hunter2" not in str(caught.value)


def test_refuses_broken_keys_without_showing_them() -> None:
    with pytest.raises(UsageError) as caught:
        Address("http://x/v1", "hunter2\nX: y")
    assert "hunter2" not in str(caught.value)


def test_settings_out_of_range() -> None:
    for settings in ({"concurrency": 0}, {"timeout": 0}, {"timeout": float("nan")}, {"patience": -1}):
        with pytest.raises(UsageError):
            Client(Address("http://x/v1"), **settings)


def test_says_how_to_get_aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingExtra, match=r"quitmt\[openai\]"):
        Client(Address("http://x/v1"))


def test_after_a_final_refusal_nothing_more_is_sent() -> None:
    with scripted_server(script()) as server:
        one = client(server.base_url)
        one.refusal = QuitmtError("no use")
        assert [str(error) for error in post(one, 3)] == ["no use"] * 3
        assert server.requests == []
