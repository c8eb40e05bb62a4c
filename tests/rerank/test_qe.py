"""QE reranking: a running maximum, batched over segments, each distinct text once."""

from __future__ import annotations

from collections.abc import Sequence

from quitmt import rerank
from quitmt.errors import QuitmtError
from quitmt.protocols import Update
from quitmt.rerank.qe import Qe
from quitmt.types import Candidate, Segment, Snapshot


class Counting:
    """Scores by length and remembers what it was asked."""

    signature = "length"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> list[float]:
        self.calls.append([candidate.text for _, candidate in pairs])
        return [float(len(candidate.text)) for _, candidate in pairs]


def candidates(*texts: str) -> list[Candidate]:
    return [Candidate(text) for text in texts]


def test_running_maximum_with_ties_to_the_lowest_index() -> None:
    reranker = rerank.qe(lambda source, text: len(text))
    [snapshots] = reranker.extend([Update(reranker.open(Segment("s")), candidates("a", "bb", "cc", "c", "ddd"), 2)])
    assert snapshots == [Snapshot(2, 1, 2.0), Snapshot(4, 1, 2.0), Snapshot(5, 4, 3.0)]


def test_many_segments_in_one_call_and_each_text_once() -> None:
    estimator = Counting()
    reranker = Qe(estimator)
    first, second = reranker.open(Segment("1")), reranker.open(Segment("2"))
    reranker.extend([Update(first, candidates("a", "b", "a"), 8), Update(second, candidates("a"), 8)])
    reranker.extend([Update(first, candidates("b", "cc"), 8)])
    assert estimator.calls == [["a", "b", "a"], ["cc"]]


def test_recorded_scores_belong_to_the_candidate_not_to_its_text() -> None:
    reranker = rerank.load("qe:recorded:q")
    pool = [Candidate("same", scores={"q": 1.0}), Candidate("same", scores={"q": 2.0})]
    assert reranker.extend([Update(reranker.open(Segment("s")), pool, 2)]) == [[Snapshot(2, 1, 2.0)]]


def test_one_bad_segment_does_not_take_the_others_with_it() -> None:
    reranker = rerank.qe(lambda source, text: 1 / len(text) if text != "nan" else float("nan"))
    names = ("fine", "raises", "nan")
    states = [reranker.open(Segment(name)) for name in names]
    texts = (("a",), ("a", ""), ("a", "nan"))
    fine, raises, nan = reranker.extend(
        [Update(state, candidates(*some), 8) for state, some in zip(states, texts, strict=True)]
    )
    assert fine == [Snapshot(1, 0, 1.0)]
    assert isinstance(raises, QuitmtError) and "segment raises: scoring failed: ZeroDivisionError" in str(raises)
    assert isinstance(nan, QuitmtError) and "segment nan: the score of candidate 'nan' is nan" in str(nan)


def test_an_estimator_that_forgets_a_score_is_told() -> None:
    class Forgetful(Counting):
        def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> list[float]:
            return super().score(pairs)[1:]

    reranker = Qe(Forgetful())
    [error] = reranker.extend([Update(reranker.open(Segment("s")), candidates("a", "b"), 8)])
    assert "gave 1 scores for 2 candidates" in str(error)


def test_a_score_that_was_not_recorded() -> None:
    reranker = rerank.load("qe:recorded:q")
    [error] = reranker.extend([Update(reranker.open(Segment("s")), [Candidate("a", scores={"p": 1.0})], 8)])
    assert str(error) == "segment s: no recorded score 'q' (its pool has p)"
