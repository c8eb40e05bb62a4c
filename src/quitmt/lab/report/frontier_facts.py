"""What the frontier shows, in sentences: rules beyond the window at equal cost, and against QUIT at equal quality.

All numbers are of segments that the thresholds were not chosen on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quitmt.lab.replay.frontier import REGRET, Versus
from quitmt.lab.report.facts import Fact, listed
from quitmt.lab.report.frontier_rows import CostRow, Frontier, QuitRow


@dataclass(frozen=True, slots=True)
class EqualCosts:
    """What a rule loses beside a fixed size, over all costs."""

    rows: Sequence[CostRow]
    headings: Mapping[str, str]
    splits: int

    def sentence(self) -> str:
        first = self.rows[0]
        sizes = [row.size for row in self.rows]
        said = []
        for measure in first.lost:
            ratios = [ratio for row in self.rows if (ratio := row.lost[measure].ratio) is not None]
            if ratios:
                better = [100 * row.lost[measure].better for row in self.rows]
                said.append(
                    f"{_between(ratios)} times a fixed N's {_name(measure, self.headings)} "
                    f"(less in {_between(better, 0)}% of the splits)"
                )
        if not said:
            return ""
        return (
            f"{first.reranker}: with a threshold chosen on one half of the segments, {first.rule} has on the other "
            f"half {listed(said)}, at the same mean cost of {_between(sizes, 0)} candidates, over {self.splits} splits."
        )


@dataclass(frozen=True, slots=True)
class EqualQuality:
    """How many candidates a rule needs beside QUIT's."""

    row: QuitRow
    headings: Mapping[str, str]

    def sentence(self) -> str:
        row = self.row
        if row.size.ratio is None:
            return ""
        losses = [
            f"{one.ratio:.2f} times its {_name(measure, self.headings)}"
            for measure, one in row.lost.items()
            if one.ratio is not None
        ]
        beside = f", with {listed(losses)}" if losses else ""
        return (
            f"{row.reranker}: {row.rule}, told to lose no more than {row.quit} on one half of the segments, takes on "
            f"the other half {row.size.ratio:.2f} times its candidates ({row.size.value:.0f} for "
            f"{row.size.rival:.0f}{_span(row.size)}){beside}."
        )


def facts(found: Frontier, headings: Mapping[str, str], splits: int) -> list[Fact]:
    """About each rule with a threshold: at all costs together, then beside the first of QUIT's windows."""
    by_rule: dict[tuple[str, str], list[CostRow]] = {}
    for row in found.costs:
        if row.cost is not None:
            by_rule.setdefault((row.reranker, row.rule), []).append(row)
    said: list[Fact] = []
    for (reranker, rule), rows in by_rule.items():
        said.append(EqualCosts(rows, headings, splits))
        beside = [row for row in found.quits if (row.reranker, row.rule) == (reranker, rule)]
        said += [EqualQuality(row, headings) for row in beside[:1]]
    return said


def _name(measure: str, headings: Mapping[str, str]) -> str:
    return "regret" if measure == REGRET else f"change by {headings[measure]}"


def _between(values: Sequence[float], decimals: int = 2) -> str:
    low, high = (f"{value:.{decimals}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _span(one: Versus) -> str:
    return f"; {one.span[0]:.2f} to {one.span[1]:.2f} in nine of ten splits" if one.span else ""
