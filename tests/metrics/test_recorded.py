"""Scores that came with the candidates."""

from __future__ import annotations

import pytest

from quitmt.errors import RerankError
from quitmt.metrics.recorded import RecordedScores
from quitmt.types import Candidate, Segment

SEGMENT = Segment("s", "source")


def test_a_candidate_has_the_score_that_came_with_it() -> None:
    scores = RecordedScores("q")
    found = scores.score([(SEGMENT, Candidate("same", scores={"q": value, "p": 9.0})) for value in (0.5, -1.0)])
    assert list(found) == [0.5, -1.0]
    assert scores.signature == "recorded:q"


@pytest.mark.parametrize(("scores", "known"), [({"p": 1.0}, "its pool has p"), ({}, "its pool has none")])
def test_a_score_that_is_missing_is_named(scores: dict[str, float], known: str) -> None:
    with pytest.raises(RerankError, match=rf"^segment s: no recorded score 'q' \({known}\)$"):
        RecordedScores("q").score([(SEGMENT, Candidate("a", scores=scores))])
