"""Chooses candidates of a source: the best one, and for preference pairs the rejected ones.

The chosen candidate is the best one that passes the filters. A strategy picks the rejected one:

    worst           the lowest score
    quantile:Q      the candidate with the share Q of the samples below it; near 0 it is bad but not an outlier.
                    In Xiao et al. (2025, arXiv 2502.16825), more samples hurt with the worst, but not with μ - 2σ.
    greedy          the model's own greedy translation

A pair needs a margin, in score units or in standard deviations of the source's candidates. Without a margin, the
metric's noise would decide between equally good candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from quitmt.errors import UsageError, unknown
from quitmt.export.entries import RankedPool
from quitmt.export.filters import Filters
from quitmt.types import Ranked

STRATEGIES = ("worst", "quantile", "greedy")
REJECTED, MARGIN, QUANTILE = "quantile:0.05", "0.5sd", 0.05
ONE = "have only one distinct candidate"
UNSCORED = "have no scored candidate"
CLOSE = "have no candidate below the margin"
LEFT_OUT = "have only candidates that the filters remove"
NO_GREEDY = "have no greedy translation"
GREEDY_IS_BEST = "have the greedy translation as the best"


@dataclass(frozen=True, slots=True)
class Margin:
    """The minimum difference between the scores of the chosen and the rejected candidate."""

    value: float = 0.5
    in_deviations: bool = True

    @classmethod
    def parse(cls, text: str) -> Margin:
        number = text.removesuffix("sd")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise UsageError(f"the margin must be a number such as 0.05 or 0.5sd, not {text!r}")
        return cls(value, number != text)

    def in_score(self, ranked: RankedPool) -> float:
        """The margin in score units."""
        return self.value * deviation(ranked) if self.in_deviations else self.value


@dataclass(frozen=True, slots=True)
class Strategy:
    name: str = "quantile"
    quantile: float = QUANTILE

    @classmethod
    def parse(cls, text: str) -> Strategy:
        name, _, argument = text.partition(":")
        if name not in STRATEGIES:
            raise unknown("strategy for rejected candidates", text, ["worst", "quantile:Q", "greedy"])
        if name != "quantile":
            if argument:
                raise UsageError(f"{name} doesn't take an argument, but {text!r} has one")
            return cls(name)
        try:
            value = float(argument) if argument else QUANTILE
        except ValueError:
            value = math.nan
        if not 0 <= value <= 1:
            raise UsageError(f"the quantile must be a number from 0 to 1, not {argument!r}")
        return cls(name, value)

    def order(self, chosen: int, ranked: RankedPool) -> list[int]:
        """The indexes of all other candidates, the preferred one first."""
        others = [place for place in range(len(ranked) - 1, -1, -1) if place != chosen]
        if self.name == "quantile":
            away = [abs(below - self.quantile) for below in positions(ranked.weights)]
            others.sort(key=away.__getitem__)
        elif self.name == "greedy":
            others = [place for place in others if ranked.origins[place] == "greedy"]
        return others


def best(source: str, ranked: RankedPool, filters: Filters) -> list[Ranked] | str:
    """The best candidate that passes the filters, or the reason why there is none."""
    chosen = _best(source, ranked, filters)
    return chosen if isinstance(chosen, str) else [ranked[chosen]]


def _best(source: str, ranked: RankedPool, filters: Filters) -> int | str:
    if not len(ranked):
        return UNSCORED
    passing = (place for place, text in enumerate(ranked.texts) if filters.reason(source, text) is None)
    return next(passing, LEFT_OUT)


def pairs(
    source: str, ranked: RankedPool, filters: Filters, strategy: Strategy, margin: Margin, count: int = 1
) -> list[Ranked] | str:
    """The best candidate and up to ``count`` rejected ones, or the reason why there is no pair."""
    if len(ranked) == 1:
        return ONE
    chosen = _best(source, ranked, filters)
    if isinstance(chosen, str):
        return chosen
    if strategy.name == "greedy":
        if ranked.origins[chosen] == "greedy":
            return GREEDY_IS_BEST
        if "greedy" not in ranked.origins:
            return NO_GREEDY
    rejected, least, top = list[Ranked](), margin.in_score(ranked), ranked.scores[chosen]
    for place in strategy.order(chosen, ranked):
        gain = top - ranked.scores[place]
        if gain > 0 and gain >= least and filters.reason(source, ranked.texts[place]) is None:
            rejected.append(ranked[place])
            if len(rejected) == count:
                break
    return [ranked[chosen], *rejected] if rejected else CLOSE


def everything(source: str, ranked: RankedPool, filters: Filters, *, at_least: int = 1) -> list[Ranked] | str:
    """All candidates that pass the filters, or the reason why there are too few."""
    if not len(ranked):
        return UNSCORED
    if len(ranked) < at_least:
        return ONE
    found = [ranked[place] for place, text in enumerate(ranked.texts) if filters.reason(source, text) is None]
    return found if len(found) >= at_least else LEFT_OUT


def deviation(ranked: RankedPool) -> float:
    """The standard deviation of the scores of the samples."""
    scores, weights = ranked.scores, ranked.weights
    total = sum(weights)
    mean = sum(map(mul, scores, weights)) / total
    return math.sqrt(sum(map(mul, [(score - mean) ** 2 for score in scores], weights)) / total)


def positions(weights: Sequence[int]) -> list[float]:
    """For candidates sorted best first, the share of samples below each; half of a candidate's own copies count as
    below.

    >>> positions([2, 1, 1])
    [0.75, 0.375, 0.125]
    """
    left = total = sum(weights)
    found = []
    for weight in weights:
        left -= weight
        found.append((left + weight / 2) / total)
    return found
