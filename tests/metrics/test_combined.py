"""Weighted sums of quality estimators."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quitmt.errors import RerankError, UsageError
from quitmt.metrics.combined import Combined
from quitmt.metrics.recorded import RecordedScores
from quitmt.types import Candidate, Segment

SEGMENT, OTHER = Segment("1", "source"), Segment("2", "source")


class Lengths:
    signature = "lengths"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> list[int]:
        self.calls.append([candidate.text for _, candidate in pairs])
        return [len(candidate.text) for _, candidate in pairs]


def pairs(*texts: str, segment: Segment = SEGMENT) -> list[tuple[Segment, Candidate]]:
    return [(segment, Candidate(text, scores={"q": float(index)})) for index, text in enumerate(texts)]


def test_a_weighted_sum_that_names_its_terms() -> None:
    combined = Combined([Lengths(), RecordedScores("q")], [0.5, -2])
    assert combined.score(pairs("abcd", "ab")).tolist() == [2.0, -1.0]
    assert combined.signature == "0.5*lengths+-2*recorded:q"


def test_each_is_asked_once_and_for_a_text_once() -> None:
    lengths = Lengths()
    scores = Combined([lengths, RecordedScores("q")], [1, 10]).score(
        [*pairs("ab", "c", "ab"), *pairs("ab", segment=OTHER)]
    )
    assert scores.tolist() == [2, 11, 22, 2]
    assert lengths.calls == [["ab", "c", "ab"]]


def test_it_looks_at_more_than_texts_if_a_term_does() -> None:
    assert Combined([Lengths(), Lengths()], [1, 1]).traits.distinct
    assert not Combined([Lengths(), RecordedScores("q")], [1, 1]).traits.distinct


def test_a_term_that_gives_one_score_for_all_is_told() -> None:
    class Single(Lengths):
        def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> list[int]:
            return [7]

    with pytest.raises(RerankError, match="lengths gave 1 scores for 2 candidates"):
        Combined([Lengths(), Single()], [1, 1]).score(pairs("a", "b"))


def test_what_cannot_be_combined() -> None:
    for weights in ([1, float("inf")], [1], []):
        with pytest.raises(UsageError):
            Combined([Lengths(), Lengths()], weights)
