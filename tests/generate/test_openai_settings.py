"""The generator for OpenAI-shaped servers: keys, addresses, languages and settings that are wrong from the start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.generators import SEGMENTS, draw
from tests.servers.fake_openai import Faults, Server, fake_server
from tests.servers.openai_generator import draws, errors, generator

from quitmt.errors import UsageError
from quitmt.generate.openai import OpenAIGenerator
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with fake_server() as one:
        yield one


def test_a_wrong_key_is_found_out_at_once_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    with fake_server(Faults(key="sk-right")) as one:
        ours = generator(one.base_url)
        found = draws(ours, [Request(Segment(str(i), "Hi."), 0, 64) for i in range(50)])
        assert len(found) == 50 and len(one.requests) <= 16
        assert {type(each.error) for each in found} == {UsageError}
        monkeypatch.setenv("OPENAI_API_KEY", "sk-right")
        assert errors(generator(one.base_url)) == [None]
        monkeypatch.delenv("OPENAI_API_KEY")
        (error,) = errors(generator(one.base_url))
        assert isinstance(error, UsageError) and "Authorization" not in one.headers[-1]
    assert "sk-" not in repr(ours) + ours.signature + str(found)


def test_check_finds_out_before_a_run_what_the_server_refuses(server: Server) -> None:
    asyncio.run(generator(server.base_url).check())
    with pytest.raises(UsageError, match="has no"):
        asyncio.run(generator(server.base_url + "/nowhere").check())


def test_a_wrong_language_or_prompt_is_known_before_any_request() -> None:
    for settings in ({"languages": ("en", None)}, {"languages": ("en", "klingonese")}, {"prompt": "nonsense"}):
        with pytest.raises(UsageError):
            generator("http://x/v1", **settings)
    with pytest.raises(UsageError, match="chat template"):
        generator("http://x/v1", prompt="translategemma", api="completions")


def test_the_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    assert len(draw(OpenAIGenerator("m", Sampling(), languages=("en", "de")), [Request(SEGMENTS[0], 0, 3)])) == 3
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(UsageError, match="an openai: model needs the address of its server"):
        OpenAIGenerator("m", Sampling(), languages=("en", "de"))


def test_signature_names_what_changes_results() -> None:
    def signature(sampling: Sampling | None = None, **settings: Any) -> str:
        return generator("http://x/v1", sampling, **settings).signature

    changed: list[dict[str, Any]] = [
        {"sampling": Sampling(seed=4)}, {"api": "completions"}, {"max_tokens": 9}, {"clean": False},
        {"prompt": "qwen3"}, {"languages": ("en", "de")},
    ]  # fmt: skip
    assert len({signature(), *(signature(**one) for one in changed)}) == 7
    assert signature() == signature(base_url="http://y/v1", concurrency=3, timeout=9)
