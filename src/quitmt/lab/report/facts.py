"""The summary in words: facts about a study, each able to say itself in a sentence.

A fact holds numbers and says nothing that they do not show: an interval that holds 0 is "no difference shows", which is
not the same as "equal"; equivalence is claimed only where a test did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quitmt.evaluate.equivalence import Comparison
from quitmt.lab.report.tables import Column
from quitmt.lab.rows import UNACCELERATED, MetricColumn, Prr, RuleRow

MINUS = "−"


class Fact(Protocol):
    def sentence(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Pools:
    """What was sampled."""

    segments: int
    budget: int
    generator: str

    def sentence(self) -> str:
        return f"{self.segments:,} segments, up to {self.budget:,} candidates each, sampled from {self.generator}."


@dataclass(frozen=True, slots=True)
class Saving:
    """What a rule saves."""

    row: RuleRow
    budget: int

    def sentence(self) -> str:
        row = self.row
        said = (
            f"{row.reranker}: {row.rule} draws {row.mean_size:.1f} of {self.budget} candidates a segment on average "
            f"({100 * (1 - row.mean_size / self.budget):.0f}% fewer); {100 * row.full:.1f}% of the segments use the "
            f"whole budget."
        )
        speedups = [(row.live, "measured live"), (row.estimated, "estimated from the replay")]
        known = [f"{speedup:.2f}× {how}" for speedup, how in speedups if speedup is not None]
        return f"{said} Speedup over Unaccelerated: {', '.join(known)}." if known else said


@dataclass(frozen=True, slots=True)
class Kept:
    """What of the whole pool's quality a rule keeps."""

    row: RuleRow
    metrics: Sequence[MetricColumn]

    def sentence(self) -> str:
        groups: dict[str, list[str]] = {"††": [], "†": [], "": []}
        for metric in self.metrics:
            score = self.row.scores.get(metric.name)
            if score is not None and score.base is not None:
                groups[score.mark].append(metric.heading)
        said = []
        for mark, margin in (("††", "0.02σ"), ("†", "0.05σ")):
            if groups[mark]:
                said.append(f"equivalent to the whole pool's within {margin} by {listed(groups[mark])}")
        if groups[""]:
            said.append(f"not shown to be equivalent within 0.05σ by {listed(groups[''])}")
        return f"Its choices are {'; '.join(said)}." if said else ""


@dataclass(frozen=True, slots=True)
class EqualCost:
    """How a rule does against the same mean number of candidates for every segment."""

    row: RuleRow
    metrics: Sequence[MetricColumn]

    def sentence(self) -> str:
        better, worse, neither = [], [], []
        for metric in self.metrics:
            score = self.row.scores.get(metric.name)
            if score is None or score.fixed is None:
                continue
            low, high = score.fixed.interval
            said = f"{metric.heading} ({_difference(score.fixed, metric)})"
            if low <= 0 <= high:
                neither.append(said)
            elif (low > 0) != metric.lower_is_better:
                better.append(said)
            else:
                worse.append(said)
        parts = [f"it is better by {listed(better)}"] if better else []
        parts += [f"it is worse by {listed(worse)}"] if worse else []
        parts += [f"no difference shows by {listed(neither)}"] if neither else []
        if not parts:
            return ""
        return f"Against a fixed number of candidates at equal mean cost, {'; '.join(parts)}."


@dataclass(frozen=True, slots=True)
class Together:
    """Facts about one thing; the first says what it is, the others speak of "it"."""

    parts: Sequence[Fact]

    def sentence(self) -> str:
        return " ".join(said for part in self.parts if (said := part.sentence()))


@dataclass(frozen=True, slots=True)
class RiskRanking:
    """How well the window range ranks the risk of stopping."""

    prr: Prr
    heading: str

    def sentence(self) -> str:
        start = f"{self.prr.reranker}: the range within a window of {self.prr.w} steps ranks the risk of stopping there"
        if self.prr.value is None:
            return f"{start} ({self.heading}) with an undefined PRR: no window has any risk."
        shown = f"{self.prr.value:.3f}".replace("-", MINUS)
        return f"{start} ({self.heading}) with a PRR of {shown} (1: as an oracle would; 0: at random)."


def facts(
    rows: Sequence[RuleRow], metrics: Sequence[MetricColumn], *, budget: int, rules: Sequence[str] | None = None
) -> list[Fact]:
    """What there is to say about each QUIT row, or about the rules named."""
    found: list[Fact] = []
    for row in rows:
        if row.rule == UNACCELERATED or not (row.rule in rules if rules is not None else row.rule.startswith("QUIT")):
            continue
        found.append(Together([Saving(row, budget), Kept(row, metrics), EqualCost(row, metrics)]))
    return found


def sentences(found: Sequence[Fact]) -> tuple[str, ...]:
    """In the order of the facts; those with nothing to say are left out."""
    return tuple(said for fact in found if (said := fact.sentence()))


def listed(names: Sequence[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _difference(comparison: Comparison, metric: MetricColumn) -> str:
    column = Column("", "", metric.decimals, signed=True)
    low, high = comparison.interval
    return f"{column.text(comparison.difference)}, 95% interval {column.text(low)} to {column.text(high)}"
