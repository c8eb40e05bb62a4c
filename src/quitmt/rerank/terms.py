"""The grammar of names that combine metrics, what follows ``mbr:`` or ``qe:``:

    WEIGHT*METRIC+WEIGHT*METRIC…             the sum of the scores as they are; a metric without a weight counts once
    scaled:WEIGHT*METRIC+WEIGHT*METRIC…      … of the scores in standard deviations from the pool's mean
    rank:WEIGHT*METRIC+WEIGHT*METRIC…        … of the share of the pool that a candidate beats

A ``+`` always separates metrics, but for two that end a name, as in ``chrf++``: no model in such a text has one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from quitmt.errors import UsageError

Way = Literal["sum", "scaled", "rank"]
BY_POOL: tuple[Way, ...] = ("scaled", "rank")
"""Ways in which a candidate's score depends on the other candidates, whatever the metrics."""
_PLUS = re.compile(r"(?:(?<=\w)\+\+)|\+")


@dataclass(frozen=True, slots=True)
class Combination:
    way: Way
    metrics: tuple[str, ...]
    weights: tuple[float | None, ...]
    """None where none is written."""

    @property
    def single(self) -> bool:
        """One metric as it is."""
        return self.way == "sum" and self.weights == (None,)

    @property
    def factors(self) -> list[float]:
        return [1.0 if weight is None else weight for weight in self.weights]


def parse(text: str) -> Combination:
    """What follows ``mbr:`` or ``qe:``.

    >>> parse("scaled:0.5*chrf+++comet:some/model")
    Combination(way='scaled', metrics=('chrf++', 'comet:some/model'), weights=(0.5, None))
    """
    way, rest = _way(text)
    terms = [_term(term, text) for term in _split(rest)]
    return Combination(way, tuple(name for _, name in terms), tuple(weight for weight, _ in terms))


def _way(text: str) -> tuple[Way, str]:
    for way in BY_POOL:
        if text.startswith(f"{way}:"):
            return way, text.removeprefix(f"{way}:")
    return "sum", text


def _split(text: str) -> list[str]:
    found, start = list[str](), 0
    for match in _PLUS.finditer(text):
        if len(match.group()) == 1:
            found.append(text[start : match.start()])
            start = match.end()
    return [*found, text[start:]]


def _term(text: str, spec: str) -> tuple[float | None, str]:
    """A metric and its weight."""
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
