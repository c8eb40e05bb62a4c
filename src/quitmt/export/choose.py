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

    def of(self, ranked: Sequence[Ranked]) -> float:
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

    def order(self, chosen: Ranked, ranked: Sequence[Ranked]) -> list[Ranked]:
        """All others, the most wanted first."""
        others = [one for one in reversed(ranked) if one is not chosen]
        if self.name == "quantile":
            below = positions(ranked)
            others.sort(key=lambda one: abs(below[one.text] - self.quantile))
        elif self.name == "different":
            alike = likeness(chosen.text, [one.text for one in others])
            others = [one for _, one in sorted(zip(alike, others, strict=True), key=lambda pair: pair[0])]
        elif self.name == "greedy":
            others = [one for one in others if one.origin == "greedy"]
        return others


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is used of a source, or why nothing is."""

    chosen: Ranked | None = None
    rejected: tuple[Ranked, ...] = ()
    reason: str | None = None


def best(source: str, ranked: Sequence[Ranked], filters: Filters) -> Chosen:
    """The best candidate that is not left out."""
    if not ranked:
        return Chosen(reason=UNSCORED)
    found = next((one for one in ranked if filters.reason(source, one.text) is None), None)
    return Chosen(found) if found else Chosen(reason=LEFT_OUT)


def pairs(
    source: str, ranked: Sequence[Ranked], filters: Filters, strategy: Strategy, margin: Margin, count: int = 1
) -> Chosen:
    """The best one, and up to ``count`` others that it is preferred to."""
    if len(ranked) == 1:
        return Chosen(reason=ONE)
    choice = best(source, ranked, filters)
    if choice.chosen is None:
        return choice
    chosen, least = choice.chosen, margin.of(ranked)
    if strategy.name == "greedy":
        if chosen.origin == "greedy":
            return Chosen(reason=GREEDY_IS_BEST)
        if not any(one.origin == "greedy" for one in ranked):
            return Chosen(reason=NO_GREEDY)
    found = list[Ranked]()
    for one in strategy.order(chosen, ranked):
        gain = chosen.score - one.score
        if gain > 0 and gain >= least and filters.reason(source, one.text) is None:
            found.append(one)
            if len(found) == count:
                break
    return Chosen(chosen, tuple(found)) if found else Chosen(reason=CLOSE)


def everything(source: str, ranked: Sequence[Ranked], filters: Filters, *, at_least: int = 1) -> list[Ranked] | str:
    """All that no filter leaves out, or why there are too few."""
    if not ranked:
        return UNSCORED
    if len(ranked) < at_least:
        return ONE
    found = [one for one in ranked if filters.reason(source, one.text) is None]
    return found if len(found) >= at_least else LEFT_OUT


def deviation(ranked: Sequence[Ranked]) -> float:
    """The standard deviation of the scores, where each sample counts, and an anchor that is none counts once."""
    scores, weights = [one.score for one in ranked], [one.count or 1 for one in ranked]
    total = sum(weights)
    mean = sum(map(mul, scores, weights)) / total
    return math.sqrt(sum(map(mul, [(score - mean) ** 2 for score in scores], weights)) / total)


def positions(ranked: Sequence[Ranked]) -> dict[str, float]:
    """By text, the share of the samples that are below it: half of its own copies among them.

    >>> positions([Ranked(0, "a", 0.9, 2), Ranked(1, "b", 0.5, 1), Ranked(3, "c", 0.1, 1)])
    {'c': 0.125, 'b': 0.375, 'a': 0.75}
    """
    total, below, found = sum([one.count or 1 for one in ranked]), 0.0, {}
    for one in reversed(ranked):
        weight = one.count or 1
        found[one.text] = (below + weight / 2) / total
        below += weight
    return found


def likeness(text: str, others: Sequence[str]) -> list[float]:
    """chrF of each other text with this one, both ways together."""
    from quitmt.metrics.chrf import Chrf  # which compiles

    chrf = Chrf()
    arena = chrf.open(Segment("likeness"))
    chrf.encode([(arena, [text, *others])])
    one_way, other_way = chrf.compare(arena, range(1), range(1, 1 + len(others)))
    return [float(value) for value in ((one_way + other_way) / 2)[0]]
