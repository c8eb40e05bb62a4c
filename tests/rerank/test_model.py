"""Model-based MBR: weights by probability against a plain computation, however the pool grows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from quitmt import rerank
from quitmt.errors import RerankError
from quitmt.metrics.chrf import Chrf
from quitmt.protocols import Update
from quitmt.types import Candidate, Segment, Snapshot

TEXTS = ["the cat sat", "a cat sat", "the cat sat", "a dog ran off", "the cat slept", "a dog sat"]
LOGS = [-2.0, -3.5, -2.0, -9.0, -2.5, -4.0]
TOKENS = [3, 4, 3, 5, 3, 4]
POOL = [Candidate(*one) for one in zip(TEXTS, LOGS, TOKENS, strict=True)]


def expected(size: int, support: str, length: bool) -> dict[str, float]:
    """By text, from the definition."""
    texts = list(dict.fromkeys(TEXTS[:size]))
    utility = Chrf()
    arena = utility.open(Segment("1"))
    utility.encode([(arena, texts)])
    matrix, _ = utility.compare(arena, range(len(texts)), range(len(texts)))
    weights = [math.exp(LOGS[TEXTS.index(text)] / (TOKENS[TEXTS.index(text)] if length else 1)) for text in texts]
    found = {}
    for row, text in enumerate(texts):
        judges = [place for place in range(len(texts)) if support == "all" or place != row]
        total = sum(weights[place] for place in judges)
        found[text] = sum(weights[place] * matrix[row, place] for place in judges) / total
    return found


def grown(
    variant: str, support: str, pool: list[Candidate], cuts: list[int], **more: Any
) -> tuple[Any, list[Snapshot]]:
    reranker: Any = rerank.load("mbr:chrf", variant=variant, support=support)
    state, snapshots = reranker.open(Segment("1", "source")), list[Snapshot]()
    for start, stop in zip([0, *cuts], [*cuts, len(pool)], strict=True):
        [found] = reranker.extend([Update(state, pool[start:stop], 2, **(more if not start else {}))])
        if not isinstance(found, list):
            raise found
        snapshots += found
    return reranker.ranked(state), snapshots


@pytest.mark.parametrize("support", ["all", "others"])
@pytest.mark.parametrize("length", [False, True])
def test_distinct_samples_judge_by_their_probability(support: str, length: bool) -> None:
    variant = f"model:length={'yes' if length else 'no'}"
    for size in (2, 5, 6):
        ranked, snapshots = grown(variant, support, POOL[:size], [])
        found = {TEXTS[index]: score for index, score in ranked}
        assert found == pytest.approx(expected(size, support, length))
        assert snapshots[-1].score == pytest.approx(max(found.values()))
        assert TEXTS[snapshots[-1].best] == max(found, key=lambda text: found[text])


def test_growing_in_steps_changes_nothing() -> None:
    assert grown("model", "all", POOL, [2, 4]) == grown("model", "all", POOL, [])


def test_how_often_a_text_came_up_does_not_matter() -> None:
    assert grown("model", "all", [*POOL, POOL[3], POOL[3]], [])[0] == grown("model", "all", POOL, [])[0]


def test_an_anchor_is_judged_and_judges_nobody() -> None:
    ranked, _ = grown("model", "all", POOL, [], anchors=[Candidate("the cat sat down")])
    assert {index for index, _ in ranked} == {-1, 0, 1, 3, 4, 5}
    assert {index: score for index, score in ranked if index >= 0} == dict(grown("model", "all", POOL, [])[0])


def test_very_small_probabilities_are_weights_all_the_same() -> None:
    far = [Candidate(one.text, (one.log_probability or 0) - 5000, one.tokens) for one in POOL]
    found, near = (dict(grown("model", "all", pool, [])[0]) for pool in (far, POOL))
    assert found == pytest.approx(near)


def test_recorded_pools_have_them_as_scores() -> None:
    recorded = [
        Candidate(one.text, scores={"log_probability": one.log_probability or 0, "tokens": one.tokens or 0})
        for one in POOL
    ]
    for variant in ("model", "model:length=yes"):
        assert grown(variant, "all", recorded, [])[0] == grown(variant, "all", POOL, [])[0]


def test_a_sample_without_a_log_probability_fails_its_segment() -> None:
    with pytest.raises(RerankError, match="segment 1: candidate 1 has no log-probability"):
        grown("model", "all", [POOL[0], Candidate("x")], [])


def test_all_samples_judge_where_nothing_is_said() -> None:
    assert rerank.Reranking("mbr:chrf", variant="model:length=yes").usual_support == "all"
    assert rerank.Reranking("mbr:chrf", variant="prune").usual_support == "others"


def test_a_single_sample_without_another_judge_still_has_a_score() -> None:
    _, snapshots = grown("model", "others", POOL[:1], [])
    assert np.isfinite(snapshots[0].score)
