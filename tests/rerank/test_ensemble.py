"""Scores of several metrics, made comparable within a pool."""

from __future__ import annotations

from typing import Any

import pytest

from quitmt import rerank
from quitmt.errors import QuitmtError, UsageError
from quitmt.protocols import Update, ranked
from quitmt.rerank.ensemble import Ensemble
from quitmt.types import Candidate, Segment, Snapshot

POOL = [
    Candidate("a", scores={"p": 1.0, "q": 100.0}),
    Candidate("b", scores={"p": 2.0, "q": 300.0}),
    Candidate("c", scores={"p": 4.0, "q": 100.0}),
    Candidate("b", scores={"p": 2.0, "q": 300.0}),
]


def scores(reranker: Any, pool: list[Candidate], anchors: tuple[Candidate, ...] = ()) -> dict[int, float]:
    state = reranker.open(Segment("s", "source"))
    [snapshots] = reranker.extend([Update(state, pool, len(pool), anchors)])
    found = dict(ranked(reranker, state))
    assert snapshots == [Snapshot(len(pool), max(found, key=lambda index: (found[index], -index)), max(found.values()))]
    return found


def test_ranks_are_shares_of_the_samples() -> None:
    """Of p: a beats nobody, b (two copies) one, c three; of q: b beats two, a and c nobody and equal each other."""
    found = scores(rerank.load("qe:rank:recorded:p+10*recorded:q"), POOL)
    expected = {0: 0.5 / 4 + 10 * 1 / 4, 1: 2 / 4 + 10 * 3 / 4, 2: 3.5 / 4 + 10 * 1 / 4}
    assert found == pytest.approx(expected)


def test_scaled_scores_are_in_standard_deviations() -> None:
    found = scores(rerank.load("qe:scaled:recorded:p+0.5*recorded:q"), POOL)
    mean, spread = 9 / 4, ((1.25**2 + 2 * 0.25**2 + 1.75**2) / 4) ** 0.5
    expected = [(p - mean) / spread + 0.5 * (q - 200) / 100 for p, q in ((1, 100), (2, 300), (4, 100))]
    assert list(map(found.get, range(3))) == pytest.approx(expected)


def test_what_all_agree_on_says_nothing() -> None:
    pool = [Candidate(text, scores={"p": 0.1, "q": float(ord(text))}) for text in "abcd"]
    assert scores(rerank.load("qe:scaled:5*recorded:p+recorded:q"), pool) == pytest.approx(
        scores(rerank.load("qe:scaled:recorded:q"), pool)
    )


def test_anchors_are_ranked_among_the_samples_but_are_none() -> None:
    anchors = (Candidate("z", scores={"p": 3.0}),)
    found = scores(rerank.load("qe:rank:recorded:p"), POOL, anchors)
    assert found == {0: 0.5 / 4, 1: 2 / 4, 2: 3.5 / 4, -1: 3 / 4}


def test_one_metric_by_rank_orders_as_it_does_itself() -> None:
    pool = [Candidate(text) for text in ("o gato dormiu", "o gato", "um gato dormiu", "casa", "o gato dormiu")]
    plain, ranks = (scores(rerank.load(name), pool) for name in ("mbr:chrf", "mbr:rank:chrf"))
    assert sorted(plain, key=lambda index: -plain[index]) == sorted(ranks, key=lambda index: -ranks[index])


def test_a_segment_that_fails_leaves_the_others() -> None:
    reranker = rerank.load("qe:rank:recorded:p+recorded:q")
    states = [reranker.open(Segment(name, "source")) for name in "xy"]
    pools = [POOL, [*POOL, Candidate("d", scores={"p": 1.0})]]
    good, bad = reranker.extend([Update(s, p, 2) for s, p in zip(states, pools, strict=True)])
    assert isinstance(good, list) and [one.size for one in good] == [2, 4]
    assert isinstance(bad, QuitmtError)


def test_what_cannot_be_combined() -> None:
    one = rerank.load("mbr:chrf")
    for arguments in (([one], [1.0], "sum"), ([one], [float("nan")], "rank"), ([], [], "rank")):
        with pytest.raises(UsageError):
            Ensemble(*arguments)  # type: ignore[arg-type]
