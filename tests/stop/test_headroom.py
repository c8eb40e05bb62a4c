"""Headroom: what it looks at, and the top that it learns from earlier segments of a run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from quitmt import stop
from quitmt.errors import UsageError
from quitmt.files.outcomes import from_fields, to_fields
from quitmt.stop.headroom import REACH_FROM, SHARE, USUAL_CAP, Headroom
from quitmt.stop.learned import LAG, LEAST, PRIOR, Level, Levels
from quitmt.types import Outcome, Snapshot, StopReason

SEGMENTS = 300


def pools(scale: float = 0.02, top: float = 0.9) -> np.ndarray:
    """Scores of 64 candidates per segment: those of hard segments are lower and further apart."""
    rng = np.random.default_rng(3)
    difficulty = rng.gamma(1.0, 1.0, SEGMENTS)
    return np.asarray(top - scale * difficulty[:, None] * (0.3 + rng.gamma(2.0, 1.0, (SEGMENTS, 64))))


def outcome(rule: Any, scores: np.ndarray) -> Outcome:
    rule = stop.within(rule, len(scores))
    watch, size, reason = rule.open(), 0, None
    while reason is None:
        size = watch.horizon(size)
        reason = watch.observe(Snapshot(size, 0, float(scores[:size].max())))
    return Outcome("i", "s", "t", 0, float(scores[:size].max()), size, reason, ())


def run(rule: Headroom, rows: np.ndarray, known: list[Outcome] | None = None, late: int = 0) -> list[Outcome]:
    """Outcomes become known as late as they may, or ``late`` positions after they could; the first may be ``known``."""
    steering = rule.steer()
    assert steering is not None
    found: list[Outcome] = []
    added = 0
    for position, scores in enumerate(rows):
        while added < position and (not steering.ready or position - added > late):
            steering.add(added, found[added])
            added += 1
        of_segment = steering.next(position)
        found.append(known[position] if known and position < len(known) else outcome(of_segment, scores))
    return found


def sizes(found: list[Outcome]) -> np.ndarray:
    return np.array([one.size for one in found])


def test_mean_cost_is_about_what_is_usual() -> None:
    for usual in (6, 12):
        found = sizes(run(Headroom(top="auto", usual=usual), pools()))
        assert found.mean() == pytest.approx(usual, rel=0.35)
        assert found.max() <= USUAL_CAP * usual and len(set(found[-50:])) > 5


@pytest.mark.parametrize(("scale", "shift"), [(25.0, -30.0), (100.0, 7.0), (1e-4, 0.0)])
def test_any_scale_gives_the_same(scale: float, shift: float) -> None:
    rows = pools()
    assert (
        sizes(run(Headroom(top="auto"), rows)) == sizes(run(Headroom(top="auto"), scale * rows + shift))
    ).mean() > 0.99  # rounding


def test_better_than_a_fixed_number_of_the_same_cost() -> None:
    rows = pools()
    used = sizes(run(Headroom(top="auto"), rows))
    best = np.maximum.accumulate(rows, axis=1)
    fixed = np.interp(used.mean(), np.arange(1, 65), (best[:, -1:] - best).mean(axis=0))
    assert (best[:, -1] - best[np.arange(SEGMENTS), used - 1]).mean() < 0.9 * fixed


@pytest.mark.parametrize("late", [0, 7, LAG])
def test_when_outcomes_become_known_changes_nothing(late: int) -> None:
    assert run(Headroom(top="auto"), pools(), late=late) == run(Headroom(top="auto"), pools(), late=2)


def test_resumed_from_what_files_hold() -> None:
    straight = run(Headroom(top="auto"), pools())
    kept = [from_fields(json.loads(json.dumps(to_fields(one)))) for one in straight[:200]]
    assert run(Headroom(top="auto"), pools(), known=kept)[200:] == straight[200:]


def test_blank_and_failed_segments_teach_nothing() -> None:
    steering = Headroom(top="auto").steer()
    assert steering is not None
    nothing = Outcome("", "", "", None, None, 0, StopReason.STABLE, ())
    failed = Outcome("", "s", "t", 0, 99.0, 5, StopReason.FAILED, (), error="broken")
    for position in range(100):
        assert steering.next(position).signature == Headroom(top="auto").learned(None).signature
        steering.add(position, failed if position % 2 else nothing)


def test_with_a_prior_the_first_segments_know_it() -> None:
    rule = Headroom(top="auto", prior_top=0.9, prior_room=0.03)
    steering = rule.steer()
    assert steering is not None
    for position in range(LAG + 1):  # they need not wait for each other
        assert steering.ready
        assert steering.next(position).signature == Headroom(top=0.9, share=0.03 / 12, cap=120).signature
    assert not steering.ready
    steering = rule.steer()
    assert steering is not None
    steering.expect(2)  # nor at the end
    assert all(steering.ready and steering.next(position) for position in range(2))


def test_segments_that_belong_to_no_run() -> None:
    """They get the usual number of candidates, or go by the prior."""
    alone = Headroom(top="auto").open()
    assert alone.horizon(0) == 12 and alone.observe(Snapshot(12, 0, -7.0)) is StopReason.DECIDED
    started = Headroom(top="auto", prior_top=0.9, prior_room=0.03).open()
    assert started.observe(Snapshot(11, 0, 0.87)) is None
    assert started.observe(Snapshot(12, 0, 0.871)) is StopReason.DECIDED
    fixed = Headroom(top=0.89)
    assert fixed.open() is fixed and fixed.share == SHARE and fixed.steer() is None


def test_levels() -> None:
    levels = Levels()
    for best in range(LEAST - 1):
        levels.add(float(best))
    assert levels.level is None
    for best in range(LEAST - 1, 101):
        levels.add(float(best))
    level = levels.level
    assert level is not None and level.top == pytest.approx(99)
    assert level.room == pytest.approx(np.maximum(99 - np.arange(101.0), 0).mean())
    prior = Level(5.0, 1.0)
    started = Levels(prior)
    assert started.level == prior
    for _ in range(PRIOR):
        started.add(7.0)
    assert started.level == Level(6.0, 0.5)  # half and half


def test_a_metric_that_gives_everything_the_same_score() -> None:
    found = sizes(run(Headroom(top="auto"), np.zeros((100, 64))))
    assert set(found[LAG:]) == {2}


def test_looks_early_and_in_small_steps() -> None:
    assert list(Headroom(budget=50).sizes()) == [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 50]
    assert next(Headroom(step=8).sizes()) == 8


def test_cap() -> None:
    """However much is left, there it ends: also where no look falls on it."""
    rule = Headroom(step=10, share=1e-9, top=1, cap=130)
    assert next(size for size in range(10, 520, 10) if rule.observe(Snapshot(size, 0, 0.1))) == 130 == rule.budget
    assert Headroom(cap=128, budget=64).budget == 64 and Headroom(budget=512).budget == 512


@pytest.mark.parametrize("mean", [None, 0.001])
def test_reach(mean: float | None) -> None:
    """A line whose candidates all score near 0 stops soon, if that is known; the mean of a few says little."""
    rule = Headroom(top=1, share=0.005, reach=16)
    scores = None if mean is None else lambda: np.array([mean])
    snapshot = Snapshot(64, 0, 0.01, scores=scores)
    assert rule.signal(snapshot) == pytest.approx((0.99 if mean is None else 16 * 0.009) / 64)
    assert (rule.observe(snapshot) is StopReason.DECIDED) == (mean is not None)
    assert rule.signal(Snapshot(REACH_FROM - 1, 0, 0.01, scores=scores)) == pytest.approx(0.99 / (REACH_FROM - 1))
    assert "reach" not in Headroom().signature and "|reach:16|" in rule.signature


def test_settings() -> None:
    assert stop.load("headroom") == stop.load("headroom:top=auto") == Headroom(top="auto")
    assert stop.load("headroom:top=0.89,share=0.004", k=2) == Headroom(step=2, top=0.89, share=0.004)
    assert stop.load("headroom:top=auto,share=0.004").signature == "headroom|k:1|c:0.004|top:auto|m:2|looks:4|n:512"
    assert Headroom(top="auto", prior_top=0.9, prior_room=0.03).signature == (
        "headroom|k:1|usual:12|top:auto|prior:0.9,0.03|m:2|looks:4|n:512"
    )
    for wrong in ("top=high", "share=nan", "share=-1", "usual=0", "prior_top=inf", "prior_room=-1"):
        with pytest.raises(UsageError, match=f"{wrong.partition('=')[0]} of the headroom rule must be a number"):
            stop.load(f"headroom:{wrong}")
