"""A replay is the live run: rules on recorded trajectories against the engine on the same pools."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quitmt import rerank
from quitmt.api import Translator
from quitmt.generate.recorded import RecordedGenerator
from quitmt.lab.frames import Replayed, Trajectories
from quitmt.lab.replay.rules import quit_rule, steps, unaccelerated, window_ranges
from quitmt.protocols import Update
from quitmt.types import Candidate, Outcome, RecordedPool, Segment, StopReason
from tests.lab.arrays import fixed

MakePool = Callable[[int, int], list[str]]
SIZES = [60] * 8 + [1, 2, 7, 21, 22, 23, 24, 25, 40, 48, 59]
"""Many are shorter than the budgets, some by less than a step."""


@pytest.fixture
def pools(make_pool: MakePool) -> list[RecordedPool]:
    """Texts that resemble each other, with scores that tie often: rounded ones."""
    rng = np.random.default_rng(5)
    found = []
    for number, size in enumerate(SIZES):
        scores = rng.beta(2, 5, size).round(2)
        texts = make_pool(number, size)
        candidates = (Candidate(text, scores={"q": float(q)}) for text, q in zip(texts, scores, strict=True))
        found.append(RecordedPool(Segment(f"s{number}"), tuple(candidates)))
    return found


def recorded(pools: list[RecordedPool], reranker: str) -> Trajectories:
    """The snapshot at every pool size, by the reranker itself; final scores are made up, as only MBR's differ."""
    own = rerank.load(reranker)
    most = max(SIZES)
    best, score = np.empty((len(pools), most), np.int64), np.empty((len(pools), most))
    for row, pool in enumerate(pools):
        (snapshots,) = own.extend([Update(own.open(pool.segment), pool.candidates, 1)])
        assert isinstance(snapshots, list)
        for size in range(1, most + 1):
            snapshot = snapshots[min(size, len(snapshots)) - 1]
            best[row, size - 1], score[row, size - 1] = snapshot.best, snapshot.score
    final = np.random.default_rng(6).random((len(pools), most))
    ids = tuple(pool.segment.id for pool in pools)
    seconds = np.ones(len(pools))
    return Trajectories(reranker, own.signature, ids, np.array(SIZES), best, score, final, seconds, seconds)


def live(pools: list[RecordedPool], reranker: str, **settings: object) -> list[Outcome]:
    generator = RecordedGenerator(pools)
    translator = Translator(generator, reranker=reranker, support="all", **settings)  # type: ignore[arg-type]
    return translator.translate([Segment(pool.segment.id, "x") for pool in pools])


def check_same(replayed: Replayed, outcomes: list[Outcome], trajectories: Trajectories) -> None:
    for row, outcome in enumerate(outcomes):
        assert outcome.error is None
        assert (replayed.size[row], replayed.index[row]) == (outcome.size, outcome.index), trajectories.ids[row]
        assert trajectories.score[row, outcome.size - 1] == pytest.approx(outcome.score, abs=1e-12)
        assert replayed.score[row] == trajectories.final[row, outcome.index]


@pytest.mark.parametrize("reranker", ["qe:recorded:q", "mbr:chrf"])
@pytest.mark.parametrize(
    ("k", "w", "alpha", "n"),
    [
        (8, 2, 1e-3, 60),
        (4, 3, 0.0, 60),
        (3, 4, 0.01, 60),
        (7, 3, 0.02, 60),  # k does not divide n, and the shorter step completes a window
        (7, 2, 0.005, 50),
        (7, 2, 0.0, 20),  # many reach the budget
        (1, 2, 0.0, 33),
        (8, 8, 1e-3, 64),  # longer than any pool
        (5, 12, 1.0, 60),
        (16, 8, 1.0, 60),  # no window is ever complete
    ],
)
def test_quit(pools: list[RecordedPool], reranker: str, k: int, w: int, alpha: float, n: int) -> None:
    trajectories = recorded(pools, reranker)
    replayed = quit_rule(trajectories, k=k, w=w, alpha=alpha, budget=n)
    outcomes = live(pools, reranker, k=k, w=w, alpha=alpha, n=n)
    check_same(replayed, outcomes, trajectories)
    assert replayed.full.tolist() == [outcome.size == n for outcome in outcomes]
    assert replayed.settings == {"k": k, "w": w, "alpha": alpha, "n": n}
    if (k, w) == (3, 4):  # else the above would say less than it seems to
        assert {outcome.stop for outcome in outcomes} >= {StopReason.STABLE, StopReason.EXHAUSTED}
        assert len({outcome.size for outcome in outcomes if outcome.stop == StopReason.STABLE}) > 2


@pytest.mark.parametrize("reranker", ["qe:recorded:q", "mbr:chrf"])
@pytest.mark.parametrize("size", [1, 5, 22, 60])
def test_fixed(pools: list[RecordedPool], reranker: str, size: int) -> None:
    trajectories = recorded(pools, reranker)
    replayed = fixed(trajectories, size, 60)
    check_same(replayed, live(pools, reranker, rule=f"fixed:{size}", n=60), trajectories)


@pytest.mark.parametrize("budget", [24, 60, 64])
def test_unaccelerated(pools: list[RecordedPool], budget: int) -> None:
    trajectories = recorded(pools, "mbr:chrf")
    replayed = unaccelerated(trajectories, budget)
    check_same(replayed, live(pools, "mbr:chrf", rule="full", n=budget), trajectories)
    assert replayed.full.tolist() == [size >= budget for size in SIZES]


def test_steps_end_with_a_shorter_one() -> None:
    assert steps(60, 8, 512).tolist() == [8, 16, 24, 32, 40, 48, 56, 60]
    assert steps(60, 8, 24).tolist() == [8, 16, 24]
    assert steps(3, 8, 24).tolist() == [3]


def test_ranges_are_within_windows() -> None:
    score = np.array([[1.0, 5.0, 2.0, 2.5, 9.0, 8.0]])
    assert window_ranges(score, np.array([[1, 2], [3, 4], [5, 6]])).tolist() == [[4.0, 0.5, 1.0]]
    assert window_ranges(score, np.array([[2, 4, 6]])).tolist() == [[5.5]]
