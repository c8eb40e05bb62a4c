"""A run whose threshold is steered: what segments may depend on, resumed runs, and the cost that comes out."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from quitmt import stop
from quitmt.errors import UsageError
from quitmt.files.outcomes import from_fields, to_fields
from quitmt.stop.headroom import Headroom
from quitmt.stop.learned import LEAST, needed
from quitmt.stop.loss import Loss
from quitmt.stop.remembered import Remembered
from quitmt.stop.steering import LAG, SLACK, Aimed, Steered, ThresholdSteering
from quitmt.types import Outcome, Snapshot, StopReason

RULE = Loss(step=4, budget=256)


def outcome(aimed: Aimed, seed: int, tokens: int | None = None) -> Outcome:
    """Of a segment whose signal falls as 1/n from where its seed says, with some noise."""
    rng = np.random.default_rng(seed)
    start, rule = float(np.exp(rng.normal(0, 1))), aimed.rule
    signals = {size: start / size * float(np.exp(rng.normal(0, 0.2))) for size in rule.sizes()}
    told: Any = _Told(rule, signals)
    watch = replace(aimed, rule=told).open()
    stop_reason, size, trajectory = None, 0, []
    while stop_reason is None:
        size += rule.step
        trajectory.append(0.5)
        stop_reason = watch.observe(Snapshot(size, 0, 0.5))
    price = None if tokens is None else tokens * size
    kept = tuple(watch.kept_signals)
    return Outcome(
        str(seed), "s", "t", 0, 0.5, size, stop_reason, tuple(trajectory), budget=256, signals=kept, tokens=price
    )


class _Told:
    """A rule whose signals are given."""

    def __init__(self, rule: Any, signals: dict[int, float]) -> None:
        self._rule, self._signals = rule, signals

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rule, name)

    def signal(self, snapshot: Snapshot) -> float:
        return self._signals[snapshot.size]


def run(steering: ThresholdSteering, seeds: list[int], *, late: int = 0, tokens: int | None = None) -> list[Outcome]:
    """Outcomes become known as late as they may, or ``late`` positions after they could."""
    found: list[Outcome] = []
    told = 0
    for position, seed in enumerate(seeds):
        while told < position and (not steering.ready or position - told > late):
            steering.add(told, found[told])
            told += 1
        assert steering.ready
        found.append(outcome(steering.next(position), seed, tokens))
    return found


def test_segments_wait_for_a_fixed_number_of_those_before() -> None:
    assert [needed(position, LAG) for position in (0, 1, 2, 3, 8, 32, 60, 100)] == [0, 0, 1, 1, 5, 21, 44, 84]
    assert [needed(position, LAG, 100) for position in (60, 80, 90, 98, 99)] == [44, 70, 85, 97, 98]
    for length in (None, 1, 5, 100):
        assert all(needed(i, LAG, length) <= needed(i + 1, LAG, length) <= i for i in range(1, 100))
    assert max(position - needed(position, LAG) for position in range(500)) == LAG


def test_not_ready_before_what_it_depends_on() -> None:
    steering = Steered(RULE, 32).steer()
    for position in range(2):
        assert steering.ready
        steering.next(position)
    assert not steering.ready  # the third needs the first
    steering.add(1, outcome(Aimed(RULE, 32, False, "", 256), 1))
    assert not steering.ready
    steering.add(0, outcome(Aimed(RULE, 32, False, "", 256), 0))
    assert steering.ready


@pytest.mark.parametrize("late", [0, 1, 5, LAG])
def test_when_outcomes_become_known_changes_nothing(late: int) -> None:
    seeds = list(range(80))
    assert run(Steered(RULE, 40).steer(), seeds, late=late) == run(Steered(RULE, 40).steer(), seeds, late=2)


def test_outcomes_in_any_order() -> None:
    """All that are done of a window of positions, shuffled."""
    straight = run(Steered(RULE, 40).steer(), list(range(60)))
    steering, found, shuffled = Steered(RULE, 40).steer(), [], random.Random(1)
    waiting: list[int] = []
    for position in range(60):
        shuffled.shuffle(waiting)
        while not steering.ready:
            done = waiting.pop()
            steering.add(done, found[done])
        found.append(outcome(steering.next(position), position))
        waiting.append(position)
    assert found == straight


def test_resumed_from_what_files_hold() -> None:
    straight = run(Steered(RULE, 40).steer(), list(range(60)))
    kept = [from_fields(json.loads(json.dumps(to_fields(one)))) for one in straight]
    steering = Steered(RULE, 40).steer()
    for position in range(60):
        aimed = steering.next(position)
        if position >= 45:
            assert outcome(aimed, position) == straight[position]
        steering.add(position, kept[position])


@pytest.mark.parametrize(("cost", "scale"), [(24, 1e-4), (80, 1e4)])
def test_cost_comes_out_as_asked_in_any_unit(cost: int, scale: float) -> None:
    means = []
    for first in range(0, 800, 200):
        steering = Steered(RULE, cost).steer()
        found = []
        for position in range(200):
            one = outcome(_scaled(steering.next(position), 1 / scale), first + position)
            found.append(replace(one, signals=tuple(scale * signal for signal in one.signals)))
            steering.add(position, found[-1])
        means.append(np.mean([one.cost for one in found]) / cost)
    assert np.mean(means) == pytest.approx(1, abs=0.03)
    assert all(abs(mean - 1) < 0.1 for mean in means)


def _scaled(aimed: Aimed, scale: float) -> Aimed:
    return replace(aimed, rule=aimed.rule.at(aimed.rule.threshold * scale))


@pytest.mark.parametrize("cost", [24, 40, 80])
def test_of_a_known_length_the_cost_comes_out_nearly_exactly(cost: int) -> None:
    for first in range(0, 800, 200):
        steering = Steered(RULE, cost).steer()
        steering.expect(200)
        found = run(steering, list(range(first, first + 200)))
        assert np.mean([one.cost for one in found]) == pytest.approx(cost, rel=SLACK + 0.01)
        assert len({one.size for one in found[-30:]}) > 3


def test_a_length_that_was_wrong_is_no_harm() -> None:
    for told in (1, 20, 1000):
        steering = Steered(RULE, 40).steer()
        steering.expect(told)
        assert np.mean([one.cost for one in run(steering, list(range(60)))]) == pytest.approx(40, rel=0.5)


def test_how_signals_fall_is_seen() -> None:
    """Those of segments that went on say how the others would have: here as 1/n², not as 1/n."""
    looks = np.array([16, 32, 64, 128])
    known = Remembered(looks, None)
    for seed in range(40):
        start = float(np.exp(np.random.default_rng(seed).normal()))
        signals = start * (16.0 / looks) ** 2
        seen = 2 + seed % 3
        one = Outcome("", "s", "t", 0, 0.5, int(looks[seen - 1]), StopReason.DECIDED, (), budget=256)
        known.add(replace(one, signals=tuple(signals[:seen])), [0.5] * seen, float(looks[seen - 1]))
    threshold = known.threshold(Loss(step=16, minimum=16, budget=256), 64.0)
    starts = np.exp([np.random.default_rng(seed).normal() for seed in range(40)])
    ends = [next((n for n in looks if start * (16 / n) ** 2 <= threshold), 256) for start in starts]
    assert np.mean(ends) == pytest.approx(64, rel=0.12)


def test_the_first_segments_say_little_about_the_others() -> None:
    """Whatever kind the first one is of: the threshold is near that of all kinds together, on the scale seen."""
    rule = Loss(step=8, minimum=16, budget=256)
    looks = np.array(list(rule.sizes())[:-1])
    kinds = rule.typical(looks)
    assert kinds[:, 0].mean() == pytest.approx(1) and (np.diff(kinds, axis=1) <= 0).all()

    def threshold(rows: list[int], typical: np.ndarray | None) -> float:
        known = Remembered(looks, typical)
        for row in rows:
            one = Outcome("", "s", "t", 0, 0.5, 256, StopReason.BUDGET, (), budget=256)
            known.add(replace(one, signals=tuple(kinds[row])), [0.5] * len(looks), 256.0)
        return known.threshold(rule, 64.0)

    of_all = threshold(list(range(len(kinds))), None)
    for row, start in enumerate(kinds[:, 0]):
        if start:
            assert threshold([row], kinds) / start == pytest.approx(of_all, rel=0.25)
    assert max(abs(threshold([row], None) / kinds[row, 0] / of_all - 1) for row in range(1, len(kinds))) > 1
    unseen = Remembered(looks, kinds)
    unseen.add(Outcome("", "s", "t", 0, 0.5, 8, StopReason.EXHAUSTED, ()), [], 8.0)  # it ended before the first look
    assert unseen.threshold(rule, 64.0) == 0


def test_tokens() -> None:
    found = run(Steered(RULE, 1200.0, tokens=True).steer(), list(range(200)), tokens=30)
    assert np.mean([one.tokens or 0 for one in found]) == pytest.approx(1200, rel=0.1)
    assert found[0].size == RULE.minimum


def test_tokens_that_nobody_counted() -> None:
    with pytest.raises(UsageError, match="without a number of tokens"):
        run(Steered(RULE, 1200.0, tokens=True).steer(), list(range(8)))


def test_blank_and_failed_segments_count_for_nothing() -> None:
    plain = run(Steered(RULE, 40, lag=1000).steer(), list(range(40)))
    steering, found, seeds = Steered(RULE, 40, lag=1000).steer(), [], count()
    nothing = Outcome("", "", "", None, None, 0, StopReason.STABLE, ())
    failed = replace(plain[0], stop=StopReason.FAILED, error="broken", size=250)
    # Positions 2i and 2i + 1 know half of those before: the very segments that position i knows without the others.
    for position in range(80):
        aimed = steering.next(position, blank=position % 4 == 1)
        if position % 2:
            steering.add(position, nothing if position % 4 == 1 else failed)
        else:
            found.append(outcome(aimed, next(seeds)))
            steering.add(position, found[-1])
    assert found[0].size == plain[0].size
    assert np.mean([one.size for one in found]) == pytest.approx(np.mean([one.size for one in plain]), rel=0.35)


def test_a_segment_alone_gets_what_was_asked_for() -> None:
    steered = Steered(RULE, 60)
    assert steered.alone() == steered.open().horizon(40) == 48
    for length, size in ((1, 48), (60, 64), (200, 64), (10_000, 64)):  # where later ones can make up for it
        steering = steered.steer()
        steering.expect(length)
        assert steering.next(0).most == size
    assert steered.signature == "paced|loss|k:4|l:0|new:0.03|scale:0.6|m:4|looks:2|n:256|cost:60|lag:16"


def test_top_is_learned() -> None:
    """With scores far from 0 and 1, those of the best segments stand for the perfect one."""
    steered = Steered(Headroom(step=8, minimum=16, reach=16, top="auto"), 64)
    steering = steered.steer()
    tops, sizes = [], []
    for position in range(60):
        aimed = steering.next(position)
        rng = np.random.default_rng(position)
        scores = np.maximum.accumulate(100 + rng.normal(0, 5) + rng.normal(0, 3, 512))
        watch, size, stop_reason = aimed.open(), 0, None
        while stop_reason is None:
            size += 8
            stop_reason = watch.observe(Snapshot(size, 0, float(scores[size - 1]), scores=lambda: np.array([80.0])))
        tops.append(aimed.rule.top)  # type: ignore[attr-defined]
        sizes.append(size)
        trajectory = tuple(scores[7:size:8].tolist())
        made = Outcome("", "s", "t", 0, trajectory[-1], size, stop_reason, trajectory, budget=512)
        steering.add(position, replace(made, signals=tuple(watch.kept_signals)))
    begun = next(position for position in count() if needed(position, LAG) >= LEAST)
    assert sizes[:begun] == [steered.alone()] * begun  # whatever the scale is
    assert all(105 < top < 125 for top in tops[begun:])
    assert len(set(sizes[begun:])) > 3


def test_pools_that_end_early_cost_what_they_have() -> None:
    aimed = Steered(RULE, 60).steer().next(0)
    short = stop.within(aimed, 20)
    watch = short.open()
    stop_reasons = [watch.observe(Snapshot(size, 0, 0.5)) for size in (4, 8, 12, 16, 20)]
    assert stop_reasons[-1] is StopReason.BUDGET and stop_reasons[:-1] == [None] * 4


@pytest.mark.parametrize(
    ("length", "overspent", "expected"),
    [
        (None, 4.0, 1 - 4 / 40),  # the debt is spread over HORIZON segments
        (None, -4.0, 1 + 4 / 40),
        (None, 40.0, 0.6),  # at most SWING
        (None, -40.0, 1.4),
        (12, 1.0, 1 - (1.03 - 0.12) / 10),  # over the segments that are left, without half of the slack
        (200, 4.0, 1 - (4.5 - 2) / 40),  # but over no more than HORIZON
    ],
)
def test_overspending_is_made_up_for_gradually(length: int | None, overspent: float, expected: float) -> None:
    steering = Steered(RULE, 40).steer()
    steering.expect(length)
    first = outcome(steering.next(0), 1)
    steering.next(1)
    steering.add(0, replace(first, anchors=round(40 * (1 + overspent)) - first.size))
    steering.next(2)
    assert steering._planned[-1] == (2, pytest.approx(expected))
