"""The contract of rerankers for those without scoring models, and what utilities guarantee them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quitmt import rerank
from quitmt.metrics.chrf import Chrf
from quitmt.metrics.function import FunctionEstimator, FunctionUtility
from quitmt.metrics.recorded import RecordedScores
from quitmt.metrics.vote import Vote
from quitmt.metrics.words import Bleu, ChrfPlus, Ter
from quitmt.protocols import Reranker, Utility
from quitmt.rerank.accelerated import Accelerated
from quitmt.rerank.filtered import Filtered
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.prune import Prune
from quitmt.rerank.weighted import Weighted
from quitmt.types import Candidate
from tests.contract.rerankers import (
    POOLS,
    SEGMENTS,
    AnchoredContract,
    ExactContract,
    FailingContract,
    Make,
    extend,
    grow,
)
from tests.contract.utilities import UtilityContract


def overlap(hypothesis: str, reference: str) -> float:
    hypothesis.encode()  # fails with what is no text
    return len(set(hypothesis.split()) & set(reference.split())) / (1 + len(hypothesis))


def overlap_of_three(source: str, hypothesis: str, reference: str) -> float:
    return overlap(hypothesis, reference) / len(source)


def nearness(source: str, text: str) -> float:
    return -abs(len(text.encode()) / 3 - len(source))


EXACT: dict[str, Make] = {
    "mbr:chrf": lambda: rerank.load("mbr:chrf"),
    "mbr:function": lambda: rerank.mbr(overlap, support="all"),
    "mbr:function of three": lambda: rerank.mbr(overlap_of_three, support="all"),
    "mbr:vote": lambda: Mbr(Vote(lambda text: text.split()[-1])),
    "mbr:chrf++": lambda: rerank.load("mbr:chrf++"),
    "mbr:bleu": lambda: rerank.load("mbr:bleu"),
    "mbr:sum": lambda: rerank.load("mbr:0.5*chrf+2*bleu"),
}
COMBINED: dict[str, Make] = {
    "mbr:scaled": lambda: rerank.load("mbr:scaled:0.5*chrf+bleu", support="others"),
    "mbr:rank": lambda: rerank.load("mbr:rank:0.5*chrf+bleu"),
    "mbr:rank, anchor": lambda: rerank.load("mbr:rank:0.5*chrf+bleu", support="anchor"),
}
RECORDED: dict[str, Make] = {
    "qe:recorded": lambda: rerank.load("qe:recorded:q"),
    "qe:scaled": lambda: rerank.load("qe:scaled:0.5*recorded:q+recorded:r"),
    "qe:rank": lambda: rerank.load("qe:rank:0.5*recorded:q+recorded:r"),
    "qe:combined": lambda: rerank.load("qe:0.5*recorded:q+2*likelihood"),
    "filtered": lambda: rerank.load("mbr:chrf", filter="qe:recorded:q", keep=6),
    "filtered, others": lambda: Filtered(RecordedScores("q"), Chrf(), keep=6, support="others"),
}
FAILING: dict[str, Make] = {
    "mbr:function, others": lambda: Mbr(FunctionUtility(overlap), "others"),
    "mbr:function, anchor": lambda: Mbr(FunctionUtility(overlap), "anchor"),
    "mbr:function, accelerated, others": lambda: Accelerated(FunctionUtility(overlap), Prune(), "others"),
    "filtered, others": lambda: Filtered(FunctionEstimator(nearness), Chrf(), keep=6, support="others"),
    "mbr:function, accelerated": lambda: Accelerated(FunctionUtility(overlap), Prune()),
    "qe:function": lambda: rerank.qe(nearness),
    "qe:batched function": lambda: rerank.qe(lambda pairs: [nearness(*pair) for pair in pairs], batched=True),
    "qe:likelihood": lambda: rerank.load("qe:likelihood"),
    "filtered by text": lambda: Filtered(FunctionEstimator(nearness), Chrf(), keep=3),
    "filtered, all kept": lambda: Filtered(FunctionEstimator(nearness), Chrf(), keep=99),
}


class TestExact(AnchoredContract, ExactContract):
    @pytest.fixture(scope="class", params=EXACT)
    @classmethod
    def make(cls, request: pytest.FixtureRequest) -> Make:
        return EXACT[request.param]


class TestOthers(AnchoredContract):
    """Exact MBR of which no sample judges itself."""

    @pytest.fixture(scope="class", params=["chrf", "vote"])
    @classmethod
    def make(cls, request: pytest.FixtureRequest) -> Make:
        utility: Utility[Any] = Chrf() if request.param == "chrf" else Vote(lambda text: text.split()[-1])
        return lambda: Mbr(utility, "others")


class TestCombined(AnchoredContract):
    """Scores made comparable within a pool."""

    @pytest.fixture(scope="class", params=COMBINED)
    @classmethod
    def make(cls, request: pytest.FixtureRequest) -> Make:
        return COMBINED[request.param]


class TestFailing(AnchoredContract, FailingContract):
    @pytest.fixture(scope="class", params=FAILING)
    @classmethod
    def make(cls, request: pytest.FixtureRequest) -> Make:
        return FAILING[request.param]


class TestRecorded(AnchoredContract, FailingContract):
    """With scores that belong to candidates, not to their texts."""

    bad = Candidate("o gato", scores={"other": 1.0})

    @pytest.fixture(scope="class", params=RECORDED)
    @classmethod
    def make(cls, request: pytest.FixtureRequest) -> Make:
        return RECORDED[request.param]


@pytest.mark.parametrize("keep", [9, 16, 99])
def test_a_filter_is_exact_mbr_among_those_kept_bit_for_bit(keep: int) -> None:
    filtered, exact = rerank.load("mbr:chrf", filter="qe:recorded:q", keep=keep), rerank.load("mbr:chrf")
    for pool in POOLS:
        for snapshot in grow(filtered, pool, stride=1):
            order = sorted(range(snapshot.size), key=lambda index: (-(pool[index].scores or {})["q"], index))
            kept = sorted(order[:keep])
            [*_, expected] = grow(exact, [pool[index] for index in kept])
            assert (snapshot.best, snapshot.score) == (kept[expected.best], expected.score)


class TestCounted:
    """Duplicates cost nothing with QE either, which tells no effort."""

    @pytest.mark.parametrize("filtered", [False, True])
    def test_each_text_is_scored_once(self, filtered: bool) -> None:
        requested: list[str] = []

        def score(source: str, text: str) -> float:
            requested.append(text)
            return float(len(text))

        reranker: Reranker[Any] = rerank.qe(score)
        if filtered:
            reranker = Filtered(FunctionEstimator(score), Chrf(), keep=2)
        state = reranker.open(SEGMENTS[0])
        extend(reranker, state, [Candidate(text) for text in ("a", "bb", "a", "ccc", "bb")])
        [last] = extend(reranker, state, [Candidate(text) for text in ("bb", "a", "ccc")])
        assert requested == ["a", "bb", "ccc"] and last.size == 8


VARIANTS = [
    "prune",
    "lowrank:reduction=1",
    "aggregate",
    "aggregate:top=0",
]
ALL_EQUAL: dict[str, Make] = {
    "mbr": lambda: rerank.mbr(lambda hypothesis, reference: 0.1),
    "qe": lambda: rerank.qe(lambda source, text: 0.1),
    "filtered": lambda: Filtered(
        FunctionEstimator(lambda source, text: 0.1), FunctionUtility(lambda h, r: 0.1), keep=3
    ),
    "vote": lambda: rerank.vote(lambda text: None),
    "rank": lambda: rerank.load("mbr:rank:vote+vote"),
    "scaled": lambda: rerank.load("mbr:scaled:2*vote+vote"),
}


@pytest.mark.parametrize("name", ALL_EQUAL)
def test_equally_good_texts_tie_to_the_lowest_index(name: str) -> None:
    pool = [Candidate(f"{index} gatos") for index in range(12)]
    reranker = ALL_EQUAL[name]()
    assert [one.best for one in grow(reranker, pool, [1, 5], stride=1)] == [0] * 12
    assert [one.best for one in grow(reranker, [*pool[4:], *pool], stride=1)] == [0] * 20


@pytest.mark.parametrize("variant", VARIANTS)
def test_texts_that_chrf_cannot_tell_apart_tie_to_the_lowest_index(variant: str) -> None:
    """Differences in spaces are none to chrF."""
    pool = [Candidate("o gato" + " " * index + "dormiu") for index in range(1, 30)]
    assert {one.best for one in grow(rerank.load("mbr:chrf", variant=variant), pool, [9])} == {0}


UTILITIES: dict[str, Callable[[], Utility[Any]]] = {
    "chrf": Chrf,
    "chrf++": ChrfPlus,
    "bleu": Bleu,
    "ter": Ter,
    "sum": lambda: Weighted([Chrf(), Bleu()], [0.5, -2]),
    "vote": lambda: Vote(lambda text: text[:1] or None),
    "function": lambda: FunctionUtility(lambda h, r: len(h) - 2 * len(r)),
    "function of three": lambda: FunctionUtility(lambda s, h, r: len(s) * len(h) - 2 * len(r)),
}


class TestUtility(UtilityContract):
    @pytest.fixture(params=UTILITIES)
    def utility(self, request: pytest.FixtureRequest) -> Utility[Any]:
        return UTILITIES[request.param]()
