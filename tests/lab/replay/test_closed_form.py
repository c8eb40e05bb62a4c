"""QUIT's stopping size with QE on scores that carry no information: the replay agrees with its law.

With QE the best score is a running maximum. A window passes with alpha = 0 exactly if none of its candidates after its
first step is a new maximum, which means that the best of the first b (all up to the window's last candidate) is among
the first a (all up to the end of its first step). If scores are independent and continuous, the best is equally likely
at every place, so the window passes with probability a / b: with full steps 1 − (w − 1) / (w·b′) for window b′. Windows
do not share candidates, so they pass independently. Ties and alpha > 0 only make windows pass more often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quitmt.lab.frames import Floats, Ints, Trajectories
from quitmt.lab.replay.rules import quit_rule, steps

SEGMENTS = 5_000
SETTINGS = [
    (8, 4, 512),
    (4, 8, 128),
    (8, 16, 256),
    (3, 4, 50),  # the last step is shorter, and completes no window
    (7, 3, 60),  # the last step is shorter, and completes a window
    (5, 2, 64),  # the last window is of one step
    (16, 8, 100),  # no window is ever complete
    (1, 2, 30),
]


@dataclass(frozen=True, slots=True)
class StoppingLaw:
    """The distribution of the stopping size."""

    sizes: Ints
    """The sizes at which it can stop, ascending; the last is the budget."""
    probability: Floats
    """The probability of stopping at each size."""

    @property
    def mean(self) -> float:
        return float(self.sizes @ self.probability)

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return float(np.sqrt((self.sizes - self.mean) ** 2 @ self.probability))

    @property
    def full(self) -> float:
        """The probability that the whole budget is used."""
        return float(self.probability[-1])


def qe_stopping(k: int, w: int, budget: int) -> StoppingLaw:
    """The law for independent continuous scores and alpha = 0."""
    looked = steps(budget, k, budget)
    windows = looked[: len(looked) // w * w].reshape(-1, w)
    passes = windows[:, 0] / windows[:, -1]
    reaches = np.concatenate([[1.0], np.cumprod(1 - passes)])
    stops = np.append(reaches[:-1] * passes, reaches[-1])
    sizes = np.append(windows[:, -1], looked[-1])
    if len(windows) and sizes[-2] == sizes[-1]:  # at the budget it stops in any case
        return StoppingLaw(sizes[:-1], np.append(stops[:-2], stops[-2] + stops[-1]))
    return StoppingLaw(sizes, stops)


def simulated(scores: Floats, k: int, w: int, budget: int) -> Ints:
    best = np.maximum.accumulate(scores, axis=1)
    rows, size = best.shape
    nothing = np.zeros(best.shape, np.int64)
    trajectories = Trajectories(
        "qe:noise", "", ("",) * rows, np.full(rows, size), nothing, best, best, np.ones(rows), np.ones(rows)
    )
    return quit_rule(trajectories, k=k, w=w, alpha=0.0, budget=budget).size


@pytest.mark.parametrize(("w", "mean"), [(4, 67.7), (8, 153.5), (16, 321.8)])
def test_the_means_of_the_method(w: int, mean: float) -> None:
    assert round(qe_stopping(8, w, 512).mean, 1) == mean


@pytest.mark.parametrize(("k", "w", "budget"), SETTINGS)
def test_simulated_scores_stop_by_it(k: int, w: int, budget: int) -> None:
    """The law speaks of ranks alone, so any continuous distribution will do."""
    law = qe_stopping(k, w, budget)
    scores = np.random.default_rng(11).random((SEGMENTS, budget))
    sizes = simulated(scores, k, w, budget)
    assert set(sizes.tolist()) <= set(law.sizes.tolist())
    for size, probability in zip(law.sizes, law.probability, strict=True):
        error = np.sqrt(probability * (1 - probability) / SEGMENTS)
        assert abs((sizes == size).mean() - probability) <= 4.5 * error + 1e-12
    assert abs(sizes.mean() - law.mean) <= 4.5 * law.deviation / np.sqrt(SEGMENTS)
    assert abs((sizes == budget).mean() - law.full) <= 4.5 * np.sqrt(law.full * (1 - law.full) / SEGMENTS) + 1e-12


def test_a_window_passes_with_the_probability_of_the_method() -> None:
    k, w = 8, 8
    law, reached = qe_stopping(k, w, 512), 1.0
    for b, (size, probability) in enumerate(zip(law.sizes[:-1], law.probability[:-1], strict=True), start=1):
        assert size == b * k * w
        assert probability / reached == pytest.approx(1 - (w - 1) / (w * b))
        reached -= probability


def test_with_ties_it_stops_earlier() -> None:
    scores = np.random.default_rng(12).random((SEGMENTS, 256))
    law = qe_stopping(8, 8, 256)
    means = [simulated(scores.round(digits), 8, 8, 256).mean() for digits in (4, 2, 1)]
    error = law.deviation / np.sqrt(SEGMENTS)
    assert law.mean + 4 * error > means[0] > means[1] + 10 * error > means[2] + 20 * error


@given(st.integers(1, 20), st.integers(1, 9), st.integers(1, 300))
def test_it_is_a_distribution_over_sizes_up_to_the_budget(k: int, w: int, budget: int) -> None:
    law = qe_stopping(k, w, budget)
    assert law.probability.sum() == pytest.approx(1)
    assert (law.probability >= 0).all()
    assert (np.diff(law.sizes) > 0).all() and law.sizes[-1] == budget
    assert law.sizes[0] <= law.mean <= budget


def test_one_step_always_stops() -> None:
    law = qe_stopping(8, 1, 64)
    assert law.mean == 8 and law.full == 0
