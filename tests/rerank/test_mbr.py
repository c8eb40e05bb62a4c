"""Exact MBR: against a plain computation with sacrebleu, in any steps, with duplicates counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from quitmt import rerank
from quitmt.errors import QuitmtError
from quitmt.metrics.chrf import Chrf
from quitmt.metrics.function import FunctionUtility, as_estimator
from quitmt.protocols import Reranker, Update
from quitmt.rerank.filtered import Filtered
from quitmt.rerank.mbr import Mbr
from quitmt.types import Candidate, Segment, Snapshot


def stand(reranker: Reranker, texts: list[str], cuts: list[int], stride: int = 1) -> list[Snapshot]:
    """All snapshots of a pool that grows at the given sizes."""
    state, found = reranker.open(Segment("s", "source")), []
    for start, end in zip([0, *cuts], [*cuts, len(texts)], strict=True):
        if start < end:
            [result] = reranker.extend([Update(state, [Candidate(text) for text in texts[start:end]], stride)])
            assert not isinstance(result, QuitmtError)
            found += result
    return found


def test_against_sacrebleu(make_pool: Callable[[int, int], list[str]]) -> None:
    texts, chrf = make_pool(1, 24), CHRF()
    matrix = np.array([[chrf.sentence_score(h, [r]).score / 100 for r in texts] for h in texts])
    for snapshot in stand(rerank.load("mbr:chrf"), texts, [8, 16]):
        means = matrix[: snapshot.size, : snapshot.size].mean(axis=1)
        assert snapshot.score == pytest.approx(means.max(), abs=1e-12)
        assert means[snapshot.best] == pytest.approx(means.max(), abs=1e-12)


@given(st.lists(st.sampled_from(["a", "ab", "a b", "ba", "abc", ""]), min_size=1, max_size=30), st.data())
def test_growing_in_any_steps_gives_the_same_bits(texts: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(texts)), max_size=5)))
    reranker = rerank.load("mbr:chrf")
    assert stand(reranker, texts, cuts) == stand(reranker, texts, [])


def test_identical_candidates_are_compared_once() -> None:
    compared: Counter[tuple[str, str]] = Counter()

    def utility(hypothesis: str, reference: str) -> float:
        compared[hypothesis, reference] += 1
        return float(hypothesis == reference)

    reranker = rerank.mbr(utility, support="all")
    [*_, last] = stand(reranker, ["b", "a", "b", "c", "a", "a"], [2, 4])
    assert (last.best, last.score) == (1, 0.5)
    assert set(compared.values()) == {1}
    assert len(compared) == 9


def test_hypothesis_and_reference_are_not_swapped() -> None:
    # A long hypothesis is good against anything, so the longest wins; swapped, the shortest would.
    [last] = stand(rerank.mbr(lambda hypothesis, reference: len(hypothesis)), ["aa", "a", "aaa"], [], 3)
    assert last.best == 2


def test_ties_go_to_the_lowest_index() -> None:
    assert [s.best for s in stand(rerank.mbr(lambda h, r: 0.5), ["x", "y", "z", "y"], [2])] == [0, 0, 0, 0]
    # "ab" and "a b" are the same to chrF: a tie in exact arithmetic must be one in floating point.
    assert stand(rerank.load("mbr:chrf"), ["xyz", "a b", "ab", "ab", "abc", "ab c"], [3], 6)[-1].best == 4


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_utility_that_is_no_number_fails_its_own_segment_only(bad: float) -> None:
    reranker = rerank.mbr(lambda h, r: bad if "bad" in h else 1.0)
    fine, broken = reranker.open(Segment("fine")), reranker.open(Segment("broken"))
    results = reranker.extend(
        [Update(fine, [Candidate("a")], 1), Update(broken, [Candidate("a"), Candidate("b"), Candidate("bad")], 1)]
    )
    assert results[0] == [Snapshot(1, 0, 1.0)]
    assert isinstance(results[1], QuitmtError)
    assert "segment broken: the utility of candidates" in str(results[1]) and "2" in str(results[1])


def test_a_utility_that_raises_fails_its_own_segment_only() -> None:
    reranker = rerank.mbr(lambda h, r: 1 / len(h))
    fine, broken = reranker.open(Segment("fine")), reranker.open(Segment("broken"))
    good, error = reranker.extend([Update(fine, [Candidate("a")], 1), Update(broken, [Candidate("")], 1)])
    assert good == [Snapshot(1, 0, 1.0)]
    assert "segment broken: the utility failed: ZeroDivisionError" in str(error)


@pytest.mark.parametrize("filtered", [False, True])
def test_a_text_that_cannot_be_encoded_fails_its_own_segment_only(filtered: bool) -> None:
    class Picky(FunctionUtility):
        def encode(self, batch: Any) -> None:
            if any("bad" in texts for _, texts in batch):
                raise ValueError("a bad text")
            super().encode(batch)

    utility = Picky(lambda hypothesis, reference: float(len(hypothesis)))
    reranker: Any = Filtered(as_estimator(lambda s, h: len(h)), utility) if filtered else Mbr(utility)
    fine, bad, idle = (reranker.open(Segment(name)) for name in ("fine", "bad", "idle"))
    reranker.extend([Update(idle, [Candidate("a")], 1)])
    updates = [(fine, ["a", "bc"]), (bad, ["a", "bad"]), (idle, ["a"])]
    found = reranker.extend([Update(state, [Candidate(text) for text in texts], 2) for state, texts in updates])
    assert found[0] == [Snapshot(2, 1, 2.0)] and found[2] == [Snapshot(2, 0, 1.0)]
    assert str(found[1]).startswith("segment bad: the utility failed: ValueError: a bad text (test_mbr.py, line ")
    assert reranker.extend([Update(fine, [Candidate("def")], 1)]) == [[Snapshot(3, 2, 3.0)]]


def test_a_utility_that_cannot_encode_fails_every_segment_of_the_call() -> None:
    class Broken(Chrf):
        def encode(self, batch: object) -> None:
            raise ValueError("no memory")

    reranker = Mbr(Broken())
    updates = [Update(reranker.open(Segment(name)), [Candidate("a")], 1) for name in ("1", "2")]
    assert [str(error).partition(" (")[0] for error in reranker.extend(updates)] == [
        "segment 1: the utility failed: ValueError: no memory",
        "segment 2: the utility failed: ValueError: no memory",
    ]
