"""The one contract of rerankers, as classes: a test class with a fixture ``make`` inherits its tests.

``make()`` gives a reranker, equal ones each time; its scope is the class. Scores guaranteed bit for bit are compared:
a class whose scores depend on their batches in rounding says so by a method ``assert_same`` of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from quitmt.errors import QuitmtError, RerankError
from quitmt.protocols import Reranker, RerankerTraits, Update, traits_of
from quitmt.types import Candidate, Segment, Snapshot

SEGMENTS = [Segment("a", "The old cat slept near the house."), Segment("b", "A dog ate little today.")]
WORDS = "o a um gato cão casa rua velha nova viu comeu dormiu perto longe de da do muito pouco hoje".split()
UNENCODABLE = "\ud800"
"""No text: half of a surrogate pair, at which tokenizers fail."""

Make = Callable[[], Reranker[Any]]


def make_pool(seed: int, size: int = 32) -> list[Candidate]:
    """Candidates that resemble each other, with repeats. The later ones are better, so that the winner changes: what is
    computed for a text that comes late must be seen in the scores."""
    rng = random.Random(seed)
    base = rng.choices(WORDS, k=8)
    pool = []
    for index in range(size):
        noise = 0.5 * (1 - index / size) ** 2
        text = " ".join(rng.choice(WORDS) if rng.random() < noise else word for word in base)
        pool.append(Candidate(text, scores={"q": float(rng.randrange(5)), "r": len(text) % 7 / 7}))
    return pool


POOLS = [make_pool(1), make_pool(2)]
GOOD = POOLS[0][-1]
APART = sorted(POOLS[0], key=lambda candidate: candidate.text == GOOD.text)
"""The first pool, in which copies of the best text come last: before them it can be an anchor."""
ANCHORS = [
    Candidate("um cão comeu", scores={"q": 1.0, "r": 0.0}),
    GOOD,
    Candidate(f"{GOOD.text} hoje", scores={"q": 2.5, "r": 0.5}),
    Candidate(f"{GOOD.text} hoje", scores={"q": 2.5, "r": 0.5}),
    APART[0],
]
STRIDE = 4
GROWTHS: list[tuple[Sequence[int], int]] = [
    ([], 3), ([], len(POOLS[0])), (range(1, len(POOLS[0])), 1), ([1], 5), ([5, 6, 23], 2), ([8, 16, 24], 9),
]  # fmt: skip
"""Sizes at which a pool has grown, and strides."""


def extend(
    reranker: Reranker[Any],
    state: Any,
    candidates: Sequence[Candidate],
    stride: int = STRIDE,
    anchors: Sequence[Candidate] = (),
) -> list[Snapshot]:
    [found] = reranker.extend([Update(state, candidates, stride, anchors)])
    assert not isinstance(found, QuitmtError), found
    return found


def grow(
    reranker: Reranker[Any],
    pool: Sequence[Candidate],
    cuts: Sequence[int] = (),
    segment: Segment = SEGMENTS[0],
    stride: int = STRIDE,
    anchors: Sequence[Candidate] = (),
) -> list[Snapshot]:
    """The snapshots of a pool that grows at some sizes."""
    state, found = reranker.open(segment), []
    for start, stop in zip([0, *cuts], [*cuts, len(pool)], strict=True):
        found += extend(reranker, state, pool[start:stop], stride, anchors if start == 0 else ())
    return found


class RerankerContract:
    """What every reranker guarantees."""

    @pytest.fixture(scope="class")
    @classmethod
    def reranker(cls, make: Make) -> Reranker[Any]:
        return make()

    @pytest.fixture(scope="class")
    @classmethod
    def every(cls, reranker: Reranker[Any]) -> list[Snapshot]:
        """After every candidate of the first pool, which came all at once."""
        return grow(reranker, POOLS[0], stride=1)

    def assert_same(self, found: object, expected: Sequence[Snapshot]) -> None:
        assert found == list(expected)

    def test_the_best_is_one_of_those_there(self, every: list[Snapshot]) -> None:
        assert [one.size for one in every] == list(range(1, len(POOLS[0]) + 1))
        for snapshot in every:
            assert 0 <= snapshot.best < snapshot.size and np.isfinite(snapshot.score)
        assert len({snapshot.score for snapshot in every}) > 1  # winners change, or what follows would hold for nothing

    def test_a_snapshot_after_each_stride_and_after_the_last(self, reranker: Reranker[Any]) -> None:
        state = reranker.open(SEGMENTS[0])
        assert [one.size for one in extend(reranker, state, POOLS[0][:10])] == [4, 8, 10]
        assert [one.size for one in extend(reranker, state, POOLS[0][10:13])] == [13]
        assert [one.size for one in extend(reranker, state, POOLS[0][13:21])] == [17, 21]

    def test_growing_in_any_steps_changes_nothing(self, reranker: Reranker[Any], every: list[Snapshot]) -> None:
        for cuts, stride in GROWTHS:
            found = grow(reranker, POOLS[0], cuts, stride=stride)
            assert {*cuts, len(POOLS[0])} <= {one.size for one in found}
            self.assert_same(found, [every[one.size - 1] for one in found])

    def test_a_snapshot_is_that_of_the_candidates_so_far_alone(
        self, reranker: Reranker[Any], every: list[Snapshot]
    ) -> None:
        for size in (1, 2, 9, 17, 24):
            self.assert_same(grow(reranker, POOLS[0][:size])[-1:], [every[size - 1]])

    def test_batched_is_the_same_as_alone(self, reranker: Reranker[Any]) -> None:
        together = reranker.extend([Update(reranker.open(s), p, STRIDE) for s, p in zip(SEGMENTS, POOLS, strict=True)])
        for found, segment, pool in zip(together, SEGMENTS, POOLS, strict=True):
            self.assert_same(found, grow(reranker, pool, segment=segment))

    def test_segments_may_grow_unevenly(self, reranker: Reranker[Any]) -> None:
        states = [reranker.open(segment) for segment in SEGMENTS]
        found: list[list[Snapshot]] = [[], []]
        for spans in ({0: (0, 3), 1: (0, 20)}, {1: (20, 21)}, {1: (21, 32), 0: (3, 21)}, {0: (21, 32)}):
            updates = [Update(states[place], POOLS[place][start:stop], 1) for place, (start, stop) in spans.items()]
            for place, result in zip(spans, reranker.extend(updates), strict=True):
                assert not isinstance(result, QuitmtError)
                found[place] += result
        for place, pool in enumerate(POOLS):
            self.assert_same(found[place], grow(reranker, pool, segment=SEGMENTS[place], stride=1))

    def test_two_runs_of_one_segment_share_nothing(self, reranker: Reranker[Any], every: list[Snapshot]) -> None:
        one, other = reranker.open(SEGMENTS[0]), reranker.open(SEGMENTS[0])
        extend(reranker, other, POOLS[1])
        self.assert_same(extend(reranker, one, POOLS[0], 1), every)

    def test_identical_candidates_tie_to_the_first(self, reranker: Reranker[Any]) -> None:
        pool = [Candidate("o gato dormiu", scores={"q": 1.0, "r": 0.5})] * 9
        assert [snapshot.best for snapshot in grow(reranker, pool, [4])] == [0, 0, 0]

    def test_nothing_new_is_no_snapshot(self, reranker: Reranker[Any], every: list[Snapshot]) -> None:
        assert list(reranker.extend([])) == []
        state = reranker.open(SEGMENTS[0])
        assert extend(reranker, state, []) == []
        found = extend(reranker, state, POOLS[0][:20], 1)
        assert extend(reranker, state, []) == []
        self.assert_same([*found, *extend(reranker, state, POOLS[0][20:], 1)], every)

    def test_duplicates_are_not_encoded_again(self, reranker: Reranker[Any]) -> None:
        effort = getattr(reranker, "effort", None)
        if effort is None:
            pytest.skip("it does not tell what it computed")
        state = reranker.open(SEGMENTS[0])
        extend(reranker, state, POOLS[0])
        before = effort(state)
        extend(reranker, state, POOLS[0][::-1])
        assert effort(state).encoded == before.encoded <= len({candidate.text for candidate in POOLS[0]})
        assert effort(state).possible == (2 * len(POOLS[0])) ** 2

    def test_has_a_signature_that_stays(self, make: Make) -> None:
        one, other = make(), make()
        grow(one, POOLS[0])
        assert one.signature == other.signature != ""
        assert "\n" not in one.signature


class AnchoredContract(RerankerContract):
    """What a reranker guarantees that takes anchors. ``tells_good`` is False for one that may like none of them."""

    tells_good = True

    @pytest.fixture(scope="class")
    @classmethod
    def anchored(cls, reranker: Reranker[Any]) -> list[Snapshot]:
        """After every candidate of a pool, which came all at once with its anchors."""
        return grow(reranker, APART, stride=1, anchors=ANCHORS)

    def test_the_best_is_an_anchor_or_one_of_the_samples_there(
        self, reranker: Reranker[Any], anchored: list[Snapshot]
    ) -> None:
        assert traits_of(reranker, RerankerTraits).takes_anchors
        assert [one.size for one in anchored] == list(range(1, len(APART) + 1))
        for snapshot in anchored:
            assert -len(ANCHORS) <= snapshot.best < snapshot.size and np.isfinite(snapshot.score)
            assert snapshot.best != -4  # which is the same text as -3
        assert any(one.best < 0 for one in anchored) or not self.tells_good

    def test_growing_anchored_in_any_steps_changes_nothing(
        self, reranker: Reranker[Any], anchored: list[Snapshot]
    ) -> None:
        for cuts, stride in GROWTHS:
            found = grow(reranker, APART, cuts, stride=stride, anchors=ANCHORS)
            self.assert_same(found, [anchored[one.size - 1] for one in found])

    def test_an_anchored_snapshot_is_that_of_the_candidates_so_far_alone(
        self, reranker: Reranker[Any], anchored: list[Snapshot]
    ) -> None:
        for size in (1, 2, 9, 17, 28):
            self.assert_same(grow(reranker, APART[:size], anchors=ANCHORS)[-1:], [anchored[size - 1]])

    def test_anchors_of_one_segment_are_not_another_s(self, reranker: Reranker[Any], anchored: list[Snapshot]) -> None:
        states = [reranker.open(SEGMENTS[0]) for _ in range(3)]
        first, second, third = reranker.extend(
            [
                Update(states[0], APART, 1, ANCHORS),
                Update(states[1], APART, 1),
                Update(states[2], APART, 1, ANCHORS[:2]),
            ]
        )
        self.assert_same(first, anchored)
        self.assert_same(second, grow(reranker, APART, stride=1))
        self.assert_same(third, grow(reranker, APART, stride=1, anchors=ANCHORS[:2]))

    def test_anchors_may_come_before_the_first_sample(self, reranker: Reranker[Any], anchored: list[Snapshot]) -> None:
        state = reranker.open(SEGMENTS[0])
        assert extend(reranker, state, [], anchors=ANCHORS) == []
        self.assert_same(extend(reranker, state, APART, 1), anchored)

    @pytest.mark.parametrize("first", [([], ANCHORS[:1]), (APART[:3], ())])
    def test_anchors_that_come_later_are_refused(self, reranker: Reranker[Any], first: Any) -> None:
        state = reranker.open(SEGMENTS[0])
        extend(reranker, state, first[0], anchors=first[1])
        with pytest.raises(RerankError, match="segment a: anchors came after the pool had begun"):
            reranker.extend([Update(state, APART[3:5], 1, ANCHORS)])

    def test_anchors_that_are_samples_are_not_encoded_again(self, reranker: Reranker[Any]) -> None:
        effort = getattr(reranker, "effort", None)
        if effort is None:
            pytest.skip("it does not tell what it computed")
        state = reranker.open(SEGMENTS[0])
        extend(reranker, state, APART, anchors=ANCHORS)
        assert effort(state).encoded <= len({candidate.text for candidate in [*ANCHORS, *APART]})
        assert effort(state).possible == (len(ANCHORS) + len(APART)) ** 2


class FailingContract(RerankerContract):
    """What a reranker guarantees that fails with some texts; ``bad`` is a candidate it fails with."""

    bad = Candidate(UNENCODABLE)

    def test_a_segment_that_fails_fails_alone(self, reranker: Reranker[Any], every: list[Snapshot]) -> None:
        segments = [SEGMENTS[0], Segment("culprit", "It rains."), SEGMENTS[1]]
        states = [reranker.open(segment) for segment in segments]
        pools = [POOLS[0][:20], [*POOLS[1][:5], self.bad, *POOLS[1][5:]], POOLS[1]]
        first, error, last = reranker.extend([Update(s, p, 1) for s, p in zip(states, pools, strict=True)])
        assert isinstance(error, QuitmtError)
        self.assert_same(first, every[:20])
        self.assert_same(last, grow(reranker, POOLS[1], segment=SEGMENTS[1], stride=1))
        self.assert_same(extend(reranker, states[0], POOLS[0][20:], 1), every[20:])

    def test_a_segment_that_fails_with_an_anchor_fails_alone(
        self, reranker: Reranker[Any], every: list[Snapshot]
    ) -> None:
        fine, culprit = reranker.open(SEGMENTS[0]), reranker.open(Segment("culprit", "It rains."))
        bad = Update(culprit, POOLS[1], 1, [ANCHORS[0], self.bad])
        error, found = reranker.extend([bad, Update(fine, POOLS[0], 1)])
        assert isinstance(error, QuitmtError)
        self.assert_same(found, every)


class CloseContract(RerankerContract):
    """The contract of scoring models, whose scores depend on their batches in rounding."""

    tolerance = 1e-5

    def assert_same(self, found: object, expected: Sequence[Snapshot]) -> None:
        assert isinstance(found, list)
        assert [one.size for one in found] == [one.size for one in expected]
        # Two candidates judge each other: where a utility is the same both ways, only rounding tells them apart.
        assert [one.best for one in found if one.size > 2] == [one.best for one in expected if one.size > 2]
        scores = [one.score for one in found], [one.score for one in expected]
        np.testing.assert_allclose(*scores, rtol=0, atol=self.tolerance)


class ExactContract(RerankerContract):
    """What exact MBR guarantees: the mean over all candidates, added up in the order of the pool, with duplicates."""

    def plain(self, reranker: Any, pool: Sequence[Candidate]) -> list[tuple[int, float]]:
        """The best index and its score after each candidate, by the definition, in plain Python."""
        texts = list(dict.fromkeys(candidate.text for candidate in pool))
        numbers = [texts.index(candidate.text) for candidate in pool]
        arena = reranker.utility.open(SEGMENTS[0])
        reranker.utility.encode([(arena, texts)])
        matrix, _ = reranker.utility.compare(arena, range(len(texts)), range(len(texts)))
        found = []
        for size in range(1, len(pool) + 1):
            sums = []
            for hypothesis in numbers[:size]:
                total = 0.0
                for reference in numbers[:size]:
                    total += float(matrix[hypothesis, reference])
                sums.append(total)
            found.append((sums.index(max(sums)), max(sums) / size))
        return found

    def test_scores_are_means_in_the_order_of_the_pool(self, reranker: Any, every: list[Snapshot]) -> None:
        assert [(one.best, one.score) for one in every] == self.plain(reranker, POOLS[0])

    def test_duplicates_count_and_cost_nothing(self, reranker: Any) -> None:
        pool = [Candidate("o gato dormiu hoje"), *[Candidate("um cão comeu pouco")] * 7]
        state = reranker.open(SEGMENTS[0])
        first, *_, last = extend(reranker, state, pool, 1)
        assert (first.best, last.best) == (0, 1)
        assert (reranker.effort(state).evaluations, reranker.effort(state).encoded) == (4, 2)

    def test_rivals_are_told_the_same_in_any_steps_and_at_any_time(self, reranker: Any, every: list[Snapshot]) -> None:
        stepwise = grow(reranker, POOLS[0], range(1, len(POOLS[0])), stride=1)
        for one, other in zip(stepwise, every, strict=True):
            assert one.rivals is not None and other.rivals is not None
            for name in ("mean", "error", "top"):
                np.testing.assert_array_equal(getattr(one.rivals(), name), getattr(other.rivals(), name))
