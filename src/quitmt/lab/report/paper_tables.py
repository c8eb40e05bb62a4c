"""The paper's tables from what the lab computed (docs/lab.md says what they report).

The numbers come in as plain values; the paper's own value goes beside ours wherever the caller has one for the same
cell, under the name of the column.

Invariants:
- Speedups and seconds estimated from a replay and those measured live have columns of their own.
- Marks are against Unaccelerated; differences with their 95% interval are against Fixed-N*, the fixed size of equal
  mean cost, paired by segment.
- Columns that no row has anything for are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from quitmt.lab.report.tables import Cell, Column, Table, columns_in_use
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


Lead = tuple[Column, Callable[[RuleRow], Cell]]


def main_results(
    rows: Sequence[RuleRow],
    metrics: Sequence[MetricColumn],
    *,
    name: str = "results",
    title: str = "Main results: cost and quality of every rule",
) -> Table:
    """Rows in the order given: Unaccelerated first, each Fixed-N* after its QUIT."""
    return _rule_table(name, title, [_setting("acceleration", "Acceleration", lambda row: row.rule)], rows, metrics)


def chrf_utility(rows: Sequence[RuleRow], metrics: Sequence[MetricColumn]) -> Table:
    """The main results again, with chrF as MBR's utility."""
    return main_results(rows, metrics, name="chrf_utility", title="MBR with chrF as its utility")


def window_sweep(rows: Sequence[RuleRow], metrics: Sequence[MetricColumn]) -> Table:
    """One row a reranker and window."""
    lead = [_setting("w", "w", lambda row: _whole(row, "w"))]
    return _rule_table("window_sweep", "QUIT at every window", lead, rows, metrics)


def alpha_ablation(rows: Sequence[RuleRow], metrics: Sequence[MetricColumn]) -> Table:
    """One row a reranker, window and threshold."""
    lead = [
        _setting("w", "w", lambda row: _whole(row, "w")),
        (Column("alpha", "α", scientific=True), lambda row: Cell(row.settings["alpha"])),
    ]
    notes = ("n↓, n↑: comparisons significantly worse and better than with α = 1e-3.",)
    return _rule_table("alpha", "The threshold α", lead, rows, metrics, notes)


def step_by_window(sizes: Sequence[MeanSize]) -> Table:
    """Mean N for each step k and window w: a row a reranker and k, a column a w."""
    windows = sorted({size.w for size in sizes})
    found = {(size.reranker, size.k, size.w): size for size in sizes}
    keys = sorted({(size.reranker, size.k) for size in sizes})
    columns = [Column("reranker", "Reranker"), Column("k", "k", 0)]
    columns += [Column(f"mean_n_w{w}", f"Mean N, w={w}", 1) for w in windows]
    rows = []
    for reranker, k in keys:
        here = [found.get((reranker, k, w)) for w in windows]
        cells = [Cell(each.value, paper=each.paper) if each else Cell(None) for each in here]
        rows.append((Cell(reranker), Cell(k), *cells))
    return Table("mean_n_by_k", "Mean number of candidates by step k and window w", tuple(columns), tuple(rows))


def prr(found: Sequence[Prr], headings: Mapping[str, str] | None = None) -> Table:
    """A row a reranker and window, a column a risk; ``headings`` names the risks for people."""
    risks = list(dict.fromkeys(each.risk for each in found))
    cells = {(each.reranker, each.w, each.risk): each for each in found}
    keys = sorted({(each.reranker, each.w) for each in found})
    columns = [Column("reranker", "Reranker"), Column("w", "w", 0)]
    columns += [Column(f"prr_{risk}", f"PRR, {(headings or {}).get(risk, risk)}", 3) for risk in risks]
    rows = [
        (Cell(reranker), Cell(w), *(_prr_cell(cells.get((reranker, w, risk))) for risk in risks))
        for reranker, w in keys
    ]
    return Table(
        "prr",
        "Does the range within a window rank the risk of stopping there?",
        tuple(columns),
        tuple(rows),
        ("PRR: 1 for the oracle's order, 0 for a random one; undefined where no window has any risk.",),
    )


def runtime(rows: Sequence[RuntimeRow]) -> Table:
    """Seconds by component, and the speedup over Unaccelerated of the same reranker on the same basis."""
    columns = [Column("reranker", "Reranker"), Column("method", "Method")]
    for basis in ("estimated", "live"):
        columns += [
            Column(f"generation_seconds_{basis}", "Generation, s", 1, basis=basis),
            Column(f"reranking_seconds_{basis}", "Reranking, s", 1, basis=basis),
            Column(f"total_seconds_{basis}", "Total, s", 1, basis=basis),
            Column(f"speedup_{basis}", "Speedup, ×", 2, basis=basis),
        ]
    base = {row.reranker: row for row in rows if row.rule == UNACCELERATED}
    table = []
    for row in rows:
        cells = [Cell(row.reranker or None), Cell(row.rule)]
        for basis in ("estimated", "live"):
            seconds = row.seconds(basis)
            whole = base[row.reranker].seconds(basis) if row.reranker in base else None
            ratio = whole.total / seconds.total if whole and seconds and seconds.total else None
            parts = [seconds.generate, seconds.rerank, seconds.total, ratio] if seconds else [None] * 4
            keys = [column.key for column in columns[len(cells) : len(cells) + 4]]
            cells += [Cell(part, paper=row.paper.get(key)) for part, key in zip(parts, keys, strict=True)]
        table.append(tuple(cells))
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
        columns.append(Column(metric.name, metric.heading, metric.decimals, metric.lower_is_better))
        columns.append(
            Column(f"{metric.name}_minus_greedy", "− greedy", metric.decimals, metric.lower_is_better, signed=True)
        )
        heading = f"{metric.heading} − Fixed-N*"
        columns.append(
            Column(f"{metric.name}_minus_fixed", heading, metric.decimals, metric.lower_is_better, signed=True)
        )
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
        greedy = score.greedy if score else None
        cells.append(Cell(greedy.difference, interval=greedy.interval) if greedy else Cell(None))
        fixed = score.fixed if score else None
        cells.append(Cell(fixed.difference, interval=fixed.interval) if fixed else Cell(None))
    worse, better = row.worse_better or (None, None)
    return (*cells, beside("worse", worse), beside("better", better))


def _setting(key: str, heading: str, value: Callable[[RuleRow], str | int | None]) -> Lead:
    return Column(key, heading, 0), lambda row: Cell(value(row))


def _whole(row: RuleRow, setting: str) -> int:
    return int(row.settings[setting])


def _prr_cell(found: Prr | None) -> Cell:
    if found is None:
        return Cell(None)
    return Cell("undefined" if found.value is None else found.value, paper=found.paper)
