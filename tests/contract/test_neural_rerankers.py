"""The contract of rerankers and utilities for the scoring models, whose scores depend on their batches in rounding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quitmt import rerank
from quitmt.metrics.devices import Hardware
from quitmt.protocols import Utility
from quitmt.rerank import specs
from tests.comet.folders import make_folder
from tests.contract.rerankers import AnchoredContract, CloseContract, FailingContract, Make
from tests.contract.utilities import UtilityContract
from tests.metrics.neural.tiny_metricx import make_metricx
from tests.metrics.neural.tiny_sentence import make_sentence_model

CHECKPOINTS = {"comet": "regression", "kiwi": "unified", "xcomet": "xcomet"}
MAKERS: dict[str, Callable[[Path], Path]] = {"metricx": make_metricx, "embedding": make_sentence_model}
RERANKERS = ["mbr:comet", "mbr:xcomet", "mbr:metricx", "mbr:embedding", "qe:kiwi", "qe:xcomet", "qe:metricx"]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The name of a metric with a tiny model for it, which is made once."""
    root, made = tmp_path_factory.mktemp("models"), {}

    def name(kind: str) -> str:
        if kind not in made:
            made[kind] = MAKERS[kind](root / kind) if kind in MAKERS else make_folder(root, CHECKPOINTS[kind])
        return f"{kind}:{made[kind]}"

    return name


class TestNeural(CloseContract, AnchoredContract, FailingContract):
    tells_good = False  # seeded models

    @pytest.fixture(scope="class", params=RERANKERS)
    @classmethod
    def make(cls, request: pytest.FixtureRequest, spec: Callable[[str], str]) -> Make:
        way, kind = request.param.split(":")
        return lambda: rerank.load(f"{way}:{spec(kind)}", hardware=Hardware(device="cpu"))


class TestNeuralUtility(UtilityContract):
    @pytest.fixture(params=["comet", "xcomet", "metricx", "embedding"])
    def utility(self, request: pytest.FixtureRequest, spec: Callable[[str], str]) -> Utility[Any]:
        return specs.parse(f"mbr:{spec(request.param)}").utility(Hardware(device="cpu"))

    def assert_equal(self, found: Any, expected: Any) -> None:
        np.testing.assert_allclose(found, expected, rtol=0, atol=CloseContract.tolerance)

    def test_the_two_directions_differ(self, utility: Utility[Any]) -> None:
        """Or comparing them shows nothing; only a cosine is the same both ways."""
        forward, _ = utility.compare(self.encoded(utility), range(6), range(6))
        assert utility.signature.startswith("embedding|") or abs(forward - forward.T).max() > 0.001
