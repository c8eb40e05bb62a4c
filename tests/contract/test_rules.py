"""The contract of stopping rules, for all of ours."""

from __future__ import annotations

from typing import Any

import pytest

from quitmt import stop
from quitmt.protocols import StoppingRule
from quitmt.types import Standing, Verdict
from tests.contract.rules import Make, RivalsContract, RuleContract


def named(spec: str) -> Make:
    def make(options: str = "", **settings: Any) -> StoppingRule:
        name, _, own = f"{spec}{options}".partition(":")
        last = dict(part.split("=") for part in own.split(",")) if own else {}  # an option may be there twice
        told = ",".join(f"{option}={value}" for option, value in last.items())
        return stop.load(f"{name}:{told}" if told else name, **{"k": 8, "n": 64, **settings})

    return make


class TestQuit(RuleContract):
    early = Verdict.STABLE
    w = 3

    @pytest.fixture
    def make(self) -> Make:
        return lambda **settings: stop.load("quit", **{"k": 8, "w": self.w, "n": 64, "alpha": 0.02, **settings})

    def settled(self, size: int) -> Standing:
        return Standing(size, 0, 0.5)

    def unsettled(self, size: int) -> Standing:
        return Standing(size, 0, float(size))

    def horizon_begins(self, rule: StoppingRule, size: int) -> bool:
        """A window must be quiet as a whole; a last one that the budget cuts off is not tested."""
        return size % (rule.step * self.w) == 0

    def settings(self) -> list[dict[str, Any]]:
        return [*super().settings(), {"w": 4}, {"alpha": 0.03}, {"w": 4, "alpha": 0.03}]


class TestFull(RuleContract):
    @pytest.fixture
    def make(self) -> Make:
        return named("full")

    def settled(self, size: int) -> Standing:
        return Standing(size, 0, 0.5)

    def unsettled(self, size: int) -> Standing:
        return Standing(size, 0, float(size))


class TestFixed(TestFull):
    @pytest.fixture
    def make(self) -> Make:
        return lambda **settings: stop.load(f"fixed:{settings.get('n', 64)}", k=settings.get("k", 8), n=64)


class TestHeadroom(RuleContract):
    early = Verdict.DECIDED

    @pytest.fixture(params=["minimum=16", "minimum=1,looks=1", "minimum=20,looks=4"])
    def make(self, request: pytest.FixtureRequest) -> Make:
        return named(f"headroom:top=1,{request.param}")

    def settled(self, size: int) -> Standing:
        return Standing(size, 0, 1.0)

    def unsettled(self, size: int) -> Standing:
        return Standing(size, 0, -1000.0)

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
