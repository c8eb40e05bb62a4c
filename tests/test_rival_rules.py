"""The rules of examples/rival_rules.py: the contract, and their formulas against plain computations."""

from __future__ import annotations

import asyncio
import importlib
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quitmt import rerank, stop
from quitmt.engine.driver import Driver, in_order
from quitmt.errors import UsageError
from quitmt.generate.recorded import RecordedGenerator
from quitmt.protocols import RerankerTraits
from quitmt.types import Candidate, RecordedPool, Rivals, Segment, Snapshot, StopReason
from tests.contract.rules import Make, RivalsContract, ScoresContract
from tests.contract.test_rules import LOOKS, named

sys.path.append(str(Path(__file__).parents[1] / "examples"))
rules: Any = importlib.import_module("rival_rules")


class TestRace(RivalsContract):
    @pytest.fixture(params=LOOKS)
    def make(self, request: pytest.FixtureRequest) -> Make:
        return named(f"rival_rules:Race:epsilon=0.003,{request.param}")

    def settings(self) -> list[dict[str, Any]]:
        options = (",epsilon=0.1", ",z=2", ",minimum=17", ",looks=3", ",epsilon=0.1,z=2")
        return [*super().settings(), *({"options": each} for each in options)]


class TestPandora(ScoresContract):
    @pytest.fixture(params=LOOKS)
    def make(self, request: pytest.FixtureRequest) -> Make:
        return named(f"rival_rules:Pandora:cost=0.0001,{request.param}")

    def settings(self) -> list[dict[str, Any]]:
        options = (",cost=0.1", ",scale=2", ",margin=0.2", ",minimum=17", ",looks=3")
        return [*super().settings(), *({"options": each} for each in options)]


class TestBeacon(ScoresContract):
    @pytest.fixture(params=["minimum=16", "minimum=4,looks=1", "minimum=20,looks=4"])
    def make(self, request: pytest.FixtureRequest) -> Make:
        return named(f"rival_rules:Beacon:cost=0.0001,{request.param}")

    def settings(self) -> list[dict[str, Any]]:
        options = (",cost=0.1", ",ignore=0.02", ",minimum=17", ",looks=3")
        return [*super().settings(), *({"options": each} for each in options)]


def snapshot(size: int, mean: list[float], error: list[float]) -> Snapshot:
    rivals = Rivals(np.array(mean), np.array(error), np.array([0.5]))
    return Snapshot(size, 0, 0.5, lambda: rivals)


def test_stops_when_no_rival_can_be_better_by_more_than_epsilon() -> None:
    watch = stop.load("rival_rules:Race:z=2,epsilon=0.01,minimum=16", k=8, n=64).open()
    assert watch.observe(snapshot(8, [1.0], [0.0])) is None  # too few
    assert watch.observe(snapshot(33, [1.0], [0.0])) is None  # not the time to look
    assert watch.observe(snapshot(32, [0.5, 0.02], [0.1, 0.02])) is None  # 2 × 0.02 − 0.02 is too much
    assert watch.observe(snapshot(32, [0.5, 0.031], [0.1, 0.02])) is StopReason.DECIDED
    assert watch.observe(snapshot(32, [], [])) is StopReason.DECIDED  # all candidates are the same
    assert watch.observe(snapshot(64, [0.0], [1.0])) is StopReason.BUDGET


def test_a_race_in_the_engine(make_pool: Callable[[int, int], list[str]]) -> None:
    easy = RecordedPool(Segment("easy", "a"), (Candidate("o gato dormiu"),) * 60 + (Candidate("x"),) * 4)
    rng = random.Random(2)
    texts = [" ".join(rng.choices(make_pool(1, 1)[0].split(), k=5)) for _ in range(64)]
    hard = RecordedPool(Segment("hard", "b"), tuple(Candidate(text) for text in texts))
    rule = stop.load("rival_rules:Race:epsilon=0.001,minimum=16", k=8, n=64)
    driver = Driver(RecordedGenerator([easy, hard]), rerank.load("mbr:chrf"), rule)

    async def run() -> dict[str, tuple[int, StopReason]]:
        found = [one.outcome async for one in in_order(driver.run([easy.segment, hard.segment]))]
        return {one.id: (one.size, one.stop) for one in found}

    assert asyncio.run(run()) == {"easy": (16, StopReason.DECIDED), "hard": (64, StopReason.BUDGET)}


def test_pandora_expects_the_gain_of_one_more() -> None:
    rng = np.random.default_rng(0)
    rewards = 0.2 + rng.exponential(0.1, 999)
    rewards /= rewards.max()
    median = np.median(rewards)
    mean = rewards[rewards >= median].mean() - median
    most = median + np.log(512 / 5) * mean
    more = median - mean * np.log((np.arange(200_000) + 0.5) / 200_000)  # quantiles of an exponential
    expected = np.maximum(more / (more + most) - 1 / (1 + most), 0).mean()
    assert rules.expected_gain(rewards, 512, 0.0) == pytest.approx(expected, rel=0.005)
    assert rules.expected_gain(rewards, 512, 0.05) > rules.expected_gain(rewards, 512, 0.0)


def test_pandora_does_not_overflow_and_knows_no_zero_point() -> None:
    rule: Any = stop.load("rival_rules:Pandora")
    scores = np.random.default_rng(1).normal(0, 1, 64)
    signals = [
        rule.signal(Snapshot(64, 0, float((scores + shift).max()), scores=lambda shift=shift: scores + shift))
        for shift in (0.0, 5.0, 5000.0)
    ]
    assert signals[0] > 0 and signals == pytest.approx([signals[0]] * 3)


def test_beacon_learns_mean_and_spread() -> None:
    scores = np.random.default_rng(2).normal(0.5, 0.1, 40)
    mean, spread = rules.posterior(scores, -np.inf)
    assert mean == pytest.approx(scores.mean())
    assert spread == pytest.approx(scores.std(ddof=1) * np.sqrt(1 + 1 / 40))
    broken = np.concatenate((scores, [-20.0]))
    assert rules.posterior(broken, -2.326)[1] < 0.11 < 1 < rules.posterior(broken, -np.inf)[1]


def test_the_index_of_the_last_draw_is_its_expected_gain() -> None:
    draws = np.random.default_rng(3).standard_t(18, 400_000)
    found = np.exp(rules.indices(20)[19])
    for height in (0.5, 1.0, 2.0):
        expected = np.maximum(draws - height, 0).mean()
        assert np.interp(height, rules.HEIGHTS, found) == pytest.approx(expected, rel=0.06)


def test_the_index_is_worth_more_with_more_to_come() -> None:
    """And never less than one more draw; a higher best score leaves less to gain."""
    short, long = rules.indices(24), rules.indices(96)
    assert (long[20] >= short[20] - 1e-9).all() and (long[20] > short[20] + 0.1).any()
    reached = short[20] > np.log(rules.COSTS[0])
    assert (np.diff(short[20][reached]) < 0).all()


def test_beacon_stops_where_one_more_costs_more_than_it_brings() -> None:
    scores = np.random.default_rng(4).normal(0.5, 0.1, 32)
    lucky = np.concatenate((scores[:-1], [1.2]))
    for cost in (0.03, 0.001):
        watch = [
            stop.load(f"rival_rules:Beacon:cost={cost}", n=64).open().observe(seen(one)) for one in (scores, lucky)
        ]
        assert watch == ([StopReason.DECIDED, StopReason.DECIDED] if cost == 0.03 else [None, StopReason.DECIDED])


def seen(scores: Any) -> Snapshot:
    return Snapshot(len(scores), int(scores.argmax()), float(scores.max()), scores=lambda: scores)


@pytest.mark.parametrize("options", ["minimum=3", "ignore=0.5"])
def test_beacon_refuses_settings_without_an_index(options: str) -> None:
    with pytest.raises(UsageError, match=r"needs a minimum of 4 or more, and an ignore below 0.5"):
        stop.load(f"rival_rules:Beacon:{options}")


def test_they_only_fit_rerankers_that_tell_what_they_look_at() -> None:
    exact, qe = RerankerTraits(gives_rivals=True, gives_scores=True), RerankerTraits("qe", gives_scores=True)
    assert [stop.fits(stop.load(f"rival_rules:{name}"), qe) for name in ("Race", "Pandora", "Beacon")] == [
        False,
        True,
        True,
    ]
    for name in ("Race", "Pandora", "Beacon"):
        assert stop.fits(stop.load(f"rival_rules:{name}"), exact)
        assert not stop.fits(stop.load(f"rival_rules:{name}"), RerankerTraits())
