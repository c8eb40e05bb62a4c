"""Rules of others: whatever they do, their segments end, and the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quitmt import rerank
from quitmt.engine.driver import Driver, in_order
from quitmt.engine.engine import Engine
from quitmt.engine.guarded import GuardedRule
from quitmt.errors import UsageError
from quitmt.generate.recorded import RecordedGenerator
from quitmt.types import Candidate, Draw, Outcome, RecordedPool, Segment, Snapshot, StopReason

BUDGET, STEP = 64, 8


class Rule:
    """A rule that says nothing, unless it is given what to say."""

    signature = "mine|k:8"
    step, budget = STEP, BUDGET

    def __init__(
        self,
        observe: Callable[[Snapshot], Any] = lambda snapshot: None,
        horizon: Callable[[int], Any] = lambda size: BUDGET,
        make: Callable[[], Any] | None = None,
    ) -> None:
        self.observe, self.horizon, self.make = observe, horizon, make

    def open(self) -> Any:
        return self.make() if self.make else self


def run(rule: Rule, count: int = 3, **settings: Any) -> list[Outcome]:
    """Of so many segments, whose candidates get better."""
    pools = [
        RecordedPool(Segment(str(number), "x"), tuple(Candidate("y" * length) for length in range(200)))
        for number in range(count)
    ]
    reranker = rerank.qe(lambda source, text: len(text), name="length")

    async def work() -> list[Outcome]:
        driver = Driver(RecordedGenerator(pools), reranker, rule, **settings)
        async with asyncio.timeout(60):
            return [one.outcome async for one in in_order(driver.run([pool.segment for pool in pools]))]

    return asyncio.run(work())


@pytest.mark.parametrize("speculate", [False, True])
@pytest.mark.parametrize(
    "horizon",
    [lambda size: BUDGET, lambda size: size, lambda size: -5, lambda size: 10**30, lambda size: size + 3, np.int64],
)
def test_a_rule_that_says_nothing_ends_at_its_budget(horizon: Callable[[int], int], speculate: bool) -> None:
    sizes = list[int]()
    rule = Rule(lambda snapshot: sizes.append(snapshot.size), horizon)
    [outcome] = run(rule, 1, speculate=speculate)
    assert (outcome.stop, outcome.size, outcome.score) == (StopReason.BUDGET, BUDGET, BUDGET - 1)
    assert sizes == list(range(STEP, BUDGET + 1, STEP))  # every step, and nothing between steps


@pytest.mark.parametrize(
    ("found", "size", "expected"),
    [(24, 0, 24), (8, 8, 16), (0, 0, 8), (0, 11, 16), (-1, 60, 64), (65, 0, 64), (17, 0, 24), (np.int32(32), 8, 32)],
)
def test_a_horizon_is_made_one(found: int, size: int, expected: int) -> None:
    watch = GuardedRule(Rule(horizon=lambda size: found)).open()
    assert watch.horizon(size) == expected and watch.fault is None


@pytest.mark.parametrize("found", [None, 8.0, "8", True, float("nan")])
def test_a_horizon_that_is_no_whole_number_fails_its_segment(found: object) -> None:
    outcomes = run(Rule(horizon=lambda size: found))
    assert {outcome.stop for outcome in outcomes} == {StopReason.FAILED}
    expected = f"the rule mine gave {found!r} as its horizon, which must be a whole number"
    assert [outcome.error for outcome in outcomes] == [f"segment {number}: {expected}" for number in range(3)]


@pytest.mark.parametrize(
    "found", ["stable", True, 0, 1.5, StopReason.FAILED, StopReason.DEADLINE, StopReason.EXHAUSTED]
)
def test_a_stop_reason_that_is_none_is_refused_by_name(found: object) -> None:
    outcomes = run(Rule(lambda snapshot: found if snapshot.size == 16 else None))
    assert {(outcome.stop, outcome.size) for outcome in outcomes} == {(StopReason.FAILED, 16)}
    shown = f"StopReason.{found.name}" if isinstance(found, StopReason) else repr(found)
    assert outcomes[0].error == (
        f"segment 0: the rule mine gave {shown} as its stop reason, "
        "which must be None or one of StopReason.STABLE, StopReason.DECIDED, StopReason.BUDGET"
    )


@pytest.mark.filterwarnings("error")
def test_a_rule_cannot_be_async() -> None:
    async def observe(snapshot: Snapshot) -> None:
        return None

    [outcome] = run(Rule(observe), 1)
    assert outcome.error is not None and "gave <coroutine object" in outcome.error


def test_stop_reasons_of_a_rule_count() -> None:
    for stop_reason in (StopReason.STABLE, StopReason.DECIDED, StopReason.BUDGET):
        outcomes = run(Rule(lambda snapshot, stop_reason=stop_reason: stop_reason if snapshot.size == 24 else None))
        assert {(outcome.stop, outcome.size) for outcome in outcomes} == {(stop_reason, 24)}


def fail(*_: object) -> None:
    raise LookupError("no such thing")


PLACE = f" (test_guarded.py, line {fail.__code__.co_firstlineno + 1})"


@pytest.mark.parametrize("part", ["observe", "horizon", "open"])
@pytest.mark.parametrize("settings", [{}, {"speculate": True}])
def test_a_rule_that_raises_fails_its_segment(part: str, settings: dict[str, bool]) -> None:
    """Only the second one's does."""
    opened = 0

    def make() -> Rule:
        nonlocal opened
        opened += 1
        if opened != 2:
            return Rule()
        return fail() if part == "open" else Rule(**{part: fail})  # type: ignore[return-value, arg-type]

    outcomes = run(Rule(make=make), **settings)
    assert [outcome.stop for outcome in outcomes] == [StopReason.BUDGET, StopReason.FAILED, StopReason.BUDGET]
    assert outcomes[1].error == f"segment 1: the rule mine failed in {part}: LookupError: no such thing{PLACE}"


def test_a_horizon_that_raises_later_fails_its_segment_too() -> None:
    def horizon(size: int) -> int:
        return 16 if size < 16 else fail()  # type: ignore[return-value]

    [outcome] = run(Rule(horizon=horizon), 1)
    assert (outcome.stop, outcome.size) == (StopReason.FAILED, 16)  # what was there is kept
    assert outcome.error == f"segment 0: the rule mine failed in horizon: LookupError: no such thing{PLACE}"


def test_what_is_no_watch_is_blamed_on_its_rule() -> None:
    [outcome] = run(Rule(make=lambda: None), 1)
    assert outcome.error is not None
    assert outcome.error.startswith("segment 0: the rule mine failed in horizon: AttributeError: 'NoneType'")
    [outcome] = run(Rule(make=object), 1)
    assert outcome.error is not None and "'object' object has no attribute 'horizon'" in outcome.error


def test_a_dear_reranker_does_not_meet_a_bad_rule_unprepared() -> None:
    """It is asked for its horizon before there is any segment."""
    engine = Engine(rerank.load("mbr:chrf", variant="prune"), Rule(make=fail))
    engine.admit(Segment("s", "x"))
    assert engine.requests() == []
    [finished] = engine.finished()
    assert finished.outcome.error == f"segment s: the rule mine failed in open: LookupError: no such thing{PLACE}"


def test_late_candidates_of_a_segment_whose_rule_failed_are_nothing() -> None:
    reranker = rerank.qe(lambda source, text: len(text), name="length")
    engine = Engine(reranker, Rule(observe=fail), speculate=True)
    segment = Segment("s", "x")
    engine.admit(segment)
    engine.requests()
    engine.feed(Draw(segment, 0, (Candidate("a"),) * STEP))
    updates = engine.updates()
    engine.settle(updates, reranker.extend(updates))
    engine.feed(Draw(segment, STEP, (Candidate("a"),) * STEP))
    assert len(engine.finished()) == 1 and engine.active == 0 and not engine.has_updates


@pytest.mark.parametrize(("name", "value"), [("step", 0), ("budget", "64"), ("budget", True), ("step", 1.0)])
def test_a_rule_without_a_step_or_a_budget_is_refused_at_once(name: str, value: object) -> None:
    rule = Rule()
    setattr(rule, name, value)
    with pytest.raises(UsageError, match=f"the {name} of the rule mine must be a whole number above 0, not {value!r}"):
        Engine(rerank.qe(lambda source, text: 0.0, name="none"), rule)
