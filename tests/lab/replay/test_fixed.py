"""Fixed-N*: the same candidates in all, as even as can be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quitmt.errors import UsageError
from quitmt.lab.replay.rules import matched_fixed, quit_rule, unaccelerated
from tests.lab.arrays import fixed, running_best

SCORES = np.random.default_rng(0).random((40, 32))


@given(st.lists(st.integers(1, 32), min_size=40, max_size=40), st.integers(1, 40), st.data())
def test_the_sum_is_exact_and_no_size_differs_by_more_than_one(
    sizes: list[int], budget: int, data: st.DataObject
) -> None:
    trajectories = running_best(SCORES, sizes=sizes)
    most = np.minimum(sizes, budget)
    total = data.draw(st.integers(40, int(most.sum())))
    found = matched_fixed(trajectories, total / 40, budget)
    assert found.size.sum() == total
    assert (found.size <= most).all()
    assert set((found.size.max() - found.size[found.size < most]).tolist()) <= {0, 1}


def test_it_spends_what_quit_spends() -> None:
    trajectories = running_best(SCORES)
    rule = quit_rule(trajectories, k=2, w=3, alpha=0.0, budget=32)
    found = matched_fixed(trajectories, rule.mean_size, 32, name="Fixed-N* (w=3)")
    assert found.mean_size == rule.mean_size
    assert len(set(rule.size.tolist())) > 2 >= len(set(found.size.tolist()))
    assert found.name == "Fixed-N* (w=3)" and found.settings == {"n": rule.mean_size}


def test_a_whole_number_is_the_fixed_size() -> None:
    trajectories = running_best(SCORES, sizes=[32] * 39 + [20])
    for size in (1, 7, 20):
        found, plain = matched_fixed(trajectories, size, 32), fixed(trajectories, size, 32)
        for name in ("size", "index", "score", "full"):
            assert (getattr(found, name) == getattr(plain, name)).all()
    everything = unaccelerated(trajectories, 32)
    assert (matched_fixed(trajectories, everything.mean_size, 32).index == everything.index).all()


def test_winners_are_those_of_their_size() -> None:
    trajectories = running_best(SCORES)
    found = matched_fixed(trajectories, 10.5, 32)
    assert sorted(set(found.size.tolist())) == [10, 11]
    for row, size in enumerate(found.size):
        assert found.index[row] == int(np.argmax(SCORES[row, :size]))
        assert found.score[row] == SCORES[row, :size].max()


def test_who_gets_one_more_depends_on_the_seed_alone() -> None:
    trajectories = running_best(SCORES)
    sizes = [matched_fixed(trajectories, 10.5, 32, seed=seed).size.tolist() for seed in (0, 0, 1)]
    assert sizes[0] == sizes[1] != sizes[2]
    assert sizes[0] != sorted(sizes[0], reverse=True)


@pytest.mark.parametrize("target", [0.5, 32.1, float("nan")])
def test_a_mean_that_cannot_be_is_refused(target: float) -> None:
    with pytest.raises(UsageError, match=r"no fixed size has a mean of .* allow 1 to 32"):
        matched_fixed(running_best(SCORES), target, 64)
