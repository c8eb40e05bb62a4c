"""The contract of generators for what comes with quitmt; other backends run it beside their own tests."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from quitmt import generate
from quitmt.generate.function import FunctionGenerator
from quitmt.generate.recorded import RecordedGenerator
from quitmt.protocols import Generator
from quitmt.sampling import Sampling
from quitmt.types import Candidate, RecordedPool, Segment
from tests.bergamot.marian_writer import write_folder
from tests.contract.generators import SEGMENTS, SIZE, BeamContract, Contract, Found, Fresh, SamplingContract


def recorded() -> Generator:
    def text(segment: Segment, index: int) -> str:
        return f"{segment.source} {random.Random(f'{segment.id} {index}').randrange(9)}"

    return RecordedGenerator(RecordedPool(s, tuple(Candidate(text(s, i)) for i in range(SIZE))) for s in SEGMENTS)


def function() -> Generator:
    return FunctionGenerator(lambda source, start, stop: [f"{source} {i * i % 7}" for i in range(start, stop)])


class TestGiven(Contract):
    @pytest.fixture(params=[recorded, function])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Generator]:
        return request.param  # type: ignore[no-any-return]


CUT_OFF = {"top_k": 20, "top_p": 0.95, "min_p": 0.01, "epsilon": 0.001}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of the embedded ones' kind; these are held against a plain sampler in tests/bergamot."""
    return f"bergamot:{write_folder(tmp_path_factory.mktemp('tiny') / 'model', quantized=True)}"


class TestBergamot(SamplingContract):
    @pytest.fixture(params=[{}, CUT_OFF], ids=["whole", "cut off"])
    def make(self, tiny: str, request: pytest.FixtureRequest) -> Callable[..., Generator]:
        return lambda seed=3: generate.load(tiny, Sampling(seed=seed, **request.param))

    def same(self, one: Found, other: Found) -> bool:
        return one == other


class TestBergamotAnchors(BeamContract):
    @pytest.fixture
    def fresh(self, tiny: str) -> Fresh:
        return lambda sampling: generate.load(tiny, sampling)

    def same(self, one: Found, other: Found) -> bool:
        return one == other
