"""Several servers for one model: the results are those of one, whichever of them answer, die and come back."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.conftest import Ran
from tests.contract.generators import SEGMENTS, SIZE, draw, everything
from tests.servers.fake_openai import Faults, Server, fake_server, scripted_server
from tests.servers.openai_generator import ALL_FAULTS, draws, generator, texts, with_client
from tests.servers.scripts import SlowTime, Time, client, drop, post, status, until

from quitmt.errors import GenerationError, ModelError, UsageError
from quitmt.generate.openai import OpenAIGenerator
from quitmt.generate.remote.limits import RetryPolicy, Sign
from quitmt.generate.remote.pacing import Gate, Pass
from quitmt.plan import files, resolve
from quitmt.plan.recipe import Recipe
from quitmt.types import Draw, Request, Segment

Quitmt = Callable[..., Ran]
MANY = [Segment(f"s{number}", f"The house number {number} is old.") for number in range(12)]


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    with ExitStack() as stack:
        yield [stack.enter_context(fake_server()) for _ in range(3)]


def urls(servers: list[Server]) -> list[str]:
    return [server.base_url for server in servers]


def sent(servers: list[Server]) -> list[int]:
    return [len(server.requests) for server in servers]


def nobody() -> str:
    """An address where nobody is."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}/v1"


def drawn(ours: OpenAIGenerator, segments: list[Segment] = MANY, size: int = 32) -> dict[tuple[str, int], str]:
    return texts(draw(ours, [Request(segment, 0, size) for segment in segments]))


# The same results, by all of them


def test_the_candidates_are_those_of_one_server(servers: list[Server]) -> None:
    alone = drawn(generator(servers[0].base_url))
    servers[0].requests.clear()
    assert drawn(generator(urls(servers))) == alone
    assert sum(sent(servers)) == 12 * 4 and min(sent(servers)) >= 12, "and the work is shared"


def test_they_go_wrong_in_their_own_ways(servers: list[Server]) -> None:
    whole = everything(generator(servers[0].base_url))
    with fake_server(ALL_FAULTS) as bad, fake_server(Faults(broken=0.3, few=0.3, seed=5)) as worse:
        ours = generator([bad.base_url, servers[1].base_url, worse.base_url], timeout=2)
        assert texts(everything(ours)) == texts(whole)


def test_the_signature_says_nothing_of_addresses() -> None:
    assert generator(["http://a/v1", "http://b/v1"]).signature == generator("http://c/v1").signature


def test_each_has_a_limit_of_its_own() -> None:
    with fake_server(Faults(seconds=0.02)) as one, fake_server(Faults(seconds=0.02)) as other:
        drawn(generator([one.base_url, other.base_url], concurrency=3))
        assert one.peak <= 3 and other.peak <= 3 and one.peak + other.peak > 3


def test_a_slow_one_gets_less() -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        await until(lambda: len(quick.requests) >= 60)
        choices = [{"message": {"content": "a"}} for _ in range((await request.json())["n"])]
        return web.json_response({"choices": choices})

    with fake_server() as quick, scripted_server(answer) as slow:
        drawn(generator([slow.base_url, quick.base_url], concurrency=4), size=64)
        assert 0 < len(slow.requests) < 96 / 2 < len(quick.requests)


def test_the_least_busy_is_next() -> None:
    async def enter(gate: Gate, **more: Any) -> Pass:
        entry = await gate.enter("s", **more)
        assert entry is not None
        return entry

    async def work() -> None:
        gate = Gate(8, RetryPolicy(senders=1, failures=2), asyncio.sleep, lambda: 1000.0, servers=3)
        first = [await enter(gate) for _ in range(6)]
        assert [entry.door for entry in first] == [0, 1, 2, 0, 1, 2]
        gate.leave(first[1], Sign.GOOD)
        assert (await enter(gate)).door == 1
        assert (await enter(gate, failed={0: 1, 1: 1})).door == 2, "it has not failed there"
        assert (await enter(gate, without=[1, 2])).door == 0
        gate.leave(first[0], Sign.UNREACHED)
        gate.leave(first[3], Sign.UNREACHED)
        assert gate.doors[0].circuit.is_open
        assert {(await enter(gate)).door for _ in range(9)} == {1, 2}, "what is gone is left out"

    asyncio.run(work())


# One that dies, and comes back


def test_one_that_was_never_there_is_left_out(servers: list[Server], caplog: pytest.LogCaptureFixture) -> None:
    missing, sound = nobody(), servers[0].base_url
    ours = generator([missing, sound])
    asyncio.run(ours.check())
    assert drawn(ours) == drawn(generator(sound))
    assert f"cannot reach the server at {missing}: Connection refused: not used until it is back" in caplog.text


async def _drawn(ours: OpenAIGenerator, segments: list[Segment]) -> list[Draw]:
    return [one async for one in ours.draw([Request(segment, 0, 32) for segment in segments])]


def test_one_dies_midway_and_comes_back(servers: list[Server], caplog: pytest.LogCaptureFixture) -> None:
    one, other, _ = servers
    ours, connection = with_client([one.base_url, other.base_url])

    async def work() -> list[Draw]:
        async with connection.connected():
            found = await _drawn(ours, MANY[:4])
            other.dead = True
            found += await _drawn(ours, MANY[4:8])
            await until(lambda: f"{other.base_url}: the connection was dropped: not used until" in caplog.text)
            before = len(other.requests)
            found += await _drawn(ours, MANY[8:10])
            asked = [body.get("max_tokens") for body in other.requests[before:]]
            assert set(asked) <= {8}, "only probes"
            other.dead = False
            await until(lambda: f"the server at {other.base_url} is back" in caplog.text)
            before = len(other.requests)
            found += await _drawn(ours, MANY[10:])
            assert len(other.requests) > before
            return found

    found = asyncio.run(work())
    assert not any(draw.error for draw in found)
    here = {(d.segment.id, d.start + i): c.text for d in found for i, c in enumerate(d.candidates)}
    assert here == drawn(generator(one.base_url))


def test_one_is_stopped_with_what_it_was_doing_and_started_again(servers: list[Server]) -> None:
    found = dict[tuple[str, int], str]()
    with ExitStack() as first:
        other = first.enter_context(fake_server(Faults(seconds=0.02)))
        port = int(other.base_url.removesuffix("/v1").rpartition(":")[2])
        ours, connection = with_client([servers[0].base_url, other.base_url], concurrency=4)

        async def draw(segments: list[Segment], *, stop: bool = False) -> None:
            async for one in ours.draw([Request(segment, 0, 32) for segment in segments]):
                assert one.error is None
                found.update({(one.segment.id, one.start + i): c.text for i, c in enumerate(one.candidates)})
                if stop and len(found) > 8:
                    await asyncio.to_thread(first.close)

        async def work() -> None:
            async with connection.connected():
                await draw(MANY[:8], stop=True)
                with fake_server(port=port) as again:
                    while not again.requests:  # as soon as it is found to be back, it gets its share
                        await draw(MANY[8:])

        asyncio.run(work())
    assert found == drawn(generator(servers[0].base_url))


def test_a_request_that_is_told_to_wait_goes_elsewhere() -> None:
    time = Time()

    async def busy(index: int, request: web.Request) -> web.StreamResponse:
        return status(429, Retry_After="30")(request)

    async def well(index: int, request: web.Request) -> web.StreamResponse:
        return web.json_response("well")

    with scripted_server(busy) as one, scripted_server(well) as other:
        assert post(client([one.base_url, other.base_url], time), 12) == ["well"] * 12
        assert not time.slept and one.requests


def test_what_fails_everywhere_backs_off_after_each_round() -> None:
    time = Time()

    async def bad(index: int, request: web.Request) -> web.StreamResponse:
        return status(500)(request)

    with scripted_server(bad) as one, scripted_server(bad) as other:
        (error,) = post(
            client([one.base_url, other.base_url], time, patience=15, policy=RetryPolicy(backoff_seconds=1))
        )
        assert isinstance(error, GenerationError) and "times in 15 s" in str(error)
        assert sent([one, other]) == [5, 5] or abs(len(one.requests) - len(other.requests)) <= 1
        assert time.slept == [1, 2, 4, 8]


# All of them


@pytest.mark.parametrize("count", [1, 3])
def test_the_patience_with_all_of_them_is_that_with_one(count: int) -> None:
    time, alive = SlowTime(), True

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        return web.json_response("well") if alive else drop(request)

    with ExitStack() as stack:
        found = [stack.enter_context(scripted_server(answer)) for _ in range(count)]
        ours = client(urls(found), time, patience=100)
        ours.probe = ("/x", b"harmless")
        assert post(ours, 12) == ["well"] * 12
        alive, begun = False, time.now
        errors = post(ours, 12)
    assert all(isinstance(error, GenerationError) for error in errors)
    assert 100 <= time.now - begun < 170
    if count > 1:
        told = "; ".join(f"cannot reach the server at {url}: the connection was dropped" for url in urls(found))
        assert str(errors[0]).startswith(f"no server is left: {told} (")


def test_addresses_that_are_all_wrong_are_given_up_soon() -> None:
    missing = [nobody(), nobody()]
    with pytest.raises(GenerationError, match="no server is left: cannot reach the server at") as caught:
        policy = RetryPolicy(first_patience_seconds=0.2, pause_seconds=0.05)
        made = generator(missing, client=lambda *words, **more: client(missing, SlowTime(), policy=policy))
        asyncio.run(made.check())
    assert all(url in str(caught.value) for url in missing)


def test_says_what_it_waits_for_only_if_none_answers(servers: list[Server]) -> None:
    said: list[str | None] = []
    time = SlowTime()

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        said.append(ours.waiting)
        return drop(request) if index < 12 else web.json_response("well")

    with scripted_server(answer) as one, scripted_server(answer) as other:
        ours = client(
            [one.base_url, other.base_url], time, patience=1000, policy=RetryPolicy(first_patience_seconds=900)
        )
        ours.probe = ("/x", b"harmless")
        assert post(ours, 3) == ["well"] * 3
    told = [text for text in said if text]
    assert told and all(url in text for text in told for url in (one.base_url, other.base_url))
    assert told[0].startswith("no server is left: cannot reach") and "trying again for" in told[0]
    assert ours.waiting is None


# Refusals


def test_one_that_refuses_is_named_before_the_run(servers: list[Server]) -> None:
    servers[1].refusal = (404, "The model `m` does not exist.")
    with pytest.raises(ModelError) as caught:
        asyncio.run(generator(urls(servers)).check())
    assert servers[1].base_url in str(caught.value) and servers[0].base_url not in str(caught.value)


def test_one_that_comes_to_refuse_is_named_and_left_out(
    servers: list[Server], caplog: pytest.LogCaptureFixture
) -> None:
    one, other, _ = servers
    ours, connection = with_client([one.base_url, other.base_url])

    async def work() -> None:
        async with connection.connected():
            await _drawn(ours, MANY[:2])
            other.refusal = (404, "The model `m` does not exist.")
            assert not any(draw.error for draw in await _drawn(ours, MANY[2:6]))
            other.refusal = None
            await until(lambda: f"the server at {other.base_url} is back" in caplog.text)
            before = len(other.requests)
            await _drawn(ours, MANY[6:])
            assert len(other.requests) > before

    asyncio.run(work())
    assert f"the server at {other.base_url} answers 404: The model `m` does not exist.: not used until" in caplog.text


def test_what_all_refuse_is_an_error_at_once(servers: list[Server]) -> None:
    for server in servers:
        server.refusal = (404, "The model `m` does not exist.")
    (found,) = draws(generator(urls(servers)), [Request(SEGMENTS[0], 0, 8)])
    asked = [body for server in servers for body in server.requests if body.get("max_tokens") != 8]
    assert isinstance(found.error, ModelError) and len(asked) <= 6, "without the probes"


def test_a_refused_segment_is_refused_once(servers: list[Server]) -> None:
    with fake_server(Faults(context=400)) as one, fake_server(Faults(context=400)) as other:
        ours = generator([one.base_url, other.base_url])
        found = draws(ours, [Request(Segment("long", "x" * 500), 0, 8), Request(SEGMENTS[0], 0, SIZE)])
    assert [draw.segment.id for draw in found if draw.error] == ["long"]


# How they are given


def test_recipes_have_lists_of_them(quitmt: Quitmt, tmp_path: Path) -> None:
    words = ("recipe", "--model", "openai:m", "--src", "en", "--tgt", "pt", "--base-url", "http://a/v1")
    assert 'base_url" = "http://a/v1"' in quitmt(*words).out
    printed = quitmt(*words, "--base-url", "http://b/v1").out
    assert '"base_url" = ["http://a/v1", "http://b/v1"]' in printed and "in_flight = 128" in printed
    (tmp_path / "two.toml").write_text(printed)
    two = files.load(str(tmp_path / "two.toml"))
    assert two.model.options["base_url"] == ["http://a/v1", "http://b/v1"]
    assert two == Recipe.from_fields(two.to_fields()) and hash(two)
    one = two.changed({"model.options.base_url": "http://a/v1", "run.in_flight": None})
    assert two.of_results() == one.of_results() and resolve(one).in_flight == 64


def test_each_address_is_checked() -> None:
    with pytest.raises(UsageError, match="'nowhere' is not"):
        generator(["http://a/v1", "nowhere"])


def test_the_command_line_takes_several(
    quitmt: Quitmt, servers: list[Server], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in").write_text("".join(f"{segment.source}\n" for segment in MANY))
    words = ("translate", tmp_path / "in", "--model", "openai:m", "--src", "en", "--tgt", "pt", "-n", 32, "-q")
    one = quitmt(*words, "--base-url", servers[0].base_url)
    before = sent(servers)
    three = quitmt(*words, *(word for url in urls(servers) for word in ("--base-url", url)))
    assert (one.code, three.code) == (0, 0) and one.out == three.out
    assert all(after > first for after, first in zip(sent(servers), before, strict=True))
    logging.getLogger("quitmt").setLevel(logging.NOTSET)
