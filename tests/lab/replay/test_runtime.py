"""Speedups and estimated seconds, against sums written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quitmt.errors import UsageError
from quitmt.lab.frames import RuleSeconds
from quitmt.lab.replay.rules import unaccelerated
from quitmt.lab.replay.runtime import estimated, speedup
from tests.lab.arrays import fixed, running_best

SCORES = np.random.default_rng(0).random((3, 8))


@pytest.mark.parametrize(("reranker", "power"), [("qe:made-up", 1), ("mbr:chrf", 2)])
def test_an_estimate_is_a_share_of_what_each_whole_pool_cost(reranker: str, power: int) -> None:
    trajectories = running_best(SCORES, sizes=[8, 4, 2], reranker=reranker)  # generating took 1, 2, 3; reranking half
    found = estimated(trajectories, fixed(trajectories, 3, 8))
    assert found.generate == pytest.approx(1 * 3 / 8 + 2 * 3 / 4 + 3)
    assert found.rerank == pytest.approx(0.5 * (3 / 8) ** power + 1.0 * (3 / 4) ** power + 1.5)
    assert not found.live


def test_everything_costs_what_was_measured() -> None:
    trajectories = running_best(SCORES, reranker="mbr:chrf")
    assert estimated(trajectories, unaccelerated(trajectories, 8)) == RuleSeconds(6.0, 3.0, live=False)


def test_speedup_is_of_totals() -> None:
    assert speedup(RuleSeconds(90.0, 30.0, True), RuleSeconds(10.0, 14.0, True)) == 5.0


@pytest.mark.parametrize("seconds", [RuleSeconds(0.0, 0.0, True), RuleSeconds(math.nan, 1.0, True)])
def test_without_seconds_there_is_no_speedup(seconds: RuleSeconds) -> None:
    assert speedup(RuleSeconds(1.0, 1.0, True), seconds) is None
    assert speedup(seconds, RuleSeconds(1.0, 1.0, True)) is None


def test_measured_and_estimated_seconds_never_meet() -> None:
    with pytest.raises(UsageError, match="measured live cannot be compared with seconds estimated"):
        speedup(RuleSeconds(2.0, 1.0, live=True), RuleSeconds(1.0, 1.0, live=False))
