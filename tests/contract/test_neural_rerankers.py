"""The contract of rerankers and utilities for the scoring models, whose scores depend on their batches in rounding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quitmt import rerank
from quitmt.devices import Hardware
from quitmt.metrics import scorer
from quitmt.protocols import Reranker, Utility
from quitmt.types import Standing
from tests.comet.folders import make_folder
from tests.contract import test_rerankers as contract
from tests.neural.tiny_metricx import make_metricx
from tests.neural.tiny_sentence import make_sentence_model

CHECKPOINTS = {"comet": "regression", "kiwi": "unified", "xcomet": "xcomet"}
MAKERS: dict[str, Callable[[Path], Path]] = {"metricx": make_metricx, "embedding": make_sentence_model}
TOLERANCE = 1e-5

pools = contract.pools
test_a_standing_after_each_stride_and_after_the_last = contract.test_a_standing_after_each_stride_and_after_the_last
test_growing_in_steps_changes_nothing = contract.test_growing_in_steps_changes_nothing
test_batched_is_the_same_as_alone = contract.test_batched_is_the_same_as_alone
test_the_best_is_the_best_of_those_there = contract.test_the_best_is_the_best_of_those_there
test_ties_go_to_the_lowest_index = contract.test_ties_go_to_the_lowest_index
test_no_candidates_is_no_standing = contract.test_no_candidates_is_no_standing


@pytest.fixture(autouse=True)
def tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    def assert_same(found: object, expected: list[Standing]) -> None:
        assert isinstance(found, list)
        assert [(one.size, one.best) for one in found] == [(one.size, one.best) for one in expected]
        np.testing.assert_allclose(
            [one.score for one in found], [one.score for one in expected], rtol=0, atol=TOLERANCE
        )

    monkeypatch.setattr(contract, "assert_same", assert_same)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The name of a metric with a tiny model for it, which is made once."""
    root, made = tmp_path_factory.mktemp("models"), {}

    def name(kind: str) -> str:
        if kind not in made:
            made[kind] = MAKERS[kind](root / kind) if kind in MAKERS else make_folder(root, CHECKPOINTS[kind])
        return f"{kind}:{made[kind]}"

    return name


@pytest.fixture(
    scope="module",
    params=["mbr:comet", "mbr:xcomet", "mbr:metricx", "mbr:embedding", "qe:kiwi", "qe:xcomet", "qe:metricx"],
)
def reranker(request: pytest.FixtureRequest, spec: Callable[[str], str]) -> Reranker:
    way, kind = request.param.split(":")
    return rerank.load(f"{way}:{spec(kind)}", hardware=Hardware(device="cpu"))


@pytest.fixture(scope="module", params=["comet", "xcomet", "metricx", "embedding"])
def utility(request: pytest.FixtureRequest, spec: Callable[[str], str]) -> Utility:
    return scorer.utility(spec(request.param), Hardware(device="cpu"))


def close(found: object, expected: object) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def test_backward_is_forward_the_other_way_round(utility: Utility) -> None:
    forward, backward = utility.compare(contract.encoded(utility, contract.TEXTS), range(6), range(6))
    assert forward.shape == backward.shape == (6, 6)
    assert utility.signature.startswith("embedding|") or abs(forward - forward.T).max() > 0.001  # or it shows nothing
    close(backward, forward.T)


def test_any_part_of_the_square_can_be_compared(utility: Utility) -> None:
    arena = contract.encoded(utility, contract.TEXTS)
    whole, reverse = utility.compare(arena, range(6), range(6))
    for rows, columns in ((range(2, 4), range(6)), (range(4, 6), range(4)), (range(3), range(1, 5))):
        forward, backward = utility.compare(arena, rows, columns)
        close(forward, whole[np.ix_(rows, columns)])
        close(backward, reverse[np.ix_(rows, columns)])


def test_encoding_in_parts_and_with_others_changes_nothing(utility: Utility) -> None:
    arena, other = (utility.open(segment) for segment in contract.SEGMENTS)
    utility.encode([(arena, contract.TEXTS[:2]), (other, contract.TEXTS[3:])])
    utility.encode([(arena, contract.TEXTS[2:])])
    expected = utility.compare(contract.encoded(utility, contract.TEXTS), range(6), range(6))
    close(utility.compare(arena, range(6), range(6)), expected)
