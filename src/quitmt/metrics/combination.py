"""The grammar that combines metrics: the part of a reranker's name after ``mbr:`` or ``qe:``.

    WEIGHT*METRIC+WEIGHT*METRIC…             the sum of the scores; a metric without a weight counts once
    scaled:WEIGHT*METRIC+WEIGHT*METRIC…      the sum of the scores in standard deviations from the pool's mean
    rank:WEIGHT*METRIC+WEIGHT*METRIC…        the sum of the shares of the pool that a candidate beats

A ``+`` separates metrics, unless two of them end a name, as in ``chrf++``. Names of models can't contain a ``+``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from quitmt.errors import UsageError

Part = TypeVar("Part")
Method = Literal["sum", "scaled", "rank"]
BY_POOL: tuple[Method, ...] = ("scaled", "rank")
"""Methods that make any metric's scores depend on the other candidates of the pool."""
_PLUS = re.compile(r"(?:(?<=\w)\+\+)|\+")


@dataclass(frozen=True, slots=True)
class Combination:
    method: Method
    metrics: tuple[str, ...]
    weights: tuple[float | None, ...]
    """None where the text has no weight."""

    @property
    def single(self) -> bool:
        """Whether this is one metric without a weight."""
        return self.method == "sum" and self.weights == (None,)

    @property
    def factors(self) -> list[float]:
        return [1.0 if weight is None else weight for weight in self.weights]


def parse(text: str) -> Combination:
    """Parse a name without its ``mbr:`` or ``qe:``.

    >>> parse("scaled:0.5*chrf+++comet:some/model")
    Combination(method='scaled', metrics=('chrf++', 'comet:some/model'), weights=(0.5, None))
    """
    method, rest = _method(text)
    weighted = [_weighted(part, text) for part in _split(rest)]
    return Combination(method, tuple(name for _, name in weighted), tuple(weight for weight, _ in weighted))


def terms(metrics: Sequence[Part], weights: Sequence[float]) -> list[tuple[Part, float]]:
    """Pair each metric with its weight."""
    if not metrics or len(metrics) != len(weights) or not all(map(math.isfinite, weights)):
        raise UsageError(f"{len(metrics)} metrics and the weights {list(weights)} cannot be combined")
    return list(zip(metrics, map(float, weights), strict=True))


def _method(text: str) -> tuple[Method, str]:
    for method in BY_POOL:
        if text.startswith(f"{method}:"):
            return method, text.removeprefix(f"{method}:")
    return "sum", text


def _split(text: str) -> list[str]:
    parts, start = list[str](), 0
    for match in _PLUS.finditer(text):
        if len(match.group()) == 1:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def _weighted(text: str, spec: str) -> tuple[float | None, str]:
    """Parse WEIGHT*METRIC."""
    weight, star, name = text.strip().rpartition("*")
    if not name.strip():
        raise UsageError(f"a metric is missing in {spec!r}", hint="write WEIGHT*METRIC+WEIGHT*METRIC")
    if not star:
        return None, name
    try:
        value = float(weight)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{weight!r} in {spec!r} is not a weight", hint="it must be a number, such as 0.7*kiwi")
    return value, name.strip()
