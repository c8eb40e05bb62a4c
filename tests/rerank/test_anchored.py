"""Anchored pools: exact MBR, QE, filtered MBR, and accelerated MBR where it leaves nothing out, against plain loops."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.rerank import naive

from quitmt.errors import QuitmtError, RerankError, UsageError
from quitmt.metrics.chrf import Chrf
from quitmt.metrics.function import FunctionUtility
from quitmt.metrics.recorded import RecordedScores
from quitmt.protocols import Reranker, Update
from quitmt.rerank.accelerated import Accelerated
from quitmt.rerank.anchors import SUPPORTS
from quitmt.rerank.filtered import Filtered
from quitmt.rerank.lowrank import LowRank
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.prune import Prune
from quitmt.rerank.qe import Qe
from quitmt.types import Candidate, Effort, Segment, Snapshot

TEXTS = "abcdef"
samples_of = st.lists(st.sampled_from(TEXTS), min_size=1, max_size=14)
anchors_of = st.lists(st.sampled_from(TEXTS), max_size=5)
scored = st.tuples(st.sampled_from(TEXTS), st.integers(0, 3).map(float))
supports = st.sampled_from(SUPPORTS)
of_samples = st.sampled_from(SUPPORTS[1:])
DYADIC = (0.0, 0.25, 0.5, 1.0)
"""Sums of these are exact, so that candidates tie in any order of adding up."""
ANY = (0.1, 0.3, 0.7, 1 / 3, 0.9999)


def utility_of(seed: int, values: Sequence[float]) -> naive.Utility:
    """A table, drawn at random, in which many are equal."""
    rng = random.Random(seed)
    table = {(h, r): rng.choice(values) for h in TEXTS for r in TEXTS}
    return lambda hypothesis, reference: table[hypothesis, reference]


def candidates(texts: Sequence[str | tuple[str, float]]) -> list[Candidate]:
    return [Candidate(one) if isinstance(one, str) else Candidate(one[0], scores={"q": one[1]}) for one in texts]


def grown(
    reranker: Reranker[Any], samples: Sequence[Any], anchors: Sequence[Any], cuts: Sequence[int] = (), stride: int = 1
) -> list[Snapshot]:
    state, found = reranker.open(Segment("s", "source")), []
    for start, stop in zip([0, *cuts], [*cuts, len(samples)], strict=True):
        first = candidates(anchors) if start == 0 else ()
        [result] = reranker.extend([Update(state, candidates(samples[start:stop]), stride, first)])
        assert not isinstance(result, QuitmtError), result
        found += result
    return found


def ranked(snapshots: Sequence[Snapshot]) -> list[naive.Ranked]:
    return [(one.best, one.score) for one in snapshots]


def cut(data: st.DataObject, size: int) -> list[int]:
    return sorted(data.draw(st.sets(st.integers(1, size - 1), max_size=4))) if size > 1 else []


@given(samples_of, anchors_of, st.integers(0, 999), st.sampled_from([DYADIC, ANY]), supports, st.data())
@example(["a"], [], 0, ANY, "others", None)
@example(["a"], ["a"], 0, ANY, "others", None)
@example(["a"], ["a"], 0, ANY, "anchor", None)
@example(["a", "b"], ["c", "b"], 1, ANY, "anchor", None)
@example(["a"], ["b", "a"], 0, ANY, "others", None)
@example(["a", "a"], ["b"], 0, ANY, "others", None)
@example(list("abcabc"), ["c", "d", "d", "c"], 3, (0.5,), "others", None)
@example(list("abcabc"), ["c", "d", "d", "c"], 3, (0.5,), "all", None)
def test_exact_mbr_is_the_definition_bit_for_bit(
    samples: list[str], anchors: list[str], seed: int, values: Sequence[float], support: Any, data: Any
) -> None:
    utility = utility_of(seed, values)
    reranker = Mbr(FunctionUtility(utility), support)
    expected = [naive.mbr(utility, samples[:size], anchors, support) for size in range(1, len(samples) + 1)]
    assert ranked(grown(reranker, samples, anchors)) == expected
    assert ranked(grown(reranker, samples, anchors, range(1, len(samples)))) == expected
    if data:
        assert ranked(grown(reranker, samples, anchors, cut(data, len(samples)))) == expected


EXACT: dict[str, Callable[[], Any]] = {
    "pruning without a prefix": lambda: Prune(schedule=(1000,)),
    "all cells": lambda: LowRank(reduction=1, rank=2),
}


@pytest.mark.parametrize("name", EXACT)
@given(samples_of, anchors_of, st.integers(0, 999), st.sampled_from([DYADIC, ANY]), of_samples, st.data())
@example(["a"], [], 0, ANY, "others", None)
@example(["a"], ["b", "a"], 0, ANY, "others", None)
@example(["a", "a"], ["b"], 0, ANY, "others", None)
@example(list("abcabc"), ["c", "d", "d", "c"], 3, (0.5,), "others", None)
def test_accelerated_mbr_that_leaves_nothing_out_is_the_definition(
    name: str, samples: list[str], anchors: list[str], seed: int, values: Sequence[float], support: Any, data: Any
) -> None:
    utility = utility_of(
        seed, DYADIC if support == "all" else values
    )  # means of "all" may add up a single row in pairs
    reranker: Accelerated[Any] = Accelerated(FunctionUtility(utility), EXACT[name](), support)
    expected = [naive.mbr(utility, samples[:size], anchors, support) for size in range(1, len(samples) + 1)]
    assert ranked(grown(reranker, samples, anchors)) == expected
    if data:
        cuts = cut(data, len(samples))
        assert ranked(grown(reranker, samples, anchors, cuts)) == expected


@given(st.lists(scored, min_size=1, max_size=14), st.lists(scored, max_size=5), st.data())
def test_qe_is_the_best_of_all(samples: list[Any], anchors: list[Any], data: st.DataObject) -> None:
    found = grown(Qe(RecordedScores("q")), samples, anchors, cut(data, len(samples)))
    qualities, own = [quality for _, quality in samples], [quality for _, quality in anchors]
    assert ranked(found) == [naive.qe(qualities[:size], own) for size in range(1, len(samples) + 1)]


@given(
    st.lists(scored, min_size=1, max_size=14),
    st.lists(scored, max_size=5),
    st.integers(1, 8),
    st.integers(0, 999),
    st.sampled_from([DYADIC, ANY]),
    of_samples,
    st.data(),
)
@example([("a", 0.0), ("b", 0.0)], [("c", 1.0), ("d", 2.0)], 2, 0, ANY, "others", None)  # no sample is kept
@example([("a", 0.0), ("b", 0.0)], [("c", 1.0), ("d", 2.0)], 3, 0, ANY, "others", None)  # one is, and judges two
@example([("a", 1.0)], [("a", 0.0)], 1, 0, ANY, "others", None)  # only a sample
@example([("a", 1.0), ("a", 1.0), ("b", 1.0)], [("a", 1.0), ("a", 1.0)], 4, 0, ANY, "others", None)
def test_filtered_mbr_is_mbr_among_the_best_by_qe(
    samples: list[Any], anchors: list[Any], keep: int, seed: int, values: Sequence[float], support: Any, data: Any
) -> None:
    utility = utility_of(seed, values)
    reranker = Filtered(RecordedScores("q"), FunctionUtility(utility), keep=keep, support=support)
    sizes = range(1, len(samples) + 1)
    expected = [naive.filtered(utility, samples[:size], anchors, keep, support) for size in sizes]
    assert ranked(grown(reranker, samples, anchors)) == expected
    if data:
        assert ranked(grown(reranker, samples, anchors, cut(data, len(samples)))) == expected


def test_an_anchor_wins_where_samples_would_have_praised_themselves() -> None:
    """What leaving one out is for: "ab" is near to all samples, each of which is nearest to itself."""
    samples, anchors = ["abcd", "abef", "abgh"], ["ab"]
    assert grown(Mbr(Chrf(), "all"), samples, anchors)[-1].best >= 0
    assert grown(Mbr(Chrf(), "others"), samples, anchors)[-1].best == -1


def test_the_filter_compares_nothing_but_the_best_anchor_if_no_sample_is_kept() -> None:
    requested = []

    def utility(hypothesis: str, reference: str) -> float:
        requested.append((hypothesis, reference))
        return 0.75

    reranker = Filtered(RecordedScores("q"), FunctionUtility(utility), keep=2, support="others")
    state = reranker.open(Segment("s"))
    anchors = candidates([("x", 2.0), ("y", 3.0), ("z", 3.0)])
    assert reranker.extend([Update(state, candidates([("a", 1.0)]), 1, anchors)]) == [[Snapshot(1, -2, 0.75)]]
    assert requested == [("y", "y")] and reranker.effort(state) == Effort(1, 16, 1)


RERANKERS: dict[str, Callable[[Any], Reranker[Any]]] = {
    "exact": lambda support: Mbr(Chrf(), support),
    "accelerated": lambda support: Accelerated(Chrf(), Prune(), support),
    "filtered": lambda support: Filtered(RecordedScores("q"), Chrf(), keep=9, support=support),
}


@pytest.mark.parametrize("name", RERANKERS)
def test_support_is_in_the_signature_unless_it_is_the_paper_s(name: str) -> None:
    paper, apart = (RERANKERS[name](support).signature for support in ("all", "others"))
    assert apart == f"{paper}|s:others"
    with pytest.raises(UsageError, match=r"support must be one of .*others, all, not 'none'"):
        RERANKERS[name]("none")


@pytest.mark.parametrize("name", RERANKERS)
def test_anchors_are_counted_in_what_is_possible(name: str) -> None:
    reranker: Any = RERANKERS[name]("others")
    state = reranker.open(Segment("s"))
    reranker.extend([Update(state, candidates([("a", 1.0), ("b", 1.0)]), 2, candidates([("c", 1.0)]))])
    assert reranker.effort(state).possible == 9 and reranker.effort(state).encoded == 3


@pytest.mark.parametrize("accelerated", [False, True])
def test_an_anchor_that_cannot_be_compared_is_named(accelerated: bool) -> None:
    bad = FunctionUtility(lambda h, r: float("nan") if h == "bad" else 1.0)
    reranker: Any = Accelerated(bad, Prune(), "others") if accelerated else Mbr(bad, "others")
    [error] = reranker.extend([Update(reranker.open(Segment("s")), candidates(["a"]), 1, candidates(["x", "bad"]))])
    assert isinstance(error, RerankError) and "the utility of anchor 2 and " in str(error) and "nan" in str(error)


@pytest.mark.parametrize("make", [Mbr, lambda utility: Accelerated(utility, Prune())])
@pytest.mark.parametrize(("bad", "told"), [("a", "the first anchor and "), ("c", "candidates 0 and 0 is nan")])
def test_messages_name_anchors(make: Callable[[Any], Reranker[Any]], bad: str, told: str) -> None:
    def utility(hypothesis: str, reference: str) -> float:
        return float("nan") if hypothesis == bad and reference in (bad, "c") else 1.0

    reranker = make(FunctionUtility(utility))
    samples = [Candidate(text) for text in "cde"]
    [result] = reranker.extend([Update(reranker.open(Segment("s")), samples, 3, [Candidate("a", origin="greedy")])])
    assert isinstance(result, RerankError) and f"segment s: the utility of {told}" in str(result)
    assert "-1" not in str(result)
