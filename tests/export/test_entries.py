"""Reading pools and outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from quitmt.errors import InputError
from quitmt.export.entries import RankedPool, entry_of

POOL: dict[str, Any] = {
    "id": 7,
    "source": "s",
    "candidates": ["b", "a", "b", "c", "d"],
    "scores": {"q": [0.5, 0.9, 0.5, 0.9, None], "log_probability": [-1.0, -2.0, -1.0, -3.0, -4.0]},
    "anchors": ["c", "e"],
    "origins": ["greedy", "beam:4"],
    "anchor_scores": {"q": [0.9, 0.1]},
    "generator": "g",
}
OUTCOME: dict[str, Any] = {"id": "1", "source": "s", "translation": "t", "index": 3, "score": 0.5, "size": 8}


def test_a_pool_has_its_distinct_candidates_the_best_first() -> None:
    entry = entry_of(POOL)
    told = [(one.text, one.index, one.score, one.count, one.origin) for one in entry.ranked]
    assert told == [
        ("c", -1, 0.9, 1, "greedy"),
        ("a", 1, 0.9, 1, ""),
        ("b", 0, 0.5, 2, ""),
        ("e", -2, 0.1, 0, "beam:4"),
    ]
    assert (entry.id, entry.size, entry.signature, entry.listed) == ("7", 5, "g", True)
    assert entry.ranked[1].log_probability == -2.0


def test_candidates_without_this_score_are_not_ranked() -> None:
    """A scored copy of a text also counts for its unscored copies; scores may be integers."""
    entry = entry_of({**POOL, "candidates": list("abac"), "scores": {"q": [None, 2, 1, None]}, "anchor_scores": {}})
    told = [
        (one.text, one.index, one.score, one.count, one.log_probability)
        for one in map(entry.ranked.__getitem__, (0, 1))
    ]
    assert told == [("b", 1, 2.0, 1, None), ("a", 2, 1.0, 2, None)] and len(entry.ranked) == 2
    assert all(type(score) is float for score in entry.ranked.scores)


def test_an_outcome_with_and_without_its_list() -> None:
    alone = entry_of({**OUTCOME, "stop": "stable", "signature": "x"})
    assert [(one.text, one.index) for one in alone.ranked] == [("t", 3)] and not alone.listed
    nbest = [{"index": 0, "text": "t", "score": 0.5, "count": 2}, {"index": -1, "text": "u", "score": 1, "count": 0}]
    listed = entry_of({**OUTCOME, "stop": "decided", "nbest": nbest})
    assert [(one.text, one.score, one.count) for one in listed.ranked] == [("t", 0.5, 2), ("u", 1.0, 0)]
    assert listed.listed and listed.stop == "decided"
    assert entry_of({**OUTCOME, "stop": "failed", "error": "e"}).ranked == RankedPool()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({**POOL, "scores": {"p": [1] * 5, "q": [1] * 5}}, r"several scores \(give score, one of p, q\)"),
        ({"id": 1, "candidates": ["a"]}, "the pool has no scores"),
        ({"id": 1, "candidates": ["a"], "scores": {"tokens": [3]}}, "the pool has no scores"),
        ({"id": 1}, "neither a pool"),
        ({**OUTCOME, "nbest": 1}, '"nbest" must be a list'),
        ({**OUTCOME, "nbest": [{"text": "t"}]}, '"index" or "count"'),
        (
            {**OUTCOME, "nbest": [{"text": "t", "index": 0, "count": 1, "score": "x"}]},
            '"score" must be a finite number',
        ),
        ({**OUTCOME, "stop": 5}, '"stop" must be a text'),
    ],
)
def test_unreadable_entries(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        entry_of(fields)


def test_a_score_by_name() -> None:
    two = {**POOL, "scores": {"p": [5, 4, 3, 2, 1], "q": [1] * 5}}
    assert [one.text for one in entry_of(two, "p").ranked] == ["b", "a", "c", "d"]
    with pytest.raises(InputError, match=r"no score 'pp' \(did you mean 'p'\?\)"):
        entry_of(two, "pp")
