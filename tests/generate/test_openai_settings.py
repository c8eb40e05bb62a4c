"""The generator for OpenAI-shaped servers: keys, addresses, languages and settings that are wrong from the start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.generators import SEGMENTS, SIZE, draw, everything
from tests.servers.fake_openai import Faults, Server, fake_server
from tests.servers.openai_generator import draws, errors, generator

from quitmt.errors import ModelError, QuitmtError, UsageError
from quitmt.generate.openai import OpenAIGenerator
from quitmt.sampling import Sampling
from quitmt.types import Ask, Segment


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with fake_server() as one:
        yield one


def test_a_wrong_key_is_found_out_at_once_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    with fake_server(Faults(key="sk-right")) as one:
        ours = generator(one.base_url)
        found = draws(ours, [Ask(Segment(str(i), "Hi."), 0, 64) for i in range(50)])
        assert len(found) == 50 and len(one.requests) <= 16
        assert {str(each.error) for each in found} == {
            f"the server at {one.base_url} refuses the key in OPENAI_API_KEY "
            "(set OPENAI_API_KEY to a key of that server)"
        }
        monkeypatch.setenv("OPENAI_API_KEY", "sk-right")
        assert len(everything(generator(one.base_url))) == SIZE * 3
    assert "sk-" not in repr(ours) + ours.signature


def test_a_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with fake_server(Faults(key="sk-right")) as one:
        (error,) = errors(generator(one.base_url))
        assert "wants a key (set OPENAI_API_KEY" in str(error)
        assert "Authorization" not in one.headers[0]


def test_an_unknown_model() -> None:
    with fake_server(Faults(model="other")) as one:
        (error,) = errors(generator(one.base_url))
        assert isinstance(error, ModelError)
        assert f"does not know the model 'm' (take one of those listed at {one.base_url}/models)" in str(error)


def test_a_wrong_path(server: Server) -> None:
    (error,) = errors(generator(server.base_url.removesuffix("/v1")))
    assert isinstance(error, UsageError) and "has no /chat/completions (options['base_url'] mostly ends in /v1)" in str(
        error
    )


def test_check_finds_it_out_before_a_run(server: Server) -> None:
    asyncio.run(generator(server.base_url).check())
    with pytest.raises(UsageError, match="has no"):
        asyncio.run(generator(server.base_url + "/nowhere").check())


@pytest.mark.parametrize(
    ("languages", "says"),
    [
        ((None, "pt"), r"languages\[0\]"),
        (("en", None), r"languages\[1\]"),
        ((None, None), r"languages\[0\] and languages\[1\]"),
    ],
)
def test_languages_must_be_known(languages: tuple[str | None, str | None], says: str) -> None:
    with pytest.raises(UsageError, match=f"give {says}"):
        generator("http://x/v1", languages=languages)


def test_a_wrong_language_or_prompt_is_known_before_any_request() -> None:
    with pytest.raises(UsageError, match="not a language"):
        generator("http://x/v1", languages=("en", "klingonese"))
    with pytest.raises(UsageError, match="chat template"):
        generator("http://x/v1", prompt="translategemma", api="completions")


def test_the_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    assert len(draw(OpenAIGenerator("m", Sampling(), languages=("en", "de")), [Ask(SEGMENTS[0], 0, 3)])) == 3
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(UsageError, match="base_url"):
        OpenAIGenerator("m", Sampling(), languages=("en", "de"))


def test_settings_out_of_range() -> None:
    for settings in ({"api": "responses"}, {"max_tokens": 0}, {"concurrency": 0}, {"prompt": "nonsense"}):
        with pytest.raises(QuitmtError):
            generator("http://x/v1", **settings)


def test_signature_names_what_changes_results() -> None:
    def signature(sampling: Sampling | None = None, **settings: Any) -> str:
        return generator("http://x/v1", sampling, **settings).signature

    changed: list[dict[str, Any]] = [
        {"sampling": Sampling(seed=4)}, {"api": "completions"}, {"max_tokens": 9}, {"clean": False},
        {"prompt": "qwen3"}, {"languages": ("en", "de")},
    ]  # fmt: skip
    assert len({signature(), *(signature(**one) for one in changed)}) == 7
    assert signature() == signature(base_url="http://y/v1", concurrency=3, timeout=9)
