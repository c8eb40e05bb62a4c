"""What every reranker and utility must do: incremental = one-shot, batched = alone, ties to the lowest index."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from quitmt import rerank
from quitmt.metrics.chrf import Chrf
from quitmt.metrics.function import FunctionEstimator, FunctionUtility
from quitmt.metrics.vote import Vote
from quitmt.protocols import Reranker, Update, Utility
from quitmt.rerank.filtered import Filtered
from quitmt.types import Candidate, Segment, Standing

RERANKERS: dict[str, Callable[[], Reranker]] = {
    "mbr:chrf": lambda: rerank.load("mbr:chrf"),
    "mbr:function": lambda: rerank.mbr(lambda h, r: len(set(h.split()) & set(r.split())) / (1 + len(h))),
    "qe:function": lambda: rerank.qe(lambda source, text: -abs(len(text) - len(source))),
    "mbr:vote": lambda: rerank.vote(lambda text: text.split()[-1]),
    "qe:recorded": lambda: rerank.load("qe:recorded:q"),
    "qe:likelihood": lambda: rerank.load("qe:likelihood"),
    "mbr:function of three": lambda: rerank.mbr(lambda s, h, r: len(set(h.split()) & set(r.split())) / len(s + h)),
    "qe:combined": lambda: rerank.load("qe:0.5*recorded:q+2*likelihood"),
    "filtered": lambda: rerank.load("mbr:chrf", filter="qe:recorded:q", keep=6),
    "filtered by text": lambda: Filtered(FunctionEstimator(lambda s, t: len(t) % 5), Chrf(), keep=6),
    "filtered, all kept": lambda: rerank.load("mbr:chrf", filter="qe:likelihood", keep=99),
}
SEGMENTS = [Segment("a", "The old cat slept near the house."), Segment("b", "A dog ate little today.")]


@pytest.fixture(params=RERANKERS)
def reranker(request: pytest.FixtureRequest) -> Reranker:
    return RERANKERS[request.param]()


@pytest.fixture
def pools(make_pool: Callable[[int, int], list[str]]) -> list[list[Candidate]]:
    rng = random.Random(1)
    return [[Candidate(text, scores={"q": rng.randrange(5)}) for text in make_pool(seed, 24)] for seed in (1, 2)]


def grow(reranker: Reranker, pool: list[Candidate], cuts: list[int], segment: Segment = SEGMENTS[0]) -> list[Standing]:
    state, found = reranker.open(segment), []
    for start, stop in zip([0, *cuts], [*cuts, len(pool)], strict=True):
        [result] = reranker.extend([Update(state, pool[start:stop], 4)])
        assert isinstance(result, list)
        found += result
    return found


def assert_same(found: object, expected: list[Standing]) -> None:
    assert isinstance(found, list)
    assert [(one.size, one.best) for one in found] == [(one.size, one.best) for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], rel=1e-5)


def test_a_standing_after_each_stride_and_after_the_last(reranker: Reranker, pools: list[list[Candidate]]) -> None:
    assert [standing.size for standing in grow(reranker, pools[0][:10], [])] == [4, 8, 10]


def test_growing_in_steps_changes_nothing(reranker: Reranker, pools: list[list[Candidate]]) -> None:
    whole = grow(reranker, pools[0], [])
    assert_same(grow(reranker, pools[0], [8, 12]), whole)
    assert_same(grow(reranker, pools[0], [4, 8, 12, 16, 20]), whole)


def test_batched_is_the_same_as_alone(reranker: Reranker, pools: list[list[Candidate]]) -> None:
    states = [reranker.open(segment) for segment in SEGMENTS]
    together = reranker.extend([Update(state, pool, 4) for state, pool in zip(states, pools, strict=True)])
    alone = [grow(reranker, pool, [], segment) for segment, pool in zip(SEGMENTS, pools, strict=True)]
    for one, other in zip(together, alone, strict=True):
        assert_same(one, other)


def test_the_best_is_the_best_of_those_there(reranker: Reranker, pools: list[list[Candidate]]) -> None:
    for standing in grow(reranker, pools[0], []):
        assert 0 <= standing.best < standing.size
        assert_same(grow(reranker, pools[0][: standing.size], [])[-1:], [standing])


def test_ties_go_to_the_lowest_index(reranker: Reranker) -> None:
    pool = [Candidate("o gato dormiu", scores={"q": 1.0})] * 9
    assert [standing.best for standing in grow(reranker, pool, [4])] == [0, 0, 0]


def test_no_candidates_is_no_standing(reranker: Reranker) -> None:
    assert list(reranker.extend([])) == []


UTILITIES: dict[str, Callable[[], Utility]] = {
    "chrf": Chrf,
    "vote": lambda: Vote(lambda text: text[:1] or None),
    "function": lambda: FunctionUtility(lambda h, r: len(h) - 2 * len(r)),
    "function of three": lambda: FunctionUtility(lambda s, h, r: len(s) * len(h) - 2 * len(r)),
}


@pytest.fixture(params=UTILITIES)
def utility(request: pytest.FixtureRequest) -> Utility:
    return UTILITIES[request.param]()


def encoded(utility: Utility, texts: list[str]) -> object:
    arena = utility.open(SEGMENTS[0])
    utility.encode([(arena, texts)])
    return arena


TEXTS = ["o gato", "o gato velho", "", "casa", "a casa nova", "o"]


def test_backward_is_forward_the_other_way_round(utility: Utility) -> None:
    arena = encoded(utility, TEXTS)
    forward, backward = utility.compare(arena, range(len(TEXTS)), range(len(TEXTS)))
    assert forward.shape == backward.shape == (6, 6)
    np.testing.assert_array_equal(backward, forward.T)


def test_any_part_of_the_square_can_be_compared(utility: Utility) -> None:
    arena = encoded(utility, TEXTS)
    whole, reverse = utility.compare(arena, range(6), range(6))
    for rows, columns in ((range(2, 4), range(6)), (range(4, 6), range(4)), (range(3), range(1, 5))):
        forward, backward = utility.compare(arena, rows, columns)
        np.testing.assert_array_equal(forward, whole[np.ix_(rows, columns)])
        np.testing.assert_array_equal(backward, reverse[np.ix_(rows, columns)])


def test_encoding_in_parts_and_with_others_changes_nothing(utility: Utility) -> None:
    arena, other = utility.open(SEGMENTS[0]), utility.open(SEGMENTS[1])
    utility.encode([(arena, TEXTS[:2]), (other, TEXTS[3:])])
    utility.encode([(arena, TEXTS[2:])])
    expected = utility.compare(encoded(utility, TEXTS), range(6), range(6))
    np.testing.assert_array_equal(utility.compare(arena, range(6), range(6)), expected)
