"""The race: the leader's paired advantage against a plain computation, and when it is enough."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import numpy as np
import pytest

from quitmt import rerank, stop
from quitmt.engine.driver import Driver, in_order
from quitmt.generate.recorded import RecordedGenerator
from quitmt.metrics.chrf import Chrf
from quitmt.protocols import Update
from quitmt.types import Candidate, RecordedPool, Rivals, Segment, Snapshot, StopReason


def advantages(texts: list[str], best: int) -> dict[str, tuple[float, float]]:
    """By each other distinct text: mean and standard error of u(best, h) − u(it, h), candidate by candidate."""
    utility = Chrf()
    distinct = list(dict.fromkeys(texts))
    arena = utility.open(Segment("1"))
    utility.encode([(arena, distinct)])
    matrix, _ = utility.compare(arena, range(len(distinct)), range(len(distinct)))
    found = {}
    for rival in distinct:
        if rival != texts[best]:
            support = list(range(len(texts)))
            support.remove(best)  # one candidate of each of the two is left out
            support.remove(texts.index(rival))
            rows = [matrix[distinct.index(text)] for text in (texts[best], rival)]
            d = np.array([rows[0][distinct.index(texts[i])] - rows[1][distinct.index(texts[i])] for i in support])
            found[rival] = float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d)))
    return found


def best_scores(texts: list[str]) -> list[float]:
    """The scores of all candidates, from the best one down."""
    utility = Chrf()
    arena = utility.open(Segment("1"))
    utility.encode([(arena, texts)])
    matrix, _ = utility.compare(arena, range(len(texts)), range(len(texts)))
    return sorted(matrix.mean(axis=1).tolist(), reverse=True)


@pytest.mark.parametrize("cuts", [[], [8, 16, 24], [12]])
def test_rivals_are_paired_and_counted(make_pool: Callable[[int, int], list[str]], cuts: list[int]) -> None:
    texts = [*make_pool(3, 24), *make_pool(3, 8)]
    reranker = rerank.load("mbr:chrf")
    state, snapshots = reranker.open(Segment("1")), []
    for start, end in zip([0, *cuts], [*cuts, len(texts)], strict=True):
        [found] = reranker.extend([Update(state, [Candidate(text) for text in texts[start:end]], 4)])
        assert isinstance(found, list)
        snapshots += found
    for snapshot in [*snapshots, snapshots[1]]:  # also an earlier one again
        assert snapshot.rivals is not None
        rivals = snapshot.rivals()
        expected = advantages(texts[: snapshot.size], snapshot.best)
        np.testing.assert_allclose(rivals.mean, [mean for mean, _ in expected.values()], atol=1e-12)
        np.testing.assert_allclose(rivals.error, [error for _, error in expected.values()], atol=1e-9)
        np.testing.assert_allclose(rivals.top, best_scores(texts[: snapshot.size])[:8], atol=1e-12)


def snapshot(size: int, mean: list[float], error: list[float]) -> Snapshot:
    rivals = Rivals(np.array(mean), np.array(error), np.array([0.5]))
    return Snapshot(size, 0, 0.5, lambda: rivals)


def test_stops_when_no_rival_can_be_better_by_more_than_epsilon() -> None:
    watch = stop.load("race:z=2,epsilon=0.01,minimum=16", k=8, n=64).open()
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
    rule = stop.load("race:epsilon=0.001,minimum=16", k=8, n=64)
    driver = Driver(RecordedGenerator([easy, hard]), rerank.load("mbr:chrf"), rule)

    async def run() -> dict[str, tuple[int, StopReason]]:
        found = [one.outcome async for one in in_order(driver.run([easy.segment, hard.segment]))]
        return {one.id: (one.size, one.stop) for one in found}

    assert asyncio.run(run()) == {"easy": (16, StopReason.DECIDED), "hard": (64, StopReason.BUDGET)}


def test_headroom_gives_up_early_where_little_is_left() -> None:
    watch = stop.load("headroom:top=1,share=0.01,minimum=16", k=8, n=64).open()
    assert watch.observe(Snapshot(8, 0, 0.99)) is None
    assert watch.observe(Snapshot(16, 0, 0.9)) is StopReason.DECIDED
    assert watch.observe(Snapshot(16, 0, 0.8)) is None
    assert watch.observe(Snapshot(64, 0, 0.1)) is StopReason.BUDGET
