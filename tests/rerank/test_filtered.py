"""QE-filtered MBR: against a plain computation on every prefix, in any steps, and no work for those never kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quitmt import rerank
from quitmt.errors import QuitmtError
from quitmt.metrics.chrf import Chrf
from quitmt.metrics.function import FunctionEstimator, FunctionUtility
from quitmt.metrics.recorded import RecordedScores
from quitmt.protocols import Reranker, Update
from quitmt.rerank.filtered import Filtered
from quitmt.types import Candidate, Effort, Segment, Snapshot

TEXTS = ["a", "ab", "a b", "ba", "abc", "xyz", ""]
POOLS = st.lists(st.tuples(st.sampled_from(TEXTS), st.integers(0, 3)), min_size=1, max_size=24)


def stand(reranker: Reranker, pool: Sequence[Candidate], cuts: Sequence[int] = (), stride: int = 1) -> list[Snapshot]:
    state, found = reranker.open(Segment("s", "source")), []
    for start, end in zip([0, *cuts], [*cuts, len(pool)], strict=True):
        if start < end:
            [result] = reranker.extend([Update(state, pool[start:end], stride)])
            assert not isinstance(result, QuitmtError)
            found += result
    return found


def plain(pool: Sequence[Candidate], keep: int) -> Snapshot:
    """The method by its definition, on all candidates at once."""
    ranked = sorted(range(len(pool)), key=lambda index: (-(pool[index].scores or {})["q"], index))
    kept = sorted(ranked[:keep])
    [*_, last] = stand(rerank.load("mbr:chrf"), [pool[index] for index in kept])
    return Snapshot(len(pool), kept[last.best], last.score)


@given(POOLS, st.integers(1, 12), st.data())
def test_every_prefix_is_as_from_scratch(entries: list[tuple[str, int]], keep: int, data: st.DataObject) -> None:
    pool = [Candidate(text, scores={"q": score}) for text, score in entries]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(pool)), max_size=4)))
    found = stand(Filtered(RecordedScores("q"), Chrf(), keep=keep), pool, cuts)
    assert found == [plain(pool[:size], keep) for size in range(1, len(pool) + 1)]


@given(POOLS, st.integers(1, 6), st.integers(1, 7))
def test_strides_only_leave_out_snapshots(entries: list[tuple[str, int]], keep: int, stride: int) -> None:
    pool = [Candidate(text, scores={"q": score}) for text, score in entries]
    every = stand(Filtered(RecordedScores("q"), Chrf(), keep=keep), pool)
    some = stand(Filtered(RecordedScores("q"), Chrf(), keep=keep), pool, stride=stride)
    assert some == [one for one in every if one.size % stride == 0 or one.size == len(pool)]


def test_a_filter_that_keeps_all_is_mbr() -> None:
    pool = [Candidate(text, scores={"q": 1.0}) for text in TEXTS * 3]
    assert stand(Filtered(RecordedScores("q"), Chrf(), keep=21), pool, [5, 9]) == stand(rerank.load("mbr:chrf"), pool)


def test_ties_in_quality_go_to_the_lower_index() -> None:
    reranker = Filtered(FunctionEstimator(lambda s, t: 0), FunctionUtility(lambda h, r: len(h)), keep=2)
    pool = [Candidate("a"), Candidate("bb"), Candidate("cccc")]
    assert stand(reranker, pool)[-1] == Snapshot(3, 1, 2.0)


class Counting(FunctionUtility):
    def __init__(self) -> None:
        super().__init__(self._same)
        self.encoded: list[list[str]] = []
        self.compared: list[tuple[str, str]] = []

    def _same(self, hypothesis: str, reference: str) -> float:
        self.compared.append((hypothesis, reference))
        return float(hypothesis == reference)

    def encode(self, batch: Sequence[tuple[object, Sequence[str]]]) -> None:
        self.encoded.append([text for _, texts in batch for text in texts])
        super().encode(batch)  # type: ignore[arg-type]


def test_only_what_is_kept_at_a_snapshot_costs_anything() -> None:
    utility = Counting()
    reranker = Filtered(FunctionEstimator(lambda s, t: float(t)), utility, keep=2)
    pool = [Candidate(text) for text in ("5", "6", "1", "2", "7", "8", "8", "9", "3")]
    stand(reranker, pool, [4], stride=4)
    # After 4: 5 and 6. After 8: 8 and 9. After 9: the same. 7 was kept for a moment, but at no snapshot.
    assert utility.encoded == [["5", "6"], ["8", "9"]]
    assert sorted(set(utility.compared)) == sorted(utility.compared)
    assert {text for pair in utility.compared for text in pair} == {"5", "6", "8", "9"}


def test_effort_is_that_of_what_was_kept() -> None:
    reranker = Filtered(FunctionEstimator(lambda s, t: float(t)), Counting(), keep=2)
    state = reranker.open(Segment("s"))
    assert reranker.effort(state) == Effort(0, 0, 0)
    reranker.extend([Update(state, [Candidate(text) for text in "51216"], 5)])
    assert reranker.effort(state) == Effort(4, 25, 2)
    reranker.extend([Update(state, [Candidate("9")], 1)])
    assert reranker.effort(state) == Effort(9, 36, 3)


def test_segments_are_scored_and_encoded_together() -> None:
    calls: list[int] = []

    class Batched(FunctionEstimator):
        def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> np.ndarray:
            calls.append(len(pairs))
            return super().score(pairs)

    utility = Counting()
    reranker = Filtered(Batched(lambda s, t: len(t)), utility, keep=2)
    states = [reranker.open(Segment(name)) for name in "xy"]
    reranker.extend([Update(state, [Candidate("a"), Candidate("a"), Candidate("bb")], 3) for state in states])
    assert calls == [4] and utility.encoded == [["a", "bb", "a", "bb"]]


@pytest.mark.parametrize("side", ["quality", "utility"])
def test_one_bad_segment_does_not_take_the_others_with_it(side: str) -> None:
    def fails(text: str) -> float:
        return 1 / (text != "bad")

    reranker = Filtered(
        FunctionEstimator(lambda s, t: fails(t) if side == "quality" else 1.0),
        FunctionUtility(lambda h, r: fails(h) if side == "utility" else 1.0),
        keep=2,
    )
    updates = [
        Update(reranker.open(Segment(name)), [Candidate("good"), Candidate(last)], 2)
        for name, last in (("fine", "good"), ("broken", "bad"), ("also fine", "x"))
    ]
    fine, broken, also = reranker.extend(updates)
    assert fine == also == [Snapshot(2, 0, 1.0)]
    told = "scoring failed" if side == "quality" else "the utility failed"
    assert f"segment broken: {told}: ZeroDivisionError" in str(broken)
