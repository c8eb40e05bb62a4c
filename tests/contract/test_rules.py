"""The contract of stopping rules, for all of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quitmt import stop
from quitmt.protocols import StoppingRule
from quitmt.types import Snapshot, StopReason
from tests.contract.rules import Make, RivalsContract, RuleContract, ScoresContract


def named(spec: str) -> Make:
    def make(options: str = "", **settings: Any) -> StoppingRule:
        if options:  # the last value of an option counts
            name, _, own = f"{spec}{options}".rpartition(":")
            last = dict(part.split("=") for part in own.split(","))
            options = ",".join(f"{option}={value}" for option, value in last.items())
            return stop.load(f"{name}:{options}", **{"k": 8, "n": 64, **settings})
        return stop.load(spec, **{"k": 8, "n": 64, **settings})

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


class TestConsistency(ScoresContract):
    @pytest.fixture(params=LOOKS)
    def make(self, request: pytest.FixtureRequest) -> Make:
        return named(f"consistency:doubt=0.1,{request.param}")

    def unsettled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 0.5, scores=lambda: np.full(size, 0.5))

    def settings(self) -> list[dict[str, Any]]:
        options = (",doubt=0.2", ",minimum=17", ",looks=3")
        return [*super().settings(), *({"options": each} for each in options)]
