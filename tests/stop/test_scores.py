"""Rules that look at all scores: their formulas against plain computations, and the rerankers that they fit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import quitmt
from quitmt import rerank, stop
from quitmt.engine.driver import Driver, in_order
from quitmt.errors import UsageError
from quitmt.generate.recorded import RecordedGenerator
from quitmt.protocols import RerankerTraits, Update
from quitmt.stop.consistency import doubt, leading
from quitmt.stop.window import advantage
from quitmt.types import Candidate, Outcome, RecordedPool, Segment, Snapshot, StopReason


def ran(texts: Sequence[str], reranker: Any, rule: str, k: int = 1) -> Outcome:
    """One pool in the engine."""
    pool = RecordedPool(Segment("1", "source"), tuple(map(Candidate, texts)))
    driver = Driver(RecordedGenerator([pool]), reranker, stop.load(rule, k=k, n=len(texts)))

    async def run() -> Outcome:
        [found] = [one.outcome async for one in in_order(driver.run([pool.segment]))]
        return found

    return asyncio.run(run())


@pytest.mark.parametrize("support", ["all", "others"])
def test_scores_of_samples_are_those_of_the_ranking(support: Any) -> None:
    texts = ["a cat", "a dog", "a cat", "the cat", "a cat sat", "the dog"]
    reranker = rerank.load("mbr:chrf", support=support)
    state: Any = reranker.open(Segment("1"))
    [found] = reranker.extend([Update(state, [Candidate(text) for text in texts], 2)])
    assert isinstance(found, list)
    for size, snapshot in zip((2, 4, 6), found, strict=True):
        assert snapshot.scores is not None
        scores = snapshot.scores()
        again: Any = reranker.open(Segment("1"))
        reranker.extend([Update(again, [Candidate(text) for text in texts[:size]], size)])
        ranked: Any = reranker
        expected = {texts[index]: score for index, score in ranked.ranked(again)}
        np.testing.assert_allclose(scores, [expected[text] for text in texts[:size]], atol=1e-12)
        assert scores.max() == pytest.approx(snapshot.score)


def test_scores_of_qe_are_those_of_the_samples_alone() -> None:
    reranker = rerank.qe(lambda source, candidate: len(candidate))
    state = reranker.open(Segment("1"))
    update = Update(state, [Candidate("ab"), Candidate("a"), Candidate("abc")], 2, [Candidate("abcdef")])
    [found] = reranker.extend([update])
    assert isinstance(found, list)
    assert [one.scores().tolist() for one in found if one.scores] == [[2, 1], [2, 1, 3]]
    assert [one.score for one in found] == [6, 6]


def beta_below_half(a: int, b: int) -> float:
    x = (np.arange(200_000) + 0.5) / 200_000
    density = x**a * (1 - x) ** b
    return float(density[:100_000].sum() / density.sum())


@pytest.mark.parametrize(("a", "b"), [(1, 0), (4, 0), (7, 3), (3, 3), (20, 9), (200, 150)])
def test_doubt_is_the_tail_of_a_beta(a: int, b: int) -> None:
    assert doubt(a, b) == pytest.approx(beta_below_half(a, b), rel=1e-5)


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ("aab", (2, 1)),
        ("aabb", (2, 2)),
        ("aabbc", (2, 2)),
        ("aaaa", (4, 0)),
        ("abc", (1, 1)),
        ("a--", (1, 0)),
        ("--", (0, 0)),
    ],
)
def test_votes_are_counted_from_shares(votes: str, expected: tuple[int, int]) -> None:
    shares = [0.0 if vote == "-" else votes.count(vote) / len(votes) for vote in votes]
    assert leading(np.array(shares)) == expected


def test_a_vote_stops_as_soon_as_it_is_decided() -> None:
    vote = quitmt.vote(lambda text: text or None)
    assert ran("1111111111", vote, "consistency").size == 4  # 2^-5 is below 0.05
    assert ran("121211111111", vote, "consistency").size == 10  # 8 against 2 is the first with less
    assert ran("1212121212", vote, "consistency").stop is StopReason.BUDGET
    assert ran("1111111111", vote, "consistency:doubt=0.001").size == 9


class Shares:
    """Scores that add up to 1 over the pool, as a listwise ranker's do: the more samples, the smaller they are."""

    signature = "shares"
    traits = RerankerTraits(gives_scores=True, comparable=False)

    def open(self, segment: Segment) -> list[str]:
        return []

    def extend(self, updates: Sequence[Update[list[str]]]) -> list[list[Snapshot]]:
        return [self._snapshots(update) for update in updates]

    def _snapshots(self, update: Update[list[str]]) -> list[Snapshot]:
        found = []
        for count, one in enumerate(update.candidates, start=1):
            update.state.append(one.text)
            if count % update.stride == 0 or count == len(update.candidates):
                lengths = np.array([len(text) for text in update.state])
                shares = lengths / lengths.sum()
                best = int(shares.argmax())
                found.append(Snapshot(len(shares), best, float(shares[best]), scores=lambda shares=shares: shares))
        return found


def test_quit_is_refused_where_scores_do_not_compare() -> None:
    with pytest.raises(UsageError):
        Driver(RecordedGenerator([]), Shares(), stop.load("quit"))


def test_quit_watches_the_advantage_there() -> None:
    texts = ["abcd", "ab"] * 32  # the best share falls with every sample, what it is ahead by does not
    assert ran(texts, Shares(), "quit:watch=advantage", k=2).size == 16
    assert ran(["a" * length for length in range(1, 65)], Shares(), "quit:watch=advantage", k=2).size == 64


def test_the_advantage_is_in_standard_deviations() -> None:
    scores = np.array([1.0, 2.0, 6.0])
    expected = 3 / np.sqrt(14 / 3)
    assert advantage(Snapshot(3, 2, 6.0, scores=lambda: scores)) == pytest.approx(expected)
    assert advantage(Snapshot(3, 2, 13.0, scores=lambda: 2 * scores + 1)) == pytest.approx(expected)
    assert advantage(Snapshot(2, 0, 1.0, scores=lambda: np.ones(2))) == 0.0
