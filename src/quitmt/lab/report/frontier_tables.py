"""The tables of the frontier: rules beyond the window at equal cost, against QUIT, and the curves they lie on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from quitmt.lab.replay.frontier import REGRET, Versus
from quitmt.lab.report.frontier_rows import CostRow, Frontier, QuitRow
from quitmt.lab.report.tables import NOTHING, Cell, Column, Table

POINTS = 24
"""Of each curve."""
LOSSES_NOTE = (
    "Regret: the whole pool's best score less that of the rule's choice. Δ of a metric: how far the quality of the two "
    "is apart, in units of σ, its standard deviation over segments."
)
INFINITE_NOTE = "∞: in those splits the rule loses something and its rival nothing. Where neither does, the ratio is 1."


def equal_cost(found: Frontier, headings: Mapping[str, str], splits: int) -> Table:
    """A row a rule and cost."""
    columns = [
        Column("reranker", "Reranker"),
        Column("rule", "Rule"),
        Column("cost", "Cost", 0),
        Column("threshold", "Threshold"),
        Column("mean_n", "Mean N", 1),
    ]
    for measure in found.measures:
        heading, decimals = _heading(measure, headings)
        columns += [
            Column(measure, heading, decimals, lower_is_better=True),
            Column(f"{measure}_ratio", f"{heading}, × Fixed N", 2, lower_is_better=True),
            Column(f"{measure}_better", "Better, %", 0),
            Column(f"{measure}_minus_fixed", f"{heading} − Fixed-N*", decimals, lower_is_better=True, signed=True),
        ]
    return Table(
        "beyond_cost",
        "Beyond the window: at equal cost",
        tuple(columns),
        tuple(_cost_cells(row, found.measures) for row in found.costs),
        (
            f"Each of {splits} random halves chooses the threshold whose mean N is nearest the cost; the other half "
            "judges it beside a fixed N of exactly the same mean on the same segments (× Fixed N). In brackets: the "
            "5th and 95th percentile over splits, which share segments. Better: the splits in which less is lost.",
            "− Fixed-N*: on all segments, with the threshold in the table, paired by segment, with its 95% interval. "
            "QUIT is taken as it is, without a choice.",
            LOSSES_NOTE,
            *_infinite(versus for row in found.costs for versus in row.lost.values()),
        ),
    )


def against_quit(found: Frontier, headings: Mapping[str, str], splits: int) -> Table:
    """A row a rule and window."""
    columns = [
        Column("reranker", "Reranker"),
        Column("rule", "Rule"),
        Column("quit", "Against"),
        Column("mean_n_quit", "Its mean N", 1),
        Column("mean_n", "Mean N", 1, lower_is_better=True),
        Column("mean_n_ratio", "Mean N, ×", 2, lower_is_better=True),
    ]
    for measure in found.measures:
        heading, _ = _heading(measure, headings)
        columns.append(Column(f"{measure}_ratio", f"{heading}, ×", 2, lower_is_better=True))
    return Table(
        "beyond_quit",
        "Beyond the window: against QUIT",
        tuple(columns),
        tuple(_quit_cells(row, found.measures) for row in found.quits),
        (
            f"Each of {splits} random halves chooses the cheapest threshold that loses no more than QUIT there, by "
            "every measure; numbers are of the other half, as ratios to QUIT on the same segments. In brackets: the "
            "5th and 95th percentile over splits, which share segments. –: QUIT lost nothing there, to which nothing "
            "can be in proportion; the frontier has what the rule lost.",
            LOSSES_NOTE,
            *_infinite(versus for row in found.quits for versus in row.lost.values()),
        ),
    )


def curves(found: Frontier, headings: Mapping[str, str]) -> Table:
    """Points of every curve, on all segments."""
    columns = [
        Column("reranker", "Reranker"),
        Column("rule", "Rule"),
        Column("threshold", "Threshold"),
        Column("mean_n", "Mean N", 1),
    ]
    columns += [Column(name, *_heading(name, headings), lower_is_better=True) for name in found.measures]
    rows = []
    for reranker, lines in found.lines.items():
        for line in lines:
            for place in line.places(POINTS):
                threshold = Cell(_short(float(line.thresholds[place])))
                lost = [Cell(float(line.lost[name][place])) for name in found.measures]
                rows.append((Cell(reranker), Cell(line.rule), threshold, Cell(float(line.size[place])), *lost))
    return Table("frontier", "What every rule loses, at which cost", tuple(columns), tuple(rows), (LOSSES_NOTE,))


def _cost_cells(row: CostRow, measures: Sequence[str]) -> tuple[Cell, ...]:
    threshold = None if row.threshold is None else _short(row.threshold)
    cells = [Cell(row.reranker), Cell(row.rule), Cell(row.cost), Cell(threshold), Cell(row.size)]
    for measure in measures:
        one, paired = row.lost[measure], row.paired[measure]
        cells += [Cell(one.value), _ratio(one), Cell(100 * one.better)]
        cells.append(Cell(paired.difference, interval=paired.interval))
    return tuple(cells)


def _quit_cells(row: QuitRow, measures: Sequence[str]) -> tuple[Cell, ...]:
    cells = [Cell(row.reranker), Cell(row.rule), Cell(row.quit), Cell(row.size.rival), Cell(row.size.value)]
    return (*cells, _ratio(row.size), *(_ratio(row.lost[measure]) for measure in measures))


def _ratio(one: Versus) -> Cell:
    return Cell(one.ratio, interval=one.span)


def _infinite(found: Iterable[Versus]) -> list[str]:
    """What ∞ means, if it is there."""
    return [INFINITE_NOTE] if any(one.span and math.isinf(one.span[1]) for one in found) else []


def _heading(measure: str, headings: Mapping[str, str]) -> tuple[str, int]:
    return ("Regret", 5) if measure == REGRET else (f"Δ {headings[measure]}, σ", 4)


def _short(threshold: float) -> str:
    return f"{threshold:.3g}" if np.isfinite(threshold) else NOTHING
