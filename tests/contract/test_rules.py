"""The contract of stopping rules, for all of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quitmt import stop
from quitmt.protocols import StoppingRule
from quitmt.types import Snapshot, StopReason
from tests.contract.rules import Make, RivalsContract, RuleContract, steps, stop_reasons


def named(spec: str) -> Make:
    def make(options: str = "", **settings: Any) -> StoppingRule:
        name, _, own = f"{spec}{options}".partition(":")
        last = dict(part.split("=") for part in own.split(",")) if own else {}  # an option may be there twice
        told = ",".join(f"{option}={value}" for option, value in last.items())
        return stop.load(f"{name}:{told}" if told else name, **{"k": 8, "n": 64, **settings})

    return make


class TestQuit(RuleContract):
    early = StopReason.STABLE
    w = 3

    @pytest.fixture
    def make(self) -> Make:
        return lambda **settings: stop.load("quit", **{"k": 8, "w": self.w, "n": 64, "alpha": 0.02, **settings})

    def settled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 0.5)

    def unsettled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, float(size))

    def horizon_begins(self, rule: StoppingRule, size: int) -> bool:
        """A window must be quiet as a whole; a last one that the budget cuts off is not tested."""
        return size % (rule.step * self.w) == 0

    def settings(self) -> list[dict[str, Any]]:
        return [*super().settings(), {"w": 4}, {"alpha": 0.03}, {"w": 4, "alpha": 0.03}]


class TestQuitByAdvantage(TestQuit):
    """Scores that grow with the pool by the same for all: only what they are apart counts."""

    @pytest.fixture
    def make(self) -> Make:
        rule = "quit:watch=advantage"
        return lambda **settings: stop.load(rule, **{"k": 8, "w": self.w, "n": 64, "alpha": 0.02, **settings})

    def settled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, size + 1.0, scores=lambda: np.array([size + 1.0, size - 1.0]))

    def unsettled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 1.0, scores=lambda: np.array([1.0, *np.zeros(size)]))


class TestFull(RuleContract):
    @pytest.fixture
    def make(self) -> Make:
        return named("full")

    def settled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 0.5)

    def unsettled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, float(size))


class TestFixed(TestFull):
    @pytest.fixture
    def make(self) -> Make:
        return lambda **settings: stop.load(f"fixed:{settings.get('n', 64)}", k=settings.get("k", 8), n=64)


class TestHeadroom(RuleContract):
    early = StopReason.DECIDED

    @pytest.fixture(params=["minimum=16", "minimum=1,looks=1", "minimum=20,looks=4"])
    def make(self, request: pytest.FixtureRequest) -> Make:
        return named(f"headroom:top=1,{request.param}")

    def settled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 1.0)

    def unsettled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, -1000.0)

    def settings(self) -> list[dict[str, Any]]:
        options = (",share=0.1", ",top=2", ",minimum=17", ",looks=3", ",share=0.1,top=2")
        return [*super().settings(), *({"options": each} for each in options)]


LOOKS = ["minimum=16", "minimum=1,looks=1", "minimum=20,looks=4"]


class TestLoss(RivalsContract):
    @pytest.fixture(params=LOOKS)
    def make(self, request: pytest.FixtureRequest) -> Make:
        return named(f"loss:most=0.0005,new=0.1,scale=1,{request.param}")

    def settings(self) -> list[dict[str, Any]]:
        options = (",most=0.1", ",new=0.2", ",minimum=17", ",looks=3", ",most=0.1,new=0.2")
        return [*super().settings(), *({"options": each} for each in options)]


class TestRace(RivalsContract):
    @pytest.fixture(params=LOOKS)
    def make(self, request: pytest.FixtureRequest) -> Make:
        return named(f"race:epsilon=0.003,{request.param}")

    def settings(self) -> list[dict[str, Any]]:
        options = (",epsilon=0.1", ",z=2", ",minimum=17", ",looks=3", ",epsilon=0.1,z=2")
        return [*super().settings(), *({"options": each} for each in options)]


class OfScores(RuleContract):
    """Rules of others, which look at the scores of all samples."""

    early = StopReason.DECIDED

    def settled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 1.0, scores=lambda: np.ones(size))

    def unsettled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 0.0, scores=lambda: np.linspace(-5.0, 0.0, size))

    def test_without_scores_it_goes_to_its_budget(self, rule: StoppingRule) -> None:
        alone = [replace(self.settled(size), scores=None) for size in steps(rule)]
        assert stop_reasons(rule.open(), alone) == [None] * (len(alone) - 1) + [StopReason.BUDGET]


class TestPandora(OfScores):
    @pytest.fixture(params=LOOKS)
    def make(self, request: pytest.FixtureRequest) -> Make:
        return named(f"pandora:cost=0.0001,{request.param}")

    def settings(self) -> list[dict[str, Any]]:
        options = (",cost=0.1", ",scale=2", ",margin=0.2", ",minimum=17", ",looks=3")
        return [*super().settings(), *({"options": each} for each in options)]


class TestBeacon(OfScores):
    @pytest.fixture(params=["minimum=16", "minimum=4,looks=1", "minimum=20,looks=4"])
    def make(self, request: pytest.FixtureRequest) -> Make:
        return named(f"beacon:cost=0.0001,{request.param}")

    def settings(self) -> list[dict[str, Any]]:
        options = (",cost=0.1", ",ignore=0.02", ",minimum=17", ",looks=3")
        return [*super().settings(), *({"options": each} for each in options)]


class TestConsistency(OfScores):
    @pytest.fixture(params=LOOKS)
    def make(self, request: pytest.FixtureRequest) -> Make:
        return named(f"consistency:doubt=0.1,{request.param}")

    def unsettled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 0.5, scores=lambda: np.full(size, 0.5))

    def settings(self) -> list[dict[str, Any]]:
        options = (",doubt=0.2", ",minimum=17", ",looks=3")
        return [*super().settings(), *({"options": each} for each in options)]
