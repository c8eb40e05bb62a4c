"""Best-of-N for other tasks than translation: rewards of every kind, and prompts that reach a model as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quitmt
from quitmt.errors import UsageError
from quitmt.types import Candidate, Segment
from tests.conftest import Ran
from tests.servers.fake_openai import Server, fake_server


def numbers(prompt: str, start: int, stop: int) -> list[str]:
    return [str(index * 7 % 32) for index in range(start, stop)]


def nearness(prompt: str, candidate: str) -> float:
    return -abs(int(candidate) - int(prompt))


async def nearness_async(prompt: str, candidate: str) -> float:
    await asyncio.sleep(0)
    return nearness(prompt, candidate)


def nearness_batched(pairs: list[tuple[str, str]]) -> list[float]:
    return [nearness(*pair) for pair in pairs]


async def nearness_batched_async(pairs: list[tuple[str, str]]) -> list[float]:
    return [await nearness_async(*pair) for pair in pairs]


class Nearness:
    signature = "nearness"

    def score(self, pairs: list[tuple[Segment, Candidate]]) -> list[float]:
        return [nearness(segment.source, candidate.text) for segment, candidate in pairs]


REWARDS: dict[str, Any] = {
    "function": nearness,
    "async function": nearness_async,
    "batched function": quitmt.qe(nearness_batched, batched=True),
    "batched async function": quitmt.qe(nearness_batched_async, batched=True),
    "object": Nearness(),
    "reranker": quitmt.qe(nearness),
}


@pytest.mark.parametrize("reward", REWARDS.values(), ids=REWARDS)
def test_rewards_of_every_kind(reward: Any) -> None:
    prompts = [str(number) for number in range(3, 30, 4)]
    for _ in range(2):  # what waits for async functions is used again
        outcomes = quitmt.best_of(prompts, numbers, reward, n=32, rule="full")
        assert [outcome.text for outcome in outcomes] == prompts
        assert {outcome.score for outcome in outcomes} == {0.0}


def test_it_is_translate_by_another_name() -> None:
    settings = {"rule": "headroom:top=0,share=0,minimum=8", "n": 32}
    expected = quitmt.translate(["5", "9"], numbers, reranker=nearness, **settings)
    found = quitmt.best_of(["5", "9"], numbers, nearness, **settings)
    again = asyncio.run(quitmt.best_of_async(["5", "9"], numbers, nearness, **settings))
    for outcomes in (found, again):
        assert [(one.text, one.size, one.signature) for one in outcomes] == [
            (one.translation, one.size, one.signature) for one in expected
        ]
    assert {outcome.size for outcome in found} != {32}


def test_async_rewards_share_one_loop_and_run_at_once() -> None:
    loops, running, most = set(), 0, 0
    gate = asyncio.Semaphore(3)  # belongs to the loop that first waits for it

    async def reward(prompt: str, candidate: str) -> float:
        nonlocal running, most
        loops.add(asyncio.get_running_loop())
        async with gate:
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
        return nearness(prompt, candidate)

    outcomes = quitmt.best_of(["5", "9"], numbers, reward, k=8, w=2, n=32)
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert len(loops) == 1 and most == 3


def test_an_async_reward_that_fails_fails_its_own_prompt_only() -> None:
    async def reward(prompt: str, candidate: str) -> float:
        await asyncio.sleep(0)
        return 1 / int(prompt)

    good, bad = quitmt.best_of(["5", "0"], numbers, reward, n=8)
    assert good.score == 0.2 and "ZeroDivisionError" in str(bad.error)


@pytest.mark.parametrize("wrong", [lambda prompt: 0.0, lambda a, b, c: 0.0, 7, dict])
def test_what_is_no_reward(wrong: Any) -> None:
    with pytest.raises(UsageError):
        quitmt.best_of(["5"], numbers, wrong)


def test_a_batched_reward_takes_one_argument() -> None:
    with pytest.raises(UsageError, match=r"it must be score\(pairs\)"):
        quitmt.qe(nearness, batched=True)


# Chat models


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with fake_server() as one:
        yield one


PROMPT = 'Say "{source}" in Klingon.'


def test_a_chat_model_gets_the_prompt_as_it_is_and_needs_no_languages(server: Server) -> None:
    options = {"base_url": server.base_url}
    [outcome] = quitmt.best_of([PROMPT], "openai:qwen3", lambda prompt, text: len(text), n=8, options=options)
    assert outcome.error is None and outcome.text
    assert server.requests[-1]["messages"] == [{"role": "user", "content": PROMPT}]
    assert "chat_template_kwargs" not in server.requests[-1]
    assert "prompt:plain-" in outcome.signature and ",raw," in outcome.signature


def test_a_template_of_ones_own_needs_none_either(server: Server, tmp_path: Path) -> None:
    (tmp_path / "riddle.txt").write_text("A riddle: {source}")
    options = {"base_url": server.base_url, "prompt": str(tmp_path / "riddle.txt")}
    quitmt.best_of(["what?"], "openai:m", "mbr:vote", n=8, options=options)
    assert server.requests[-1]["messages"][0]["content"] == "A riddle: what?"
    with pytest.raises(UsageError, match="'instruct' must be told the languages"):
        quitmt.best_of(["what?"], "openai:m", "mbr:vote", options={**options, "prompt": "instruct"})


def test_the_same_from_the_command_line(quitmt: Callable[..., Ran], server: Server, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(f"{PROMPT}\n")
    words = ("translate", tmp_path / "in", "--model", "openai:m", "--base-url", server.base_url, "--prompt", "plain")
    ran = quitmt(*words, "--rerank", "mbr:vote", "--stop", "consistency", "-n", 64)
    assert ran.code == 0 and ran.out.strip()
    assert server.requests[-1]["messages"] == [{"role": "user", "content": PROMPT}]
