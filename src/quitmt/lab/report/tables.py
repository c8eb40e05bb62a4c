"""The tables of the paper and of the frontier (docs/lab.md says what they report).

Each function makes one table from rows. To add a table, write its function here and add an entry to
``publish.TABLES``.

Invariants:
- Estimated and live speedups and seconds have separate columns.
- Marks are against Unaccelerated. Differences with their 95% interval are against Fixed-N*, the fixed size of equal
  mean cost, paired by segment.
- The paper's value is shown beside ours wherever a row has one for the column's key.
- Columns without any value are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from quitmt.lab.replay.frontier import REGRET, Versus
from quitmt.lab.report.formats import NOTHING, Cell, Column, Table, columns_in_use
from quitmt.lab.report.frontier import CostRow, Frontier, QuitRow
from quitmt.lab.rows import UNACCELERATED, MeanSize, MetricColumn, Prr, RuleRow, RuntimeRow

MARKS_NOTE = (
    "† equivalent to Unaccelerated within 0.05σ, †† within 0.02σ (paired bootstrap TOST, σ: the baseline's standard "
    "deviation over segments)."
)
FIXED_NOTE = (
    "− Fixed-N*: the difference to a fixed number of candidates at equal mean cost, paired by segment, with its 95% "
    "interval."
)
GREEDY_NOTE = "− greedy: the difference to greedy decoding, paired by segment, with its 95% interval (bootstrap)."
ESTIMATED_NOTE = "Estimated: from a replay of recorded pools. Live: measured in a run of the rule."
LOSSES_NOTE = (
    "Regret: the whole pool's best score minus that of the rule's choice. Δ of a metric: the mean absolute difference "
    "in quality between the two choices, in units of σ, the standard deviation over segments."
)
INFINITE_NOTE = (
    "∞: in those splits the rule loses something and its rival loses nothing. Where neither loses anything, the ratio "
    "is 1."
)
POINTS = 24
"""Points shown per curve."""

Lead = tuple[Column, Callable[[RuleRow], Cell]]


def main_results(
    rows: Sequence[RuleRow],
    metrics: Sequence[MetricColumn],
    *,
    name: str = "results",
    title: str = "Main results: cost and quality of every rule",
) -> Table:
    """Rows in the order of the argument: Unaccelerated first, each Fixed-N* after its QUIT rule."""
    return _rule_table(name, title, [_setting("acceleration", "Acceleration", lambda row: row.rule)], rows, metrics)


def chrf_utility(
    baselines: Sequence[RuleRow], rows: Sequence[RuleRow], metrics: Sequence[MetricColumn]
) -> Table | None:
    """The main results with chrF as MBR's utility."""
    own = [row for row in rows if row.reranker == "mbr:chrf"]
    if not own:
        return None
    return main_results([*baselines, *own], metrics, name="chrf_utility", title="MBR with chrF as its utility")


def window_sweep(rows: Sequence[RuleRow], metrics: Sequence[MetricColumn]) -> Table:
    """One row per reranker and window."""
    lead = [_setting("w", "w", lambda row: int(row.settings["w"]))]
    return _rule_table("window_sweep", "QUIT at every window", lead, rows, metrics)


def alpha_ablation(rows: Sequence[RuleRow], metrics: Sequence[MetricColumn]) -> Table:
    """One row per reranker, window and threshold."""
    lead = [
        _setting("w", "w", lambda row: int(row.settings["w"])),
        (Column("alpha", "α", scientific=True), lambda row: Cell(row.settings["alpha"])),
    ]
    notes = ("n↓, n↑: comparisons significantly worse and better than with α = 1e-3.",)
    return _rule_table("alpha", "The threshold α", lead, rows, metrics, notes)


def step_by_window(sizes: Sequence[MeanSize]) -> Table:
    """Mean N: one row per reranker and step k, one column per window w."""
    windows = sorted({size.w for size in sizes})
    found = {(size.reranker, size.k, size.w): size for size in sizes}
    columns = [Column("reranker", "Reranker"), Column("k", "k", 0)]
    columns += [Column(f"mean_n_w{w}", f"Mean N, w={w}", 1) for w in windows]
    rows = []
    for reranker, k in sorted({(size.reranker, size.k) for size in sizes}):
        here = [found.get((reranker, k, w)) for w in windows]
        cells = [Cell(each.value, paper=each.paper) if each else Cell(None) for each in here]
        rows.append((Cell(reranker), Cell(k), *cells))
    return Table("mean_n_by_k", "Mean number of candidates by step k and window w", tuple(columns), tuple(rows))


def prr(found: Sequence[Prr], headings: Mapping[str, str]) -> Table:
    """One row per reranker and window, one column per risk; ``headings`` are the risks' names for readers."""
    risks = list(dict.fromkeys(each.risk for each in found))
    by_key = {(each.reranker, each.w, each.risk): each for each in found}
    columns = [Column("reranker", "Reranker"), Column("w", "w", 0)]
    columns += [Column(f"prr_{risk}", f"PRR, {headings.get(risk, risk)}", 3) for risk in risks]
    rows = []
    for reranker, w in sorted({(each.reranker, each.w) for each in found}):
        here = [by_key.get((reranker, w, risk)) for risk in risks]
        cells = [Cell("undefined" if each.value is None else each.value, paper=each.paper) if each else Cell(None)
                 for each in here]  # fmt: skip
        rows.append((Cell(reranker), Cell(w), *cells))
    title = "Does the range within a window rank the risk of stopping there?"
    note = "PRR: 1 for the oracle's order, 0 for a random one; undefined where no window has any risk."
    return Table("prr", title, tuple(columns), tuple(rows), (note,))


def runtime(rows: Sequence[RuntimeRow]) -> Table:
    """Seconds by component, and the speedup over Unaccelerated with the same reranker on the same basis."""
    parts = {"generation_seconds": "Generation, s", "reranking_seconds": "Reranking, s", "total_seconds": "Total, s"}
    columns = [Column("reranker", "Reranker"), Column("method", "Method")]
    for basis in ("estimated", "live"):
        columns += [Column(f"{key}_{basis}", heading, 1, basis=basis) for key, heading in parts.items()]
        columns.append(Column(f"speedup_{basis}", "Speedup, ×", 2, basis=basis))
    base = {row.reranker: row for row in rows if row.rule == UNACCELERATED}
    table = []
    for row in rows:
        values: list[float | None] = []
        for basis in ("estimated", "live"):
            seconds = row.seconds(basis)
            whole = base[row.reranker].seconds(basis) if row.reranker in base else None
            ratio = whole.total / seconds.total if whole and seconds and seconds.total else None
            values += [seconds.generate, seconds.rerank, seconds.total, ratio] if seconds else [None] * 4
        numbers = zip(values, columns[2:], strict=True)
        cells = [Cell(value, paper=row.paper.get(column.key)) for value, column in numbers]
        table.append((Cell(row.reranker or None), Cell(row.rule), *cells))
    used, shown = columns_in_use(columns, table)
    return Table("runtime", "Where the time goes", tuple(used), tuple(shown), (ESTIMATED_NOTE,))


def _rule_table(
    name: str,
    title: str,
    lead: Sequence[Lead],
    rows: Sequence[RuleRow],
    metrics: Sequence[MetricColumn],
    notes: tuple[str, ...] = (),
) -> Table:
    first = [
        _setting("dataset", "Test set", lambda row: row.dataset or None),
        _setting("reranker", "Reranker", lambda row: row.reranker),
        *lead,
    ]
    columns = [column for column, _ in first]
    columns += [
        Column("mean_n", "Mean N", 1, lower_is_better=True),
        Column("full_percent", "Full, %", 1),
        Column("speedup_estimated", "Speedup, ×", 2, basis="estimated"),
        Column("speedup_live", "Speedup, ×", 2, basis="live"),
    ]
    for metric in metrics:
        name_, decimals, lower = metric.name, metric.decimals, metric.lower_is_better
        columns += [
            Column(name_, metric.heading, decimals, lower),
            Column(f"{name_}_minus_greedy", "− greedy", decimals, lower, signed=True),
            Column(f"{name_}_minus_fixed", f"{metric.heading} − Fixed-N*", decimals, lower, signed=True),
        ]
    columns += [Column("worse", "n↓", 0), Column("better", "n↑", 0)]
    table = [_rule_cells(row, [cell(row) for _, cell in first], metrics) for row in rows]
    used, shown = columns_in_use(columns, table)
    keys = {column.key for column in used}
    if any(cell.mark for row in shown for cell in row):
        notes += (MARKS_NOTE,)
    if any(key.endswith("_minus_fixed") for key in keys):
        notes += (FIXED_NOTE,)
    if any(key.endswith("_minus_greedy") for key in keys):
        notes += (GREEDY_NOTE,)
    if any(column.basis for column in used):
        notes += (ESTIMATED_NOTE,)
    return Table(name, title, tuple(used), tuple(shown), notes)


def _rule_cells(row: RuleRow, lead: Sequence[Cell], metrics: Sequence[MetricColumn]) -> tuple[Cell, ...]:
    def beside(key: str, value: float | None, mark: str = "") -> Cell:
        printed = row.paper.get(key)
        return Cell(value, mark, paper=printed.value, paper_mark=printed.mark) if printed else Cell(value, mark)

    cells = [*lead, beside("mean_n", row.mean_size), beside("full_percent", 100 * row.full)]
    cells += [beside("speedup_estimated", row.estimated), beside("speedup_live", row.live)]
    for metric in metrics:
        score = row.scores.get(metric.name)
        cells.append(beside(metric.name, score.value, score.mark) if score else Cell(None))
        for compared in (score.greedy, score.fixed) if score else (None, None):
            cells.append(Cell(compared.difference, interval=compared.interval) if compared else Cell(None))
    worse, better = row.worse_better or (None, None)
    return (*cells, beside("worse", worse), beside("better", better))


def _setting(key: str, heading: str, value: Callable[[RuleRow], str | int | None]) -> Lead:
    return Column(key, heading, 0), lambda row: Cell(value(row))


def equal_cost(found: Frontier, headings: Mapping[str, str], splits: int) -> Table | None:
    """One row per rule and cost."""
    if not found.costs:
        return None
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
    notes = (
        f"Each of {splits} random halves chooses the threshold whose mean N is nearest the cost. The other half judges "
        "it beside a fixed N of exactly the same mean on the same segments (× Fixed N). In brackets: the 5th and 95th "
        "percentile over splits, which share segments. Better: the share of splits in which less is lost.",
        "− Fixed-N*: on all segments, with the threshold in the table, paired by segment, with its 95% interval. "
        "QUIT's windows are taken as they are, without a choice.",
        LOSSES_NOTE,
        *_infinite(versus for row in found.costs for versus in row.lost.values()),
    )
    rows = tuple(_cost_cells(row, found.measures) for row in found.costs)
    return Table("beyond_cost", "Beyond the window: at equal cost", tuple(columns), rows, notes)


def against_quit(found: Frontier, headings: Mapping[str, str], splits: int) -> Table | None:
    """One row per rule and window."""
    if not found.quits:
        return None
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
    notes = (
        f"Each of {splits} random halves chooses the cheapest threshold that loses no more than QUIT there, by every "
        "measure. The numbers are from the other half, as ratios to QUIT on the same segments. In brackets: the 5th "
        "and 95th percentile over splits, which share segments. –: QUIT lost nothing there, so there is no ratio; the "
        "table of the frontier shows what the rule lost.",
        LOSSES_NOTE,
        *_infinite(versus for row in found.quits for versus in row.lost.values()),
    )
    rows = tuple(_quit_cells(row, found.measures) for row in found.quits)
    return Table("beyond_quit", "Beyond the window: against QUIT", tuple(columns), rows, notes)


def curves(found: Frontier, headings: Mapping[str, str]) -> Table:
    """Points of every curve, on all segments."""
    columns = [Column("reranker", "Reranker"), Column("rule", "Rule"), Column("threshold", "Threshold")]
    columns.append(Column("mean_n", "Mean N", 1))
    columns += [Column(name, *_heading(name, headings), lower_is_better=True) for name in found.measures]
    rows = []
    for reranker, lines in found.lines.items():
        for line in lines:
            for place in line.places(POINTS):
                threshold = Cell(_short(float(line.thresholds[place])))
                lost = [Cell(float(line.lost[name][place])) for name in found.measures]
                rows.append((Cell(reranker), Cell(line.rule), threshold, Cell(float(line.size[place])), *lost))
    return Table("frontier", "How much every rule loses, at which cost", tuple(columns), tuple(rows), (LOSSES_NOTE,))


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
    """The note about ∞, if the table has one."""
    return [INFINITE_NOTE] if any(one.span and math.isinf(one.span[1]) for one in found) else []


def _heading(measure: str, headings: Mapping[str, str]) -> tuple[str, int]:
    return ("Regret", 5) if measure == REGRET else (f"Δ {headings[measure]}, σ", 4)


def _short(threshold: float) -> str:
    return f"{threshold:.3g}" if math.isfinite(threshold) else NOTHING
