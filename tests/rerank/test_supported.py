"""MBR with texts of support: against a double loop over sacrebleu, step by step, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import CHRF

from quitmt import rerank
from quitmt.errors import QuitmtError, UsageError
from quitmt.protocols import RerankerTraits, Update, traits_of
from quitmt.rerank import Reranking
from quitmt.types import Candidate, Segment, Snapshot

SUPPORT = ("A porta está aberta.", "A porta está aberta hoje.", "A porta está aberta.", "O portão abriu.")
SAMPLES = ("A porta abriu.", "A porta está aberta.", "Uma porta aberta!", "A porta abriu.", "O portão está aberto.")
ANCHORS = ("A porta fechou.", "A porta está aberta agora.")


def candidates(*texts: str) -> list[Candidate]:
    return [Candidate(text) for text in texts]


def plain(text: str, support: tuple[str, ...] = SUPPORT) -> float:
    chrf = CHRF()
    return sum(chrf.sentence_score(text, [one]).score for one in support) / len(support) / 100


def given(name: str = "mbr:chrf") -> Any:
    return rerank.load(name, support="given")


def run(reranker: Any, segment: Segment, stride: int = 1, steps: int = 5) -> tuple[Any, list[Snapshot]]:
    state, found = reranker.open(segment), []
    for start in range(0, len(SAMPLES), steps):
        anchors = candidates(*ANCHORS) if start == 0 else []
        [snapshots] = reranker.extend(
            [Update(state, candidates(*SAMPLES[start : start + steps]), stride, tuple(anchors))]
        )
        assert not isinstance(snapshots, QuitmtError)
        found += snapshots
    return state, found


def test_scores_are_those_of_a_double_loop() -> None:
    reranker = given()
    state, snapshots = run(reranker, Segment("1", support=SUPPORT))
    every = {-1 - place: plain(text) for place, text in enumerate(ANCHORS)}
    for size, (text, snapshot) in enumerate(zip(SAMPLES, snapshots, strict=True), start=1):
        every[size - 1] = plain(text)
        best = max(every, key=lambda index: every[index])
        assert (snapshot.size, snapshot.best) == (size, best)
        assert snapshot.score == pytest.approx(every[best], abs=1e-9)
    assert snapshots[0].best == -2 and snapshots[-1].best == 1
    ranked = dict(reranker.ranked(state))
    assert ranked == pytest.approx({index: every[index] for index in (-1, -2, 0, 1, 2, 4)}, abs=1e-9)
    assert snapshots[-1].scores is not None
    np.testing.assert_allclose(snapshots[-1].scores(), [plain(text) for text in SAMPLES], atol=1e-9)


@pytest.mark.parametrize("name", ["mbr:chrf", "mbr:bleu", "mbr:0.5*chrf+0.5*bleu", "mbr:operator:eq"])
def test_steps_change_nothing(name: str) -> None:
    segment = Segment("1", support=SUPPORT)
    assert run(given(name), segment, steps=1)[1] == run(given(name), segment, steps=5)[1]


def test_each_pair_is_compared_once_and_with_the_support_only() -> None:
    calls: list[tuple[str, str]] = []

    def equal_length(hypothesis: str, reference: str) -> float:
        calls.append((hypothesis, reference))
        return float(len(hypothesis) == len(reference))

    from quitmt.metrics.function import as_utility
    from quitmt.rerank.supported import SupportedMbr

    reranker: Any = SupportedMbr(as_utility(equal_length))
    state, _ = run(reranker, Segment("1", support=SUPPORT), steps=2)
    assert sorted(calls) == sorted({(text, one) for text in (*ANCHORS, *SAMPLES) for one in SUPPORT})
    effort = reranker.effort(state)
    assert (effort.evaluations, effort.possible, effort.encoded) == (len(calls), 7 * 4, 8)


def test_only_a_segment_without_support_or_with_a_bad_score_fails() -> None:
    reranker = given("mbr:math:dist")  # takes points, not texts
    [failed] = reranker.extend([Update(reranker.open(Segment("9", support=("a",))), candidates("b"), 1)])
    assert str(failed).startswith("segment 9: the utility failed: TypeError")
    reranker = given()
    states = [reranker.open(Segment("1")), reranker.open(Segment("2", support=("a b c d",)))]
    none, fine = reranker.extend([Update(state, candidates("a b c d"), 1) for state in states])
    assert str(none).startswith("segment 1 has no text of support")
    assert fine == [Snapshot(1, 0, 1.0)]


def test_traits_are_known_before_it_is_loaded() -> None:
    traits = Reranking("mbr:chrf", support="given").traits
    assert traits == traits_of(given(), RerankerTraits)
    assert traits.running_best and not traits.gives_rivals
    assert given().signature.endswith("|s:given")


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("qe:likelihood", {}, "goes with an mbr: reranker, not with qe:likelihood"),
        ("mbr:chrf", {"variant": "prune"}, "goes with exact MBR, not with"),
        ("mbr:chrf", {"filter": "qe:likelihood"}, "goes with exact MBR, not with"),
        ("mbr:rank:chrf+bleu", {}, "does not go with mbr:rank:chrf+bleu"),
    ],
)
def test_what_it_does_not_go_with(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("+", r"\+")):
        rerank.load(name, support="given", **settings)
