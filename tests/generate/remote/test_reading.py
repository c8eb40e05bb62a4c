"""Bodies that nobody should read to the end, and what servers say in them."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib
from typing import Any

import pytest
from aiohttp import web
from tests.servers.fake_openai import Faults, fake_server, scripted_server
from tests.servers.openai_generator import draws, errors, generator, with_client
from tests.servers.scripts import client, post, script

from quitmt.errors import GenerationError
from quitmt.generate.prompts.template import made
from quitmt.generate.remote.client import Client
from quitmt.generate.remote.completions import Bodies, read_choices
from quitmt.generate.remote.failures import Refused
from quitmt.generate.remote.transport import Unusable
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment

LIMIT = 100_000
BOMB = gzip.compress(bytes(200_000_000), 1)


def limited(one: Client, limit: int = LIMIT) -> Any:
    async def work() -> Any:
        async with one.connected():
            try:
                return (await one.post("/x", b"", lambda found: found, limit=limit)).value
            except GenerationError as error:
                return error

    return asyncio.run(work())


async def endless(request: web.Request, status: int = 200, **headers: str) -> web.StreamResponse:
    response = web.StreamResponse(status=status, headers={"Content-Type": "application/json", **headers})
    await response.prepare(request)
    while True:
        await response.write(bytes(50_000))


async def packed(request: web.Request, content: bytes, coding: str = "gzip", status: int = 200) -> web.StreamResponse:
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    return web.Response(body=content, status=status, headers=headers)


def refused_as(answer: Any, patience: float = 0) -> str:
    async def said(index: int, request: web.Request) -> web.StreamResponse:
        return await answer(request)  # type: ignore[no-any-return]

    with scripted_server(said) as server:
        error = limited(client(server.base_url, patience=patience))
    assert isinstance(error, GenerationError)
    return str(error)


def test_an_endless_body_is_not_read_to_its_end() -> None:
    assert "is longer than the limit of 100,000 bytes" in refused_as(endless)


def test_a_bomb_is_not_unpacked() -> None:
    tracemalloc.start()
    try:
        assert "is longer than the limit of 100,000 bytes" in refused_as(lambda request: packed(request, BOMB[:90_000]))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_bomb_that_is_longer_than_the_limit_itself() -> None:
    assert len(BOMB) > LIMIT
    assert "is longer than the limit of 100,000 bytes" in refused_as(lambda request: packed(request, BOMB))


@pytest.mark.parametrize("status", [400, 500])
def test_an_endless_error_page_is_read_for_what_it_says(status: int) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        while True:
            await response.write(b"bad ")

    assert f"answers {status}: bad bad" in refused_as(answer)


def test_an_error_page_that_is_a_bomb_or_cannot_be_read_is_still_an_error_page() -> None:
    assert "answers 400" in refused_as(lambda request: packed(request, BOMB, status=400))
    assert "answers 400" in refused_as(lambda request: packed(request, b"x", "br", 400))


@pytest.mark.parametrize(
    ("content", "coding", "says"),
    [
        (gzip.compress(b'"well"', mtime=0)[:-9], "gzip", "breaks off"),
        (b"not gzip at all", "gzip", "cannot be decompressed"),
        (b"x", "br", "is compressed in a way that was not requested ('br')"),
    ],
)
def test_what_cannot_be_unpacked_is_a_failure(content: bytes, coding: str, says: str) -> None:
    assert says in refused_as(lambda request: packed(request, content, coding))


@pytest.mark.parametrize(
    ("content", "coding"),
    [
        (gzip.compress(b'"well"', mtime=0), "gzip"),
        (gzip.compress(b'"we', mtime=0) + gzip.compress(b'll"', mtime=0), "gzip"),
        (zlib.compress(b'"well"'), "deflate"),
        (b'"well"', "identity"),
        (gzip.compress(json.dumps("x" * (LIMIT - 2)).encode(), mtime=0), "GZIP"),
    ],
)
def test_packed_answers_are_read(content: bytes, coding: str) -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "gzip, deflate"
        return await packed(request, content, coding)

    with scripted_server(answer) as server:
        assert limited(client(server.base_url)) in ("well", "x" * (LIMIT - 2))


def test_after_a_body_that_was_too_long_the_next_one_is_read() -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        return await endless(request) if index < 3 else web.json_response("well")

    with scripted_server(answer) as server:
        assert limited(client(server.base_url)) == "well"


DEEP = "[" * 100_000


@pytest.mark.parametrize("text", [DEEP, DEEP + "]" * 100_000, '{"a":' * 100_000, "9" * 5000], ids=len)
def test_what_json_cannot_read_is_one_sentence(text: str) -> None:
    for status in (200, 400, 500):
        with scripted_server(script(lambda _, status=status: web.Response(text=text, status=status))) as server:
            (error,) = post(client(server.base_url, patience=0))
        assert isinstance(error, GenerationError) and len(str(error)) < 500


def test_deep_json_as_a_first_answer_is_one_sentence() -> None:
    deep = script(*[lambda _: web.Response(text=DEEP)] * 9)
    with scripted_server(deep) as server, pytest.raises(GenerationError, match="is nested too deeply"):
        asyncio.run(generator(server.base_url, patience=0).check())


@pytest.mark.parametrize("status", [400, 404, 413, 422, 500])
def test_what_a_server_says_can_be_written(status: int) -> None:
    text = '{"error": {"message": "bad \\ud83d model \\ude00"}}'
    with scripted_server(script(*[lambda _: web.Response(text=text, status=status)] * 9)) as server:
        (error,) = errors(generator(server.base_url, patience=0))
        (raw,) = post(client(server.base_url, patience=0))
    str(error).encode()
    assert "bad \ufffd model \ufffd" in str(raw)
    assert not isinstance(raw, Refused) or raw.message == "bad \ufffd model \ufffd"


# Choices


def choice(text: Any, **more: Any) -> dict[str, Any]:
    return {"text": text, "finish_reason": "stop", **more}


UNKNOWN = [float("nan"), float("-inf"), float("inf"), 10**400]


@pytest.mark.parametrize("value", UNKNOWN)
def test_a_log_probability_without_an_end_is_unknown(value: float) -> None:
    found: Any = {"choices": [choice("a", logprobs={"token_logprobs": [-0.5, value]})]}
    one = read_choices(found, "completions", 1)[0]
    assert (one.log_probability, one.tokens) == (None, 2)
    content = [{"logprob": -0.5}, {"logprob": value}]
    found = {"choices": [{"message": {"content": "a"}, "logprobs": {"content": content}}]}
    assert read_choices(found, "chat", 1)[0].log_probability is None


@pytest.mark.parametrize("content", [["x"], [None], [{"logprob": "x"}], 7])
def test_log_probabilities_of_another_shape_are_unknown(content: Any) -> None:
    found = {"choices": [{"message": {"content": "a"}, "logprobs": {"content": content}}]}
    assert read_choices(found, "chat", 1)[0].log_probability is None


def test_infinity_from_a_server_is_unknown() -> None:
    text = '{"choices": [{"message": {"content": "a"}, "logprobs": {"content": [{"logprob": -Infinity}]}}]}'
    with scripted_server(script(lambda _: web.Response(text=text))) as server:
        (found,) = draws(generator(server.base_url, logprobs=True), [Request(Segment("1", "a"), 0, 1)])
    assert found.candidates[0].log_probability is None and found.candidates[0].tokens == 1


def test_a_text_that_is_too_long_is_no_text() -> None:
    with pytest.raises(Unusable, match="a completion of 11 characters, more than the limit of 10"):
        read_choices({"choices": [choice("x" * 11)]}, "completions", 1, longest=10)


def bodies(max_tokens: int | None = None, logprobs: bool = False) -> Bodies:
    return Bodies("m", Sampling(), made(None, "m", ("en", "pt")), "chat", max_tokens, logprobs)


def test_limits_follow_what_was_asked_for() -> None:
    short, long = Segment("1", "Hi."), Segment("2", "x" * 100_000)
    assert bodies(10).longest_text(short) == 2**16 and bodies(10).longest_body(short, 8) == 9 * 2**16
    assert bodies(4000).longest_text(short) == 4000 * 64
    assert bodies().longest_text(short) == 2**20 and bodies().longest_text(long) == 200_000 * 64
    assert bodies(4000, True).longest_body(short, 8) == 2**16 + 8 * 4000 * (64 + 512)


def test_the_limits_are_those_of_the_request() -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        said = "x" * 70_000
        return web.json_response({"choices": [{"message": {"content": said}, "finish_reason": "stop"}]})

    with scripted_server(answer) as server:
        assert errors(generator(server.base_url), size=1) == [None]
        (error,) = errors(generator(server.base_url, max_tokens=9, patience=0), size=1)
        assert "a completion of 70,000 characters" in str(error)


@pytest.mark.parametrize("answers", [1, 99])
def test_half_a_surrogate_pair_is_asked_for_again_and_then_mended(answers: int) -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        said = "a\ud83d" if index < answers else "a\U0001f600"
        text = json.dumps({"choices": [{"message": {"content": said}}]})
        return web.Response(text=text, content_type="application/json")

    with scripted_server(answer) as server:
        (found,) = draws(generator(server.base_url), [Request(Segment("1", "a"), 0, 1)])
    assert found.candidates[0].text == ("a\U0001f600" if answers == 1 else "a\ufffd")


def test_the_probe_is_short_and_answered() -> None:
    with fake_server(Faults(unknown=("min_p",), context=300)) as server:
        _, client = with_client(server.base_url, max_tokens=100, logprobs=True)
        path, body = client.probe or ("", b"")
        assert path == "/chat/completions" and json.loads(body)["max_tokens"] == 8 and json.loads(body)["n"] == 1
        assert "choices" in post_body(client, path, body)


def post_body(one: Client, path: str, body: bytes) -> Any:
    async def work() -> Any:
        async with one.connected():
            return (await one.post(path, body, lambda found: found)).value

    return asyncio.run(work())
