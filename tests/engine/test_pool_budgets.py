"""A recorded pool that is shorter than the budget is the budget: rules, stop reasons and outcomes go by its size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from quitmt import rerank, stop
from quitmt.engine.deadlines import Deadlines
from quitmt.engine.driver import Driver, in_order
from quitmt.generate.recorded import RecordedGenerator
from quitmt.protocols import StoppingRule
from quitmt.types import Candidate, Outcome, RecordedPool, Seconds, Segment, Snapshot, StopReason

SIZES = (64, 40, 7, 33)


@pytest.fixture
def pools(make_pool: Callable[[int, int], list[str]]) -> list[RecordedPool]:
    return [
        RecordedPool(
            Segment(str(size), "x"), tuple(Candidate(t, scores={"q": len(t) / 100}) for t in make_pool(size, size))
        )
        for size in SIZES
    ]


def run(pools: list[RecordedPool], rule: StoppingRule, reranker: str = "mbr:chrf", **more: Any) -> list[Outcome]:
    driver = Driver(RecordedGenerator(pools), rerank.load(reranker), rule, **more)

    async def work() -> list[Outcome]:
        return [one.outcome async for one in in_order(driver.run([pool.segment for pool in pools]))]

    return asyncio.run(work())


def plain(outcome: Outcome) -> Outcome:
    """Without what differs between a pool that ends and a budget that does."""
    ended = StopReason.EXHAUSTED if outcome.stop is StopReason.BUDGET else outcome.stop
    return replace(outcome, stop=ended, seconds=Seconds(), signature="")


@pytest.mark.parametrize("more", [{}, {"speculate": True}, {"deadlines": Deadlines(1e6)}])
@pytest.mark.parametrize(
    ("spec", "reranker"),
    [
        ("quit", "mbr:chrf"),
        ("full", "mbr:chrf"),
        ("fixed:65", "mbr:chrf"),
        ("loss:minimum=8,most=0.02", "mbr:chrf"),
        ("headroom:top=1,minimum=4,share=0.02", "qe:recorded:q"),
    ],
)
def test_a_rule_decides_as_if_the_pool_were_the_budget(
    pools: list[RecordedPool], spec: str, reranker: str, more: dict[str, Any]
) -> None:
    found = run(pools, stop.load(spec, k=4, w=2, n=512), reranker, **more)
    for pool, outcome in zip(pools, found, strict=True):
        size = len(pool.candidates)
        own = "full" if spec.startswith("fixed") else spec
        [alone] = run([pool], stop.load(own, k=4, w=2, n=size), reranker, **more)
        assert plain(outcome) == plain(alone)
        assert outcome.budget == size and outcome.stop is not StopReason.BUDGET


def test_expected_loss_goes_by_the_pool(pools: list[RecordedPool]) -> None:
    """The smaller the budget, the less can be lost: with 512 in view nothing would stop before the end."""
    rule = stop.load("loss:minimum=8,most=0.02", k=4, n=512)
    sizes = [outcome.size for outcome in run(pools, rule)]
    assert any(used < available for used, available in zip(sizes, SIZES, strict=True))


def test_a_pool_of_the_whole_budget_ends_as_budget(pools: list[RecordedPool]) -> None:
    found = run(pools, stop.load("full", k=4, n=40))
    assert [outcome.stop for outcome in found] == ["budget", "budget", "exhausted", "exhausted"]
    assert [outcome.budget for outcome in found] == [40, 40, 7, 33]


class Unchangeable:
    """A rule that is no dataclass: it keeps its own budget, and says what it was asked for."""

    signature, step, budget = "unchangeable", 4, 512

    def open(self) -> Unchangeable:
        return self

    def observe(self, snapshot: Snapshot) -> StopReason | None:
        return None

    def horizon(self, size: int) -> int:
        return size + 8


@dataclass(frozen=True)
class Large(Unchangeable):
    """One that refuses a small budget."""

    budget: int = 512

    def __post_init__(self) -> None:
        if self.budget < 50:
            raise RuntimeError("too small")


@pytest.mark.parametrize("rule", [Unchangeable(), Large()])
def test_a_rule_that_cannot_be_changed_keeps_its_budget_and_ends_with_the_pool(
    pools: list[RecordedPool], rule: StoppingRule
) -> None:
    found = run(pools, rule)
    assert [outcome.size for outcome in found] == [outcome.budget for outcome in found] == list(SIZES)
    assert {outcome.stop for outcome in found} == {StopReason.EXHAUSTED}


class Wrong(RecordedGenerator):
    def __init__(self, pools: list[RecordedPool], said: object) -> None:
        super().__init__(pools)
        self._said = said

    def available(self, segment: Segment) -> Any:
        if isinstance(self._said, BaseException):
            raise self._said
        return self._said


@pytest.mark.parametrize("said", [RuntimeError("broken"), SystemExit(3), None, 0, -5, "many", 2.5])
def test_a_generator_that_cannot_tell_changes_nothing(pools: list[RecordedPool], said: object) -> None:
    driver = Driver(Wrong(pools, said), rerank.load("mbr:chrf"), stop.load("full", k=4, n=512))

    async def work() -> list[Outcome]:
        return [one.outcome async for one in in_order(driver.run([pool.segment for pool in pools]))]

    found = asyncio.run(work())
    assert [outcome.stop for outcome in found] == [StopReason.EXHAUSTED] * len(pools)
    assert [outcome.budget for outcome in found] == list(SIZES)  # found out when they ended


def test_candidates_of_recorded_pools_need_not_be_kept(pools: list[RecordedPool]) -> None:
    driver = Driver(RecordedGenerator(pools), rerank.load("mbr:chrf"), stop.load("full", k=4, n=512))

    async def first() -> list[object]:
        async for _ in driver.run([pool.segment for pool in pools]):
            return list(driver.drawn())
        return []

    assert asyncio.run(first()) == []
