"""The one contract of stopping rules, as classes: a test class with a fixture ``make`` inherits its tests.

``make()`` gives a rule; ``make(k=…, n=…)`` one with another step and budget. A class says with ``settled`` and
``unsettled`` which snapshots its rule stops at, and at which it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from quitmt import rerank
from quitmt.protocols import StoppingRule, Update, Watch
from quitmt.types import Candidate, Rivals, Segment, Snapshot, StopReason
from tests.contract.rerankers import make_pool

Make = Callable[..., StoppingRule]
SIZES = [(8, 64), (5, 48), (7, 30), (64, 40)]
"""Steps and budgets, some of which do not divide each other."""
SOURCE = Segment("s", "The old cat slept near the house.")


def make_pools() -> list[list[Candidate]]:
    """In threes: one that is decided late, one that is not, and one that soon is, as most of it is one text."""
    found = []
    for seed in range(3):
        pool = make_pool(seed, 64)
        found += [
            pool,
            make_pool(seed, 512)[:64],
            [one if index % 7 == 0 else pool[-1] for index, one in enumerate(pool)],
        ]
    return found


POOLS = make_pools()


def steps(rule: StoppingRule) -> list[int]:
    """The sizes after which a rule sees a snapshot."""
    return [*range(rule.step, rule.budget, rule.step), rule.budget]


@cache
def trajectories_of(step: int, budget: int) -> list[list[Snapshot]]:
    """The snapshots of all pools after each step up to the budget."""
    loaded: Any = rerank.load("mbr:chrf")
    return loaded.extend([Update(loaded.open(SOURCE), pool[:budget], step) for pool in POOLS])  # type: ignore[no-any-return]


def stop_reasons(watch: Watch, seen: Sequence[Snapshot]) -> list[StopReason | None]:
    """What is said of each snapshot, until the segment ends."""
    found: list[StopReason | None] = []
    for snapshot in seen:
        found.append(watch.observe(snapshot))
        if found[-1] is not None:
            break
    return found


class RuleContract:
    """What every stopping rule guarantees."""

    early: StopReason | None = None
    """What it says when it stops before its budget; None if it never does."""

    def settled(self, size: int) -> Snapshot:
        """One at which it stops, when it looks."""
        raise NotImplementedError

    def unsettled(self, size: int) -> Snapshot:
        """One at which it does not."""
        raise NotImplementedError

    @pytest.fixture(params=SIZES, ids=str)
    def rule(self, request: pytest.FixtureRequest, make: Make) -> StoppingRule:
        k, n = request.param
        return make(k=k, n=n)

    @pytest.fixture
    def trajectories(self, rule: StoppingRule) -> list[list[Snapshot]]:
        """Of real pools."""
        found = trajectories_of(rule.step, rule.budget)
        assert all([one.size for one in seen] == steps(rule) for seen in found)
        return found

    def test_has_a_step_and_a_budget(self, rule: StoppingRule) -> None:
        assert type(rule.step) is type(rule.budget) is int and rule.step >= 1 and rule.budget >= 1

    def test_a_stop_reason_comes_at_a_horizon_and_by_the_budget(
        self, rule: StoppingRule, trajectories: list[list[Snapshot]]
    ) -> None:
        for seen in trajectories:
            watch, size, horizon = rule.open(), 0, 0
            for snapshot in seen:
                if horizon == size:
                    horizon = watch.horizon(size)
                    assert size < horizon <= rule.budget
                stop_reason, size = watch.observe(snapshot), snapshot.size
                assert size <= horizon and horizon in steps(rule)
                if stop_reason is not None:
                    break
            assert size == horizon and stop_reason is not None
            assert stop_reason is self.early or (size == rule.budget and stop_reason is StopReason.BUDGET)

    def test_a_horizon_is_where_it_can_stop(self, rule: StoppingRule) -> None:
        """Restless up to one horizon and settled from there: it stops at the next one, whichever that is."""
        for quiet_from in [0, *steps(rule)[:-1]]:
            watch = rule.open()
            for size in (size for size in steps(rule) if size <= quiet_from):
                assert watch.observe(self.unsettled(size)) is None
            first = watch.horizon(quiet_from)
            if self.horizon_begins(rule, quiet_from):
                rest = [self.settled(size) for size in steps(rule) if size > quiet_from]
                found = stop_reasons(watch, rest)
                assert rest[len(found) - 1].size == first and found[-1] is not None
                assert found[-1] is self.early or first == rule.budget

    def horizon_begins(self, rule: StoppingRule, size: int) -> bool:
        """Whether what is settled from ``size`` on is seen as settled at the next horizon."""
        return True

    def test_the_budget_ends_the_most_restless_segment(self, rule: StoppingRule) -> None:
        found = stop_reasons(rule.open(), [self.unsettled(size) for size in steps(rule)])
        assert found == [None] * (len(steps(rule)) - 1) + [StopReason.BUDGET]

    def test_watches_are_independent_and_deterministic(
        self, rule: StoppingRule, trajectories: list[list[Snapshot]]
    ) -> None:
        expected = [stop_reasons(rule.open(), seen) for seen in trajectories]
        assert [stop_reasons(rule.open(), seen) for seen in trajectories] == expected
        watches, found = [rule.open() for _ in trajectories], [list[StopReason | None]() for _ in trajectories]
        for place in range(len(steps(rule))):  # all segments at once, a step of each
            for watch, seen, said in zip(watches, trajectories, found, strict=True):
                if not said or said[-1] is None:
                    said.append(watch.observe(seen[place]))
        assert found == expected

    def test_asking_for_horizons_changes_nothing(self, rule: StoppingRule, trajectories: list[list[Snapshot]]) -> None:
        """An engine asks often, and for sizes that are not observed yet."""
        for seen in trajectories:
            expected, watch = stop_reasons(rule.open(), seen), rule.open()
            found: list[StopReason | None] = []
            for snapshot in seen[: len(expected)]:
                assert len({tuple(watch.horizon(size) for size in range(rule.budget)) for _ in range(2)}) == 1
                found.append(watch.observe(snapshot))
            assert found == expected

    def test_the_signature_tells_every_setting(self, make: Make) -> None:
        rules = [make(**settings) for settings in self.settings()]
        assert len({rule.signature for rule in rules}) == len(rules)
        for rule, settings in zip(rules, self.settings(), strict=True):
            assert rule.signature == make(**settings).signature
            watch = rule.open()
            stop_reasons(watch, [self.settled(size) for size in steps(rule)])
            assert rule.signature == make(**settings).signature  # also after it was used

    def settings(self) -> list[dict[str, Any]]:
        """Each differs from the others in one setting at least."""
        return [{}, {"k": 4}, {"n": 60}, {"k": 4, "n": 60}]


class RivalsContract(RuleContract):
    """What a rule guarantees that looks at the best candidate's rivals."""

    early = StopReason.DECIDED

    def settled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 1.0, lambda: rivals(1.0, 0.0))

    def unsettled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 1.0, lambda: rivals(-1.0, 1.0))

    def test_the_pools_have_segments_of_both_kinds(self, make: Make) -> None:
        rule = make(k=8, n=64)
        ends = {stop_reasons(rule.open(), seen)[-1] for seen in trajectories_of(8, 64)}
        assert ends == {StopReason.DECIDED, StopReason.BUDGET}

    def test_rivals_are_only_asked_for_where_it_could_stop(
        self, rule: StoppingRule, trajectories: list[list[Snapshot]]
    ) -> None:
        """They cost something."""
        requested: list[int] = []

        def counted(snapshot: Snapshot) -> Snapshot:
            def request() -> Rivals:
                requested.append(snapshot.size)
                assert snapshot.rivals is not None
                return snapshot.rivals()

            return replace(snapshot, rivals=request)

        for seen in trajectories:
            watch = rule.open()
            stop_reasons(watch, [counted(snapshot) for snapshot in seen])
            assert set(requested) <= {watch.horizon(size) for size in range(rule.budget)}
            assert len(requested) == len(set(requested))
            requested.clear()

    def test_without_rivals_it_goes_to_its_budget(self, rule: StoppingRule) -> None:
        alone = [replace(self.settled(size), rivals=None) for size in steps(rule)]
        assert stop_reasons(rule.open(), alone) == [None] * (len(alone) - 1) + [StopReason.BUDGET]


class ScoresContract(RuleContract):
    """Contract of rules that look at the scores of all samples."""

    early = StopReason.DECIDED

    def settled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 1.0, scores=lambda: np.ones(size))

    def unsettled(self, size: int) -> Snapshot:
        return Snapshot(size, 0, 0.0, scores=lambda: np.linspace(-5.0, 0.0, size))

    def test_without_scores_it_goes_to_its_budget(self, rule: StoppingRule) -> None:
        alone = [replace(self.settled(size), scores=None) for size in steps(rule)]
        assert stop_reasons(rule.open(), alone) == [None] * (len(alone) - 1) + [StopReason.BUDGET]


def rivals(mean: float, error: float) -> Rivals:
    return Rivals(np.array([mean]), np.array([error]), np.array([1.0, 1.0]))
