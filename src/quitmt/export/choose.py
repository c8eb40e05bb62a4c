"""Which candidates of a source are used: the best one, and for pairs those that it is preferred to.

The chosen one is the best that no filter leaves out. Which rejected one teaches most is a matter of taste and of the
trainer, so it is a strategy:

    worst           the lowest score
    quantile:Q      the one below which the share Q of the samples is; near 0 it is nearly the worst, but no outlier.
                    Xiao et al. (2025, arXiv 2502.16825) lose with more samples by the worst, and not by μ - 2σ.
    different       the one that has least in common with the chosen one, by chrF
    greedy          the model's own greedy translation: what it would say today

A pair needs a margin, in units of the score or in standard deviations of the source's own candidates: without one, two
equally good candidates would be told apart by the noise of the metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from quitmt.errors import UsageError, unknown
from quitmt.export.filters import Filters
from quitmt.export.ranking import RankedPool
from quitmt.types import Ranked, Segment

STRATEGIES = ("worst", "quantile", "different", "greedy")
REJECTED, MARGIN, QUANTILE = "quantile:0.05", "0.5sd", 0.05
ONE = "have one distinct candidate only"
UNSCORED = "have no scored candidate"
CLOSE = "have no rejected one with the margin"
LEFT_OUT = "have only candidates that filters leave out"
NO_GREEDY = "have no greedy translation"
GREEDY_IS_BEST = "have the greedy translation as their best"


@dataclass(frozen=True, slots=True)
class Margin:
    """At least so much better, and better in any case."""

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
            raise UsageError(f"the margin must be a number such as 0.05, or as 0.5sd, not {text!r}")
        return cls(value, number != text)

    def of(self, ranked: RankedPool) -> float:
        """In units of the score."""
        return self.value * deviation(ranked) if self.in_deviations else self.value


@dataclass(frozen=True, slots=True)
class Strategy:
    name: str = "quantile"
    quantile: float = QUANTILE

    @classmethod
    def parse(cls, text: str) -> Strategy:
        name, _, argument = text.partition(":")
        if name not in STRATEGIES:
            raise unknown("way to choose the rejected one", text, ["worst", "quantile:Q", "different", "greedy"])
        if name != "quantile":
            if argument:
                raise UsageError(f"{name} takes no argument, and {text!r} has one")
            return cls(name)
        try:
            value = float(argument) if argument else QUANTILE
        except ValueError:
            value = math.nan
        if not 0 <= value <= 1:
            raise UsageError(f"the quantile must be a number from 0 to 1, not {argument!r}")
        return cls(name, value)

    def order(self, chosen: int, ranked: RankedPool) -> list[int]:
        """The places of all others, the most wanted first."""
        others = [place for place in range(len(ranked) - 1, -1, -1) if place != chosen]
        if self.name == "quantile":
            away = [abs(below - self.quantile) for below in positions(ranked.weights)]
            others.sort(key=away.__getitem__)
        elif self.name == "different":
            alike = likeness(ranked.texts[chosen], ranked.texts)
            others.sort(key=alike.__getitem__)
        elif self.name == "greedy":
            others = [place for place in others if ranked.origins[place] == "greedy"]
        return others


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is used of a source, or why nothing is."""

    chosen: Ranked | None = None
    rejected: tuple[Ranked, ...] = ()
    reason: str | None = None


def best(source: str, ranked: RankedPool, filters: Filters) -> Chosen:
    """The best candidate that is not left out."""
    found = _best(source, ranked, filters)
    return Chosen(reason=found) if isinstance(found, str) else Chosen(ranked[found])


def _best(source: str, ranked: RankedPool, filters: Filters) -> int | str:
    """Its place, or why there is none."""
    if not len(ranked):
        return UNSCORED
    passing = (place for place, text in enumerate(ranked.texts) if filters.reason(source, text) is None)
    return next(passing, LEFT_OUT)


def pairs(
    source: str, ranked: RankedPool, filters: Filters, strategy: Strategy, margin: Margin, count: int = 1
) -> Chosen:
    """The best one, and up to ``count`` others that it is preferred to."""
    if len(ranked) == 1:
        return Chosen(reason=ONE)
    chosen = _best(source, ranked, filters)
    if isinstance(chosen, str):
        return Chosen(reason=chosen)
    if strategy.name == "greedy":
        if ranked.origins[chosen] == "greedy":
            return Chosen(reason=GREEDY_IS_BEST)
        if "greedy" not in ranked.origins:
            return Chosen(reason=NO_GREEDY)
    found, least, top = list[Ranked](), margin.of(ranked), ranked.scores[chosen]
    for place in strategy.order(chosen, ranked):
        gain = top - ranked.scores[place]
        if gain > 0 and gain >= least and filters.reason(source, ranked.texts[place]) is None:
            found.append(ranked[place])
            if len(found) == count:
                break
    return Chosen(ranked[chosen], tuple(found)) if found else Chosen(reason=CLOSE)


def everything(source: str, ranked: RankedPool, filters: Filters, *, at_least: int = 1) -> list[Ranked] | str:
    """All that no filter leaves out, or why there are too few."""
    if not len(ranked):
        return UNSCORED
    if len(ranked) < at_least:
        return ONE
    found = [ranked[place] for place, text in enumerate(ranked.texts) if filters.reason(source, text) is None]
    return found if len(found) >= at_least else LEFT_OUT


def deviation(ranked: RankedPool) -> float:
    """The standard deviation of the scores."""
    scores, weights = ranked.scores, ranked.weights
    total = sum(weights)
    mean = sum(map(mul, scores, weights)) / total
    return math.sqrt(sum(map(mul, [(score - mean) ** 2 for score in scores], weights)) / total)


def positions(weights: Sequence[int]) -> list[float]:
    """Of each place, the best first, the share of all that is below it: half of its own copies are.

    >>> positions([2, 1, 1])
    [0.75, 0.375, 0.125]
    """
    left = total = sum(weights)
    found = []
    for weight in weights:
        left -= weight
        found.append((left + weight / 2) / total)
    return found


def likeness(text: str, others: Sequence[str]) -> list[float]:
    """chrF of each other text with this one, both ways together."""
    from quitmt.metrics.chrf import Chrf  # which compiles

    chrf = Chrf()
    arena = chrf.open(Segment("likeness"))
    chrf.encode([(arena, [text, *others])])
    one_way, other_way = chrf.compare(arena, range(1), range(1, 1 + len(others)))
    return [float(value) for value in ((one_way + other_way) / 2)[0]]
