"""The findings of a study in sentences.

A sentence says nothing that its numbers do not show. If an interval includes 0, "no difference shows", which is not the
same as "equal"; equivalence is claimed only where a test has shown it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from quitmt.evaluate.equivalence import Comparison
from quitmt.lab.replay.frontier import REGRET, Versus
from quitmt.lab.report.formats import Column
from quitmt.lab.report.frontier import CostRow, Frontier, QuitRow
from quitmt.lab.results import Results
from quitmt.lab.rows import MetricColumn, Prr, RuleRow, direction


def pools(segments: int, budget: int, generator: str) -> str:
    return f"{segments:,} segments, up to {budget:,} candidates each, sampled from {generator}."


def about_rules(
    rows: Sequence[RuleRow], metrics: Sequence[MetricColumn], *, budget: int, rules: Sequence[str]
) -> list[str]:
    """One text per rule: its saving, the quality it keeps, and its comparison at equal cost."""
    return [
        " ".join(filter(None, (saving(row, budget), kept(row, metrics), at_equal_cost(row, metrics))))
        for row in rows
        if row.rule in rules
    ]


def saving(row: RuleRow, budget: int) -> str:
    said = (
        f"{row.reranker}: {row.rule} draws {row.mean_size:.1f} of {budget} candidates per segment on average "
        f"({100 * (1 - row.mean_size / budget):.0f}% fewer); {100 * row.full:.1f}% of the segments use the whole "
        "budget."
    )
    speedups = [(row.live, "measured live"), (row.estimated, "estimated from the replay")]
    known = [f"{speedup:.2f}× {how}" for speedup, how in speedups if speedup is not None]
    return f"{said} Speedup over Unaccelerated: {', '.join(known)}." if known else said


def kept(row: RuleRow, metrics: Sequence[MetricColumn]) -> str:
    """By which metrics the rule's choices are equivalent to the whole pool's."""
    groups: dict[str, list[str]] = {"††": [], "†": [], "": []}
    for metric in metrics:
        score = row.scores.get(metric.name)
        if score is not None and score.base is not None:
            groups[score.mark].append(metric.heading)
    said = [
        f"equivalent to the whole pool's within {margin} by {listed(groups[mark])}"
        for mark, margin in (("††", "0.02σ"), ("†", "0.05σ"))
        if groups[mark]
    ]
    if groups[""]:
        said.append(f"not shown to be equivalent within 0.05σ by {listed(groups[''])}")
    return f"Its choices are {'; '.join(said)}." if said else ""


def at_equal_cost(row: RuleRow, metrics: Sequence[MetricColumn]) -> str:
    """The comparison with the same mean number of candidates for every segment."""
    heads = {1: "it is better by", -1: "it is worse by", 0: "no difference shows by"}
    groups: dict[int, list[str]] = {1: [], -1: [], 0: []}
    for metric in metrics:
        score = row.scores.get(metric.name)
        if score is not None and score.fixed is not None:
            sign = direction(score.fixed, lower_is_better=metric.lower_is_better)
            groups[sign].append(f"{metric.heading} ({difference(score.fixed, metric)})")
    parts = [f"{heads[sign]} {listed(names)}" for sign, names in groups.items() if names]
    return f"Against a fixed number of candidates at equal mean cost, {'; '.join(parts)}." if parts else ""


def risk_ranking(prr: Prr, heading: str) -> str:
    start = f"{prr.reranker}: the range within a window of {prr.w} steps ranks the risk of stopping there ({heading})"
    if prr.value is None:
        return f"{start} with an undefined PRR: no window has any risk."
    shown = f"{prr.value:.3f}".replace("-", "−")
    return f"{start} with a PRR of {shown} (1: like an oracle; 0: like chance)."


def about_frontier(found: Frontier, headings: Mapping[str, str], splits: int) -> Iterator[str]:
    """Two sentences per rule with a threshold: at all costs together, and against the first of QUIT's windows."""
    by_rule: dict[tuple[str, str], list[CostRow]] = {}
    for row in found.costs:
        if row.cost is not None:
            by_rule.setdefault((row.reranker, row.rule), []).append(row)
    for (reranker, rule), rows in by_rule.items():
        yield from _at_costs(rows, headings, splits)
        beside = [row for row in found.quits if (row.reranker, row.rule) == (reranker, rule)]
        yield from _against_quit(beside[0], headings) if beside else ()


def _at_costs(rows: Sequence[CostRow], headings: Mapping[str, str], splits: int) -> Iterator[str]:
    """The losses of a rule beside those of a fixed size, over all costs."""
    first, said = rows[0], []
    for measure in first.lost:
        ratios = [ratio for row in rows if (ratio := row.lost[measure].ratio) is not None]
        if ratios:
            better = [100 * row.lost[measure].better for row in rows]
            said.append(
                f"{_between(ratios)} times a fixed N's {_name(measure, headings)} "
                f"(less in {_between(better, 0)}% of the splits)"
            )
    if said:
        sizes = _between([row.size for row in rows], 0)
        yield (
            f"{first.reranker}: with a threshold chosen on one half of the segments, {first.rule} has on the other "
            f"half {listed(said)}, at the same mean cost of {sizes} candidates, over {splits} splits."
        )


def _against_quit(row: QuitRow, headings: Mapping[str, str]) -> Iterator[str]:
    """The candidates that a rule needs beside QUIT's."""
    if row.size.ratio is None:
        return
    losses = [
        f"{one.ratio:.2f} times its {_name(measure, headings)}"
        for measure, one in row.lost.items()
        if one.ratio is not None
    ]
    beside = f", with {listed(losses)}" if losses else ""
    yield (
        f"{row.reranker}: {row.rule}, with a threshold that loses no more than {row.quit} on one half of the segments, "
        f"takes on the other half {row.size.ratio:.2f} times its candidates ({row.size.value:.0f} for "
        f"{row.size.rival:.0f}{_span(row.size)}){beside}."
    )


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether the live runs of a reranker did the same as replays of the same pools, segment by segment."""

    reranker: str
    runs: int
    segments: int
    differing: int

    def sentence(self) -> str:
        said = f"{self.reranker}: {self.runs} rules were run live on {self.segments} segments"
        if not self.differing:
            return f"{said} and used the same candidates and chose the same translations as in the replay."
        return (
            f"{said}; in {self.differing} of {self.runs * self.segments} cases the number of candidates or the choice "
            f"differed from the replay: sampling or scoring is not reproducible here."
        )


def agreements(results: Results) -> list[Agreement]:
    found = []
    for spec, runs in results.live.items():
        own = results.replays[spec]
        replayed = {one.name: one for one in (own.unaccelerated, *own.windows, *own.beyond)}
        differing = 0
        for live in runs:
            rule, count = replayed[live.rule], len(live.sizes)
            same = (rule.size[:count] == live.sizes) & (rule.index[:count] == live.indices)
            differing += int((~same).sum())
        found.append(Agreement(spec, len(runs), len(runs[0].sizes), differing))
    return found


def listed(names: Sequence[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def number(value: float, metric: MetricColumn, *, signed: bool = False) -> str:
    """A metric's value as tables show it."""
    return Column("", "", metric.decimals, signed=signed).text(value)


def difference(compared: Comparison, metric: MetricColumn) -> str:
    """A difference with its interval."""
    low, high = (number(end, metric, signed=True) for end in compared.interval)
    return f"{number(compared.difference, metric, signed=True)}, 95% interval {low} to {high}"


def _name(measure: str, headings: Mapping[str, str]) -> str:
    return "regret" if measure == REGRET else f"change by {headings[measure]}"


def _between(values: Sequence[float], decimals: int = 2) -> str:
    low, high = (f"{value:.{decimals}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _span(one: Versus) -> str:
    return f"; {one.span[0]:.2f} to {one.span[1]:.2f} in nine of ten splits" if one.span else ""
