"""The contract of generators on vLLM with a real model, cut down for speed: in this process, and as a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from quitmt.generate.openai import OpenAIGenerator
from quitmt.generate.vllm import VllmGenerator
from quitmt.sampling import Sampling
from tests.contract.generators import AnchorContract, Found, Fresh, SamplingContract, same
from tests.vllm.conftest import ENGINE
from vllm_server import served

pytestmark = pytest.mark.filterwarnings("ignore")


class NearlyTheSame:
    """vLLM computes with other shapes, and thus other last digits, in other batches: a token near a tie may differ, and
    all that follow it. So a tenth of the texts may, and the others must be the same in everything."""

    def same(self, one: Found, other: Found) -> bool:
        assert one.keys() == other.keys()
        equal = [key for key in one if one[key].text == other[key].text]
        few = len(one) - len(equal) <= max(1, len(one) // 10)
        return few and same({key: one[key] for key in equal}, {key: other[key] for key in equal})


class TestInProcess(NearlyTheSame, SamplingContract, AnchorContract):
    @pytest.fixture(scope="class")
    def generator(self, smollm2_cut: str) -> Iterator[VllmGenerator]:
        made = VllmGenerator(
            smollm2_cut,
            Sampling(1.0, seed=3),
            languages=("en", "pt"),
            max_tokens=6,
            clean=False,
            dtype="float32",
            engine_args=ENGINE,
        )
        yield made
        made.shutdown()

    @pytest.fixture
    def make(self, generator: VllmGenerator) -> Callable[..., VllmGenerator]:
        return lambda seed=3: generator.resampled(Sampling(1.0, seed=seed))

    @pytest.fixture
    def fresh(self, generator: VllmGenerator) -> Fresh:
        return generator.resampled


class TestServer(NearlyTheSame, SamplingContract, AnchorContract):
    @pytest.fixture(scope="class")
    def url(self, smollm2_cut: str) -> Iterator[str]:
        server = served(smollm2_cut)
        with asyncio.Runner() as runner:
            yield runner.run(server.__aenter__())
            runner.run(server.__aexit__(None, None, None))

    @pytest.fixture
    def make(self, fresh: Fresh) -> Callable[..., OpenAIGenerator]:
        return lambda seed=3: fresh(Sampling(1.0, seed=seed))

    @pytest.fixture
    def fresh(self, smollm2_cut: str, url: str) -> Fresh:
        return lambda sampling: OpenAIGenerator(
            smollm2_cut,
            sampling,
            languages=("en", "pt"),
            base_url=f"{url}/v1",
            max_tokens=6,
            clean=False,
            logprobs=True,
        )
