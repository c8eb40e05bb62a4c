"""The window rule against the definition, written down as docs/method.md has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quitmt.errors import UsageError
from quitmt.stop.fixed import Fixed
from quitmt.stop.window import Quit
from quitmt.types import Snapshot


def by_definition(scores: list[float], k: int, w: int, alpha: float, n_max: int) -> tuple[int, str]:
    """``scores[i]`` is the best score with i + 1 candidates; the stopping size and why, literally as defined."""
    i, window = 0, []
    while i * k < n_max:
        i += 1
        size = min(i * k, n_max)
        window.append(scores[size - 1])
        if len(window) == w:
            if max(window) - min(window) <= alpha:
                return size, "stable"
            window = []
    return n_max, "budget"


def observed(rule: Quit | Fixed, scores: list[float]) -> tuple[int, str]:
    watch, size = rule.open(), 0
    while True:
        size = min(size + rule.step, rule.budget)
        if stop_reason := watch.observe(Snapshot(size, 0, scores[size - 1])):
            return size, stop_reason.value


scores = st.lists(st.sampled_from([0.1, 0.2, 0.2004, 0.2011, 0.5]), min_size=40, max_size=40)


@given(scores, st.integers(1, 12), st.integers(2, 6), st.sampled_from([0.0, 5e-4, 1e-3, 0.3]), st.integers(1, 40))
def test_stops_where_the_definition_does(values: list[float], k: int, w: int, alpha: float, n_max: int) -> None:
    assert observed(Quit(k, w, alpha, n_max), values) == by_definition(values, k, w, alpha, n_max)


@given(st.integers(1, 9), st.integers(2, 9), st.integers(1, 200), st.integers(0, 199))
def test_horizon_is_the_next_size_at_which_it_could_stop(k: int, w: int, n_max: int, size: int) -> None:
    size = min(size, n_max - 1)
    size -= size % k
    could_stop = {min(i * k, n_max) for i in range(w, n_max // k + 2, w) if (i - 1) * k < n_max} | {n_max}
    assert Quit(k, w, 1e-3, n_max).open().horizon(size) == min(n for n in could_stop if n > size)


def test_windows_do_not_overlap() -> None:
    # Steps 2 and 3 are equal, but they belong to different windows.
    assert observed(Quit(1, 2, 0.0, 4), [0.1, 0.5, 0.5, 0.9]) == (4, "budget")


def test_alpha_is_inclusive() -> None:
    assert observed(Quit(1, 2, 0.25, 4), [0.5, 0.75, 0.0, 0.0]) == (2, "stable")


def test_an_unfinished_last_window_is_not_tested() -> None:
    assert observed(Quit(1, 4, 1.0, 3), [0.5, 0.5, 0.5]) == (3, "budget")


def test_a_window_of_one_step_only_if_asked_for() -> None:
    with pytest.raises(UsageError, match="w = 1 always stops at the first step"):
        Quit(window=1)
    assert observed(Quit(8, 1, 0.0, 64, single=True), [0.5] * 64) == (8, "stable")


@given(scores, st.integers(1, 12), st.integers(1, 40))
def test_fixed_looks_at_no_score(values: list[float], k: int, n_max: int) -> None:
    assert observed(Fixed(n_max, k), values) == (n_max, "budget")
