"""The findings of a study in sentences.

A sentence says nothing that its numbers do not show. If an interval includes 0, "no difference shows", which is not the
same as "equal"; equivalence is claimed only where a test has shown it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quitmt.evaluate.equivalence import Comparison
from quitmt.lab.report.formats import Column
from quitmt.lab.results import Results
from quitmt.lab.rows import MetricColumn, RuleRow, direction


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


def agreements(results: Results) -> Iterator[str]:
    """Whether the live runs of a reranker did the same as replays of the same pools, segment by segment."""
    for spec, runs in results.live.items():
        own = results.replays[spec]
        replayed = {one.name: one for one in (own.unaccelerated, *own.windows, *own.beyond)}
        differing, count = 0, len(runs[0].sizes)
        for live in runs:
            rule = replayed[live.rule]
            same = (rule.size[:count] == live.sizes) & (rule.index[:count] == live.indices)
            differing += int((~same).sum())
        said = f"{spec}: {len(runs)} rules were run live on {count} segments"
        if differing:
            yield (
                f"{said}; in {differing} of {len(runs) * count} cases the number of candidates or the choice differed "
                "from the replay: sampling or scoring is not reproducible here."
            )
        else:
            yield f"{said} and used the same candidates and chose the same translations as in the replay."


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
