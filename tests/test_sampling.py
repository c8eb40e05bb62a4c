"""Sampling settings out of range."""

from __future__ import annotations

from typing import Any

import pytest

from quitmt.errors import UsageError
from quitmt.sampling import Sampling


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -0.1}, "temperature must be 0 or more, not -0.1"),
        ({"temperature": float("nan")}, "temperature must be 0 or more, not nan"),
        ({"temperature": float("inf")}, "temperature must be 0 or more, not inf"),
        ({"top_k": 0}, "top_k must be 1 or more, not 0"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, not 0.0"),
        ({"top_p": 1.1}, "top_p must be above 0 and at most 1, not 1.1"),
        ({"epsilon": 1.0}, "epsilon must be at least 0 and below 1, not 1.0"),
        ({"min_p": 1.1}, "min_p must be at least 0 and at most 1, not 1.1"),
        ({"min_p": -0.1}, "min_p must be at least 0 and at most 1, not -0.1"),
        ({"beam": 0}, "a beam must have a size of 1 or more, not 0"),
        ({"epsilon": -0.1}, "epsilon must be at least 0 and below 1, not -0.1"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Sampling(**settings)
