"""The generator for OpenAI-shaped servers, against a local one that goes wrong on purpose."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web
from tests.contract.generators import SEGMENTS, SIZE, AnchorContract, Fresh, SamplingContract, collect, draw, everything
from tests.servers.fake_openai import Faults, Server, fake_server, scripted_server, text_of
from tests.servers.openai_generator import ALL_FAULTS, draws, errors, generator, texts
from tests.servers.scripts import until

from quitmt import rerank, stop
from quitmt.engine.driver import Driver
from quitmt.errors import GenerationError, UsageError
from quitmt.generate.openai import OpenAIGenerator
from quitmt.generate.remote.completions import read_choices
from quitmt.generate.remote.transport import Unusable
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment, StopReason


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with fake_server() as one:
        yield one


@pytest.fixture(scope="module")
def whole(server: Server) -> dict[tuple[str, int], str]:
    """The texts of all candidates, where nothing goes wrong."""
    return texts(everything(generator(server.base_url)))


# One endless sequence a segment, whatever the server does


SERVERS = {
    "sound": Faults(),
    "ignores n": Faults(ignore_n=True),
    "shuffles": Faults(shuffled=True),
    "goes wrong": dataclasses.replace(ALL_FAULTS, stall=0),
}


@pytest.fixture(params=SERVERS, scope="module")
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with fake_server(SERVERS[request.param]) as one:
        yield one.base_url


class TestContract(SamplingContract):
    @pytest.fixture
    def make(self, url: str) -> Callable[..., OpenAIGenerator]:
        return lambda seed=3: generator(url, Sampling(seed=seed))


class TestAnchors(AnchorContract):
    @pytest.fixture
    def fresh(self, url: str) -> Fresh:
        return lambda sampling: generator(url, sampling)


def test_every_server_gives_the_same(url: str, whole: dict[tuple[str, int], str]) -> None:
    assert texts(everything(generator(url))) == whole


def test_how_an_ask_is_cut_does_not_matter(server: Server, whole: dict[tuple[str, int], str]) -> None:
    for size in (1, 3, 100):
        assert texts(everything(generator(server.base_url, choices_per_call=size))) == whole


# What is asked


def requested(faults: Faults | None = None, size: int = 8, **settings: Any) -> list[dict[str, Any]]:
    with fake_server(faults) as one:
        draw(generator(one.base_url, **settings), [Request(SEGMENTS[0], 0, size)])
        return one.requests


def test_seeds_are_given_out_once() -> None:
    with fake_server() as one:
        everything(generator(one.base_url))
        given = [seed + i for request in one.requests for seed in [request["seed"]] for i in range(request["n"])]
    assert len(set(given)) == len(given) == SIZE * len(SEGMENTS)


def test_everything_that_shapes_the_distribution_is_said() -> None:
    (plain,) = requested()
    assert plain["temperature"] == 1.2 and plain["top_p"] == 1.0
    assert plain["top_k"] == -1 and plain["min_p"] == 0 and plain["repetition_penalty"] == 1
    (cut,) = requested(sampling=Sampling(temperature=0.7, top_k=20, top_p=0.9))
    assert (cut["temperature"], cut["top_k"], cut["top_p"], cut["min_p"]) == (0.7, 20, 0.9, 0)
    (least,) = requested(sampling=Sampling(temperature=0.7, min_p=0.05))
    assert (least["temperature"], least["min_p"], least["top_k"]) == (0.7, 0.05, -1)
    assert "max_tokens" not in cut and "logprobs" not in cut


def test_chat_and_completions() -> None:
    (chat,) = requested(max_tokens=99)
    assert SEGMENTS[0].source in chat["messages"][-1]["content"] and chat["max_tokens"] == 99
    (plain,) = requested(api="completions")
    assert SEGMENTS[0].source in plain["prompt"] and "messages" not in plain and plain["max_tokens"] == 256


def test_the_chat_template_is_told_what_the_prompt_says() -> None:
    (request,) = requested(prompt="qwen3")
    assert request["chat_template_kwargs"] == {"enable_thinking": False}
    assert "chat_template_kwargs" not in requested()[0]


def test_greedy_choices_are_asked_for_one_by_one() -> None:
    assert [request["n"] for request in requested(sampling=Sampling(temperature=0), size=3)] == [1, 1, 1]


def test_other_sampling_on_the_same_client(server: Server, whole: dict[tuple[str, int], str]) -> None:
    greedy = generator(server.base_url, Sampling(temperature=0))
    warm = greedy.resampled(Sampling(seed=3))
    assert warm.signature == generator(server.base_url).signature != greedy.signature
    assert texts(everything(warm)) == whole
    assert warm.tally is greedy.tally and warm.tally["sent"] < SIZE * 3, "several choices a request again"
    with pytest.raises(UsageError, match="epsilon"):
        warm.resampled(Sampling(epsilon=0.02))


def test_siblings_learn_from_one_another(caplog: pytest.LogCaptureFixture) -> None:
    with fake_server(Faults(unknown=("min_p",), ignore_n=True)) as one:
        ours = generator(one.base_url)
        warm = ours.resampled(Sampling(temperature=0.5))
        draw(ours, [Request(SEGMENTS[0], 0, 8)])
        sent = len(one.requests)
        draw(warm, [Request(SEGMENTS[0], 0, 8)])
        assert [("min_p" in request, request["n"]) for request in one.requests[sent:]] == [(False, 1)] * 8
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


def test_siblings_share_one_limit() -> None:
    with fake_server(Faults(seconds=0.05)) as one:
        ours = generator(one.base_url, concurrency=2)
        greedy = ours.resampled(Sampling(temperature=0))

        async def work() -> None:
            requests = [Request(segment, 0, 16) for segment in SEGMENTS]
            await asyncio.gather(collect(ours, requests), collect(greedy, requests))

        asyncio.run(work())
        assert one.peak == 2 and len(one.requests) == 6 + 48


def test_a_sibling_s_neutral_value_that_is_new_to_the_server_can_be_left_out() -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body.get("min_p") == 0:
            return web.json_response({"error": {"message": "min_p must be above 0"}}, status=400)
        return web.json_response({"choices": [{"message": {"content": "a"}} for _ in range(body["n"])]})

    with scripted_server(answer) as one:
        ours = generator(one.base_url, Sampling(min_p=0.1))
        assert len(draw(ours, [Request(SEGMENTS[0], 0, 2)])) == 2
        assert len(draw(ours.resampled(Sampling(temperature=0)), [Request(SEGMENTS[0], 0, 2)])) == 2


def test_a_server_that_ignores_n_is_found_out_once() -> None:
    with fake_server(Faults(ignore_n=True)) as one:
        ours = generator(one.base_url)
        draw(ours, [Request(SEGMENTS[0], 0, 16)])
        assert sorted(request["n"] for request in one.requests) == [1] * 14 + [8, 8]
        draw(ours, [Request(SEGMENTS[1], 0, 8)])
        assert [request["n"] for request in one.requests[16:]] == [1] * 8


def test_a_server_that_brought_too_few_once_is_not_asked_one_by_one() -> None:
    with fake_server(Faults(few=0.5)) as one:
        ours = generator(one.base_url)
        draw(ours, [Request(SEGMENTS[0], 0, 8)])
        draw(ours, [Request(SEGMENTS[1], 0, 64)])
        assert [request["n"] for request in one.requests].count(8) >= 9


@pytest.mark.parametrize(
    ("sampling", "message"),
    [(Sampling(epsilon=0.02), "epsilon"), (Sampling(beam=4), "OpenAI's API has no beam search")],
)
def test_what_the_api_does_not_have_is_refused(sampling: Sampling, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        generator("http://x/v1", sampling)
    with pytest.raises(UsageError, match=message):
        generator("http://x/v1").resampled(sampling)


def test_what_a_server_does_not_know_and_need_not_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with fake_server(Faults(unknown=("top_k", "min_p"))) as one:
        ours = generator(one.base_url)
        assert len(everything(ours)) == SIZE * 3
        sent = len(one.requests)
        draw(ours, [Request(SEGMENTS[0], SIZE, SIZE + 32)])
        assert ["min_p" in request for request in one.requests[sent:]] == [False] * 4
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "its own defaults for them apply" in caplog.text


@pytest.mark.parametrize(("name", "value"), [("top_k", 5), ("min_p", 0.1)])
def test_what_was_asked_for_is_never_left_out(name: str, value: float) -> None:
    with fake_server(Faults(unknown=(name,))) as one:
        (error,) = errors(generator(one.base_url, Sampling(**{name: value})))
        assert isinstance(error, UsageError)
        assert all(request[name] == value for request in one.requests)


def test_a_long_first_segment_does_not_change_how_the_others_are_sampled() -> None:
    with fake_server(Faults(context=400)) as one:
        ours = generator(one.base_url)
        (error,) = errors(ours, Segment("long", "word " * 200))
        assert isinstance(error, GenerationError)
        draw(ours, [Request(SEGMENTS[0], 0, 8)])
        assert one.requests[-1]["min_p"] == 0


# What is answered


def test_log_probabilities_and_tokens(server: Server) -> None:
    for api in ("chat", "completions"):
        found = draw(generator(server.base_url, api=api, logprobs=True), [Request(SEGMENTS[0], 0, 8)])
        assert {candidate.tokens for candidate in found.values()} == {8}
        assert {candidate.log_probability for candidate in found.values()} == {-18.0}
    alone = draw(generator(server.base_url, choices_per_call=1), [Request(SEGMENTS[0], 0, 2)])
    assert {(candidate.tokens, candidate.log_probability) for candidate in alone.values()} == {(8, None)}
    together = draw(generator(server.base_url), [Request(SEGMENTS[0], 0, 2)])
    assert {candidate.tokens for candidate in together.values()} == {None}, "the usage is that of all"


def test_answers_are_cleaned_unless_told_otherwise() -> None:
    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        said = {"content": '<think>\n\n</think>Translation: "Bom dia."'}
        return web.json_response({"choices": [{"message": said, "finish_reason": "stop"}]})

    with scripted_server(answer) as one:
        found = draw(generator(one.base_url), [Request(SEGMENTS[0], 0, 1)])
        assert found["1", 0].text == "Bom dia."
        found = draw(generator(one.base_url, clean=False), [Request(SEGMENTS[0], 0, 1)])
        assert found["1", 0].text.startswith("<think>")


def choice(text: Any, **more: Any) -> dict[str, Any]:
    return {"text": text, "finish_reason": "stop", **more}


def test_choices_stand_at_their_index() -> None:
    def places(*indices: Any, count: int = 3) -> dict[int, str]:
        listed = [choice(str(i), index=index) for i, index in enumerate(indices)]
        return {at: one.text for at, one in read_choices({"choices": listed}, "completions", count).items()}

    assert places(2, 0) == {2: "0", 0: "1"}
    assert places(0, 0, 0) == places(0, 1, 7) == places(None, True, 2) == {0: "0", 1: "1", 2: "2"}
    assert places(0, 1, 2, 3, 4) == {0: "0", 1: "1", 2: "2"}, "more than asked for"


@pytest.mark.parametrize(
    "found",
    [
        [], "x", None, {}, {"choices": None}, {"choices": []}, {"choices": ["x"]}, {"choices": [choice(7)]},
        {"choices": [choice("a\ud800")]},
    ],
)  # fmt: skip
def test_what_is_no_answer_is_asked_for_again(found: Any) -> None:
    with pytest.raises(Unusable):
        read_choices(found, "completions", 3)


def test_an_empty_text_counts_only_if_it_has_ended() -> None:
    for reason in ("stop", "length", "content_filter"):
        assert read_choices({"choices": [choice("", finish_reason=reason)]}, "completions", 1)[0].text == ""
    with pytest.raises(Unusable):
        read_choices({"choices": [choice("", finish_reason=None)]}, "completions", 1)


@pytest.mark.parametrize(("reason", "says"), [("stop", "only empty completions"), ("length", "max_tokens")])
def test_only_empty_completions(reason: str, says: str) -> None:
    with fake_server(Faults(empty=reason)) as one:
        failed = [error for error in errors(generator(one.base_url), size=24) if error]
    assert len(failed) == 1 and says in str(failed[0]) and "max_tokens" in str(failed[0])


# Cancelling


def cancelled(server: Server) -> int:
    """How many requests the server has seen cancelled, once it has noticed that nobody waits any more."""
    while server.running:
        time.sleep(0.01)
    return server.cancelled


def test_closing_a_segment_cancels_its_requests_and_no_others() -> None:
    async def work(one: OpenAIGenerator) -> list[str]:
        found = []
        async for each in one.draw([Request(SEGMENTS[0], 0, 16), Request(SEGMENTS[1], 0, 8)]):
            found.append(each.segment.id)
            one.close(SEGMENTS[0])
        return found

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        if SEGMENTS[0].source in await request.text():
            await asyncio.sleep(60)
        return web.json_response({"choices": [{"message": {"content": "a"}} for _ in range(8)]})

    with scripted_server(answer) as server:
        assert asyncio.run(work(generator(server.base_url))) == ["2"]
        assert cancelled(server) == 2


def test_cancelling_a_draw_cancels_its_requests() -> None:
    async def work(one: OpenAIGenerator) -> None:
        async def drain() -> None:
            async for _ in one.draw([Request(segment, 0, 8) for segment in SEGMENTS]):
                raise AssertionError("nothing can have come")

        task = asyncio.create_task(drain())
        await until(lambda: server.running == 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(asyncio.all_tasks()) == 1

    with fake_server(Faults(seconds=60)) as server:
        asyncio.run(work(generator(server.base_url)))
        assert cancelled(server) == 3


def test_an_endless_ask_is_sent_little_by_little() -> None:
    async def work(one: OpenAIGenerator) -> int:
        async for _ in one.draw([Request(SEGMENTS[0], 0, 1_000_000)]):
            return len(asyncio.all_tasks())
        return 0

    for faults in (Faults(), Faults(ignore_n=True)):
        with fake_server(faults) as server:
            assert 0 < asyncio.run(work(generator(server.base_url, concurrency=20))) < 40


def test_a_segment_that_fails_leaves_the_others_alone() -> None:
    long = Segment("long", "word " * 200)
    with fake_server(Faults(context=400)) as one:
        found = draws(
            generator(one.base_url), [Request(SEGMENTS[0], 0, 8), Request(long, 0, 64), Request(SEGMENTS[2], 0, 8)]
        )
    assert sorted((each.segment.id, len(each.candidates)) for each in found) == [("1", 8), ("long", 0), ("x", 8)]


def test_what_still_fails_when_patience_is_over_is_one_error() -> None:
    with fake_server(Faults(broken=1)) as one:
        (error,) = errors(generator(one.base_url, patience=0.2))
    assert isinstance(error, GenerationError) and "answers 500" in str(error) and " times in 0 s)" in str(error)


# Through the driver


def outcomes(faults: Faults, segments: list[Segment]) -> tuple[list[tuple[Any, ...]], Server]:
    """What must not depend on what went wrong on the way."""
    with fake_server(faults) as server:
        ours = generator(server.base_url, timeout=0.5)
        driver = Driver(ours, rerank.load("mbr:chrf"), stop.load("quit", n=64, w=2), in_flight=16)

        async def work() -> list[Any]:
            return sorted([item async for item in driver.run(segments)], key=lambda item: item[0])

        finished = [one for _, one in asyncio.run(work())]
    pairs = [(one.outcome, [candidate.text for candidate in one.candidates]) for one in finished]
    return [(o.id, o.translation, o.index, o.score, o.size, o.stop, o.trajectory, pool) for o, pool in pairs], server


def test_a_run_through_faults_ends_as_one_without() -> None:
    segments = [Segment(str(index), f"Sentence number {index}.") for index in range(60)]
    sound, _ = outcomes(Faults(), segments)
    faulty, server = outcomes(ALL_FAULTS, segments)
    assert all(server.faults[kind] for kind in ("drop", "too_many", "broken", "stall", "few", "garbage"))
    assert len(faulty) == 60 and StopReason.FAILED not in {one[5] for one in faulty}
    assert faulty == sound


@pytest.mark.parametrize("poisoned", [7])
def test_poisoned_segments_that_hold_up_the_run_fail_alone(poisoned: int) -> None:
    """The run may not get far ahead of them, so for a while nothing else is sent."""

    async def answer(index: int, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if "poison" in str(body["messages"]):
            assert request.transport is not None
            request.transport.abort()
        choices = [{"message": {"content": text_of("", body["seed"] + i)}} for i in range(body["n"])]
        return web.json_response({"choices": choices})

    segments = [Segment(str(i), "poison" if 4 <= i < 4 + poisoned else f"Sentence {i}.") for i in range(120)]
    with scripted_server(answer) as server:
        ours = generator(server.base_url, patience=1.0)
        driver = Driver(ours, rerank.load("mbr:chrf"), stop.load("quit", n=16, w=2), in_flight=8)

        async def work() -> list[Any]:
            return [one.outcome async for _, one in driver.run(segments)]

        found = asyncio.run(work())
    failed = {one.id for one in found if one.stop is StopReason.FAILED}
    assert len(found) == 120 and failed == {str(4 + i) for i in range(poisoned)}


def test_texts_are_those_of_their_seeds() -> None:
    """What is compared above is not the same by chance: each candidate is the one its seed gives."""
    with fake_server(ALL_FAULTS) as one:
        found = draw(generator(one.base_url, api="completions", timeout=0.5), [Request(SEGMENTS[1], 0, SIZE)])
        prompt = one.requests[0]["prompt"]
        assert all(request["seed"] < 2**53 for request in one.requests), "JSON's numbers are exact up to there"
    first = Sampling(seed=3).seed_of(SEGMENTS[1].content, 0) % 2**53
    assert [found["2", i].text for i in range(SIZE)] == [text_of(prompt, first + i) for i in range(SIZE)]
