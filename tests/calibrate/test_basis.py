"""A wished loss says what it rests on where nobody has measured it, and says nothing where it was."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import quitmt

RESTS = "max_loss is aimed at and not guaranteed: it was measured with anchored pools of the embedded model"


def sample(source: str, start: int, stop: int) -> Sequence[str]:
    return [f"{source} {index % 3}" for index in range(start, stop)]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[..., list[str]]:
    def tell(*words: Any, **settings: Any) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="quitmt"):
            quitmt.Translator(*words, **settings)
        return [record.getMessage() for record in caplog.records]

    return tell


def test_another_model_is_warninged_on_once(told: Callable[..., list[str]]) -> None:
    (line,) = told(sample, max_loss=0.01)
    assert line.startswith(RESTS) and "0.4 to 1.6 times" in line


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 1.0},
        {"model": "embedded:pt-en"},
        {"reranker": quitmt.mbr(lambda hypothesis, reference: 1.0)},
        {"top_k": 10},
    ],
)
def test_other_sampling_direction_and_utility(told: Callable[..., list[str]], settings: dict[str, Any]) -> None:
    (line,) = told(**settings, max_loss=0.01)
    assert line.startswith(RESTS)


def test_what_was_measured_needs_no_warning(told: Callable[..., list[str]]) -> None:
    assert told(max_loss=0.01, seed=7) == []
    assert told(sample, max_cost=100) != []  # no curve is known with k and n of its own … but no loss is wished for
    assert not any(RESTS in line for line in told(sample, max_cost=100))
    assert told(sample) == told(sample, rule="auto") == []


def test_figures_of_a_profile_speak_for_themselves(told: Callable[..., list[str]]) -> None:
    (line,) = told(sample, max_loss="0.02sd")
    assert line.startswith("the figures of this rule need not hold here")
