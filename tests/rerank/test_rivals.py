"""How the leader stands against its rivals: against paired differences in plain numpy, anchored or not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quitmt import rerank
from quitmt.metrics.chrf import Chrf
from quitmt.metrics.function import FunctionUtility
from quitmt.protocols import Update
from quitmt.rerank.mbr import Mbr
from quitmt.types import Candidate, Segment, Snapshot

TEXTS = "abcdefgh"


def snapshots(samples: list[str], anchors: list[str], support: Any, seed: int) -> tuple[list[Snapshot], Any]:
    rng = random.Random(seed)
    table = {(h, r): rng.random() for h in TEXTS for r in TEXTS}
    reranker = Mbr(FunctionUtility(lambda hypothesis, reference: table[hypothesis, reference]), support)
    pool, first = [Candidate(text) for text in samples], [Candidate(text) for text in anchors]
    [found] = reranker.extend([Update(reranker.open(Segment("s")), pool, 1, first)])
    assert isinstance(found, list)
    return found, table


def differences(table: Any, samples: list[str], leader: str, rival: str) -> list[float]:
    """Over the samples, without one copy of leader and rival each where they are samples."""
    judges = list(samples)
    for text in (leader, rival):
        if text in judges:
            judges.remove(text)
    return [table[leader, judge] - table[rival, judge] for judge in judges]


@given(
    st.lists(st.sampled_from(TEXTS), min_size=2, max_size=16),
    st.lists(st.sampled_from(TEXTS), max_size=4),
    st.sampled_from(["all", "others", "anchor"]),
    st.integers(0, 999),
)
def test_paired_differences(samples: list[str], anchors: list[str], support: str, seed: int) -> None:
    found, table = snapshots(samples, anchors, support, seed)
    for snapshot in found:
        so_far = samples[: snapshot.size]
        leader = so_far[snapshot.best] if snapshot.best >= 0 else anchors[-1 - snapshot.best]
        assert snapshot.rivals is not None
        told = snapshot.rivals()
        others = [text for text in dict.fromkeys([*anchors, *so_far]) if text != leader]
        assert len(told.mean) == len(told.error) == len(others)
        for rival, mean, error in zip(others, told.mean, told.error, strict=True):
            paired = differences(table, so_far, leader, rival)
            votes = 2 if support == "anchor" and anchors else 0
            voted = [table[leader, anchors[0]] - table[rival, anchors[0]]] * 2 if votes else []
            centre = float(np.mean([*paired, *voted])) if paired or votes else 0.0
            assert mean == pytest.approx(centre, abs=1e-12)
            if support == "all":
                spread = np.std(paired, ddof=1) / np.sqrt(len(paired)) if len(paired) > 1 else 0.0
            else:  # with one more judge, who says what the rival would
                squares = [(one - centre) ** 2 for one in paired]
                squares.append((table[rival, rival] - table[leader, rival]) ** 2)
                spread = np.sqrt(sum(squares)) / max(len(paired) + votes, 1)
            assert error == pytest.approx(spread, abs=1e-7)


@given(
    st.lists(st.sampled_from(TEXTS), min_size=2, max_size=16),
    st.lists(st.sampled_from(TEXTS), max_size=4),
    st.sampled_from(["all", "others"]),
    st.integers(0, 999),
)
def test_the_best_scores_are_those_of_samples(samples: list[str], anchors: list[str], support: str, seed: int) -> None:
    """Anchors are not among them: they say nothing of what the next sample may bring."""
    found, table = snapshots(samples, anchors, support, seed)
    scores = []
    for sample in samples:
        judges = list(samples)
        if support == "others":
            judges.remove(sample)
        scores.append(np.mean([table[sample, judge] for judge in judges]))
    assert found[-1].rivals is not None
    np.testing.assert_allclose(found[-1].rivals().top, sorted(scores, reverse=True)[:8], atol=1e-12)


def advantages(texts: list[str], best: int) -> dict[str, tuple[float, float]]:
    """By each other distinct text: mean and standard error of u(best, h) − u(it, h), candidate by candidate."""
    utility = Chrf()
    distinct = list(dict.fromkeys(texts))
    arena = utility.open(Segment("1"))
    utility.encode([(arena, distinct)])
    matrix, _ = utility.compare(arena, range(len(distinct)), range(len(distinct)))
    found = {}
    for rival in distinct:
        if rival != texts[best]:
            support = list(range(len(texts)))
            support.remove(best)  # one candidate of each of the two is left out
            support.remove(texts.index(rival))
            rows = [matrix[distinct.index(text)] for text in (texts[best], rival)]
            d = np.array([rows[0][distinct.index(texts[i])] - rows[1][distinct.index(texts[i])] for i in support])
            found[rival] = float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d)))
    return found


def best_scores(texts: list[str]) -> list[float]:
    """The scores of all candidates, from the best one down."""
    utility = Chrf()
    arena = utility.open(Segment("1"))
    utility.encode([(arena, texts)])
    matrix, _ = utility.compare(arena, range(len(texts)), range(len(texts)))
    return sorted(matrix.mean(axis=1).tolist(), reverse=True)


@pytest.mark.parametrize("cuts", [[], [8, 16, 24], [12]])
def test_rivals_are_paired_and_counted(make_pool: Callable[[int, int], list[str]], cuts: list[int]) -> None:
    texts = [*make_pool(3, 24), *make_pool(3, 8)]
    reranker = rerank.load("mbr:chrf")
    state, snapshots = reranker.open(Segment("1")), []
    for start, end in zip([0, *cuts], [*cuts, len(texts)], strict=True):
        [found] = reranker.extend([Update(state, [Candidate(text) for text in texts[start:end]], 4)])
        assert isinstance(found, list)
        snapshots += found
    for snapshot in [*snapshots, snapshots[1]]:  # also an earlier one again
        assert snapshot.rivals is not None
        rivals = snapshot.rivals()
        expected = advantages(texts[: snapshot.size], snapshot.best)
        np.testing.assert_allclose(rivals.mean, [mean for mean, _ in expected.values()], atol=1e-12)
        np.testing.assert_allclose(rivals.error, [error for _, error in expected.values()], atol=1e-9)
        np.testing.assert_allclose(rivals.top, best_scores(texts[: snapshot.size])[:8], atol=1e-12)
