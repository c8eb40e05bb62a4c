"""Replays of rules with a threshold against the engine itself, segment by segment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from quitmt import rerank, stop
from quitmt.calibrate import families
from quitmt.calibrate.observe import observe
from quitmt.engine.driver import Driver, in_order
from quitmt.errors import UsageError
from quitmt.generate.recorded import RecordedGenerator
from quitmt.stop.threshold import Threshold
from quitmt.types import Candidate, Outcome, RecordedPool, Segment

SIZES = (64, 40, 64, 7, 64, 33)


@pytest.fixture
def pools(make_pool: Callable[[int, int], list[str]]) -> list[RecordedPool]:
    rng = np.random.default_rng(5)
    found = []
    for number, size in enumerate(SIZES):
        texts = [*make_pool(number, 12)] * 6
        candidates = tuple(
            Candidate(texts[place], scores={"q": float(rng.random())}) for place in rng.integers(0, len(texts), size)
        )
        found.append(RecordedPool(Segment(str(number), "x"), candidates))
    return found


def live(pools: list[RecordedPool], reranker: str, rule: str, n: int) -> list[Outcome]:
    driver = Driver(RecordedGenerator(pools), rerank.load(reranker), stop.load(rule, k=4, n=n))

    async def run() -> list[Outcome]:
        return [one.outcome async for one in in_order(driver.run([pool.segment for pool in pools]))]

    return asyncio.run(run())


@pytest.mark.parametrize("n", [64, 50, 48])
@pytest.mark.parametrize(
    ("reranker", "spec", "thresholds"),
    [
        ("mbr:chrf", "loss:minimum=8", [0.0, 0.0005, 0.002, 0.01, 1.0]),
        ("mbr:chrf", "loss:minimum=16,new=0.2,looks=3", [0.0, 0.005, 0.02, 1.0]),
        ("qe:recorded:q", "headroom:top=1", [0.0, 0.0005, 0.002, 0.01, 1.0]),
    ],
)
def test_a_replay_is_the_live_run(
    pools: list[RecordedPool], reranker: str, spec: str, thresholds: list[float], n: int
) -> None:
    cut = [RecordedPool(one.segment, one.candidates[:n]) for one in pools]
    observed = observe(rerank.load(reranker), cut)
    rule = stop.load(spec, k=4, n=n)
    assert isinstance(rule, Threshold)
    sizes = np.array([len(one.candidates) for one in cut])
    family = families.threshold(spec, rule, np.array(thresholds), [one.signals(rule) for one in observed], sizes)
    losses = families.losses(observed)
    assert len(set(family.sizes.ravel().tolist())) > 3  # they do stop at different places
    for row, one in enumerate(family.specs):
        outcomes = live(cut, reranker, one, n)
        assert family.sizes[row].tolist() == [outcome.size for outcome in outcomes]
        final = [seen.final for seen in observed]
        lost = [scores.max() - scores[o.index] for scores, o in zip(final, outcomes, strict=True)]
        assert families.lost(losses, family.sizes)[row] == pytest.approx(lost, abs=1e-12)


def test_a_fixed_number_is_no_more_than_the_pool_has() -> None:
    family = families.fixed(8, 20, np.array([20, 5, 16]))
    assert family.specs == ("fixed:20", "fixed:16", "fixed:8")
    assert family.sizes.tolist() == [[20, 5, 16], [16, 5, 16], [8, 5, 8]]


def test_only_exact_mbr_and_qe_are_replayed() -> None:
    with pytest.raises(UsageError, match="replayed on exact mbr: and on qe:"):
        observe(rerank.load("mbr:chrf", variant="prune"), [])
