"""Tables: the same cells as Markdown, LaTeX and CSV, and what the paper's tables hold."""

from __future__ import annotations

import csv as comma
import math
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from quitmt.evaluate.equivalence import Comparison
from quitmt.lab.frames import RuleSeconds
from quitmt.lab.report import tables
from quitmt.lab.report.formats import Cell, Column, Table, csv, latex, latex_text, markdown, markdown_text, write
from quitmt.lab.rows import MeanSize, MetricColumn, Printed, Prr, RuleRow, RuntimeRow, Score

TABLE = Table(
    "small",
    "A & B",
    (
        Column("rule", "Rule"),
        Column("metricx", "MetricX", 2, lower_is_better=True),
        Column("speedup", "Speedup", 1, basis="live"),
        Column("gain", "Gain", 3, signed=True),
        Column("alpha", "α", scientific=True),
    ),
    (
        (
            Cell("a_b|c"),
            Cell(5.125, "††", paper=5.2, paper_mark="†"),
            Cell(None),
            Cell(-0.0004, interval=(-0.002, 0.001)),
            Cell(1e-3),
        ),
        (Cell("50% $x"), Cell(math.nan), Cell(3), Cell(0.25), Cell(1e-6)),
    ),
    ("Note*",),
)

MARKDOWN = """**A & B**

| Rule    |      MetricX ↓ | Speedup (live) |                   Gain |    α |
| ------- | -------------: | -------------: | ---------------------: | ---: |
| a\\_b\\|c | 5.12†† (5.20†) |              – | 0.000 [−0.002, +0.001] | 1e−3 |
| 50% $x  |              – |            3.0 |                 +0.250 | 1e−6 |

Note\\*

In parentheses: the paper's value for the same cell.
"""

LATEX = r"""\begin{table}
\centering
\caption{A \& B}
\label{tab:small}
\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%
\begin{tabular}{lrrrr}
\toprule
Rule & MetricX $\downarrow$ & \shortstack[r]{Speedup \\ (live)} & Gain & $\alpha$ \\
\midrule
a\_b|c & 5.12$^{\dagger\dagger}$ (5.20$^{\dagger}$) & -- & 0.000 [$-$0.002, +0.001] & 1e$-$3 \\
50\% \$x & -- & 3.0 & +0.250 & 1e$-$6 \\
\bottomrule
\end{tabular}}
\par\smallskip\footnotesize Note*
\par\smallskip\footnotesize In parentheses: the paper's value for the same cell.
\end{table}
"""

CSV = """rule,metricx,metricx_mark,metricx_paper,metricx_paper_mark,speedup,gain,gain_low,gain_high,alpha
a_b|c,5.125,††,5.2,†,,-0.0004,-0.002,0.001,0.001
50% $x,,,,,3,0.25,,,1e-06
"""


def test_the_same_cells_in_three_formats() -> None:
    assert markdown(TABLE) == MARKDOWN
    assert latex(TABLE) == LATEX
    assert csv(TABLE) == CSV


def test_markdown_columns_line_up() -> None:
    lines = [line for line in markdown(TABLE).splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1
    assert lines[1].count("-:") == 4


def test_texts_are_escaped() -> None:
    assert latex_text(r"\{a}~^#<") == r"\textbackslash{}\{a\}\textasciitilde{}\textasciicircum{}\#$<$"
    assert latex_text("†† and †") == r"$^{\dagger\dagger}$ and $^{\dagger}$"
    assert markdown_text("a|b\nc*_`<\\") == "a\\|b c\\*\\_\\`\\<\\\\"
    odd = Table("odd", "", (Column("a", "A"),), ((Cell("[1] x"),), (Cell("y"),)))
    assert "\n{[}1] x \\\\" in latex(odd)


def test_numbers_survive_csv_exactly_whatever_is_shown() -> None:
    value = np.float64(1) / 3
    table = Table("t", "", (Column("x", "X", 1),), ((Cell(value),),))
    (row,) = comma.DictReader(StringIO(csv(table)))
    assert float(row["x"]) == value
    assert "| 0.3 |" in markdown(table)


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of t has 2 cells, not 1"):
        Table("t", "", (Column("x", "X"),), ((Cell(1), Cell(2)),))


def test_all_formats_are_written(tmp_path: Path) -> None:
    paths = write(TABLE, tmp_path / "tables")
    assert [path.name for path in paths] == ["small.md", "small.tex", "small.csv"]
    assert paths[1].read_text("utf-8") == LATEX


METRICS = [MetricColumn("rerank", "Rerank score", 4), MetricColumn("metricx", "MetricX", 2, lower_is_better=True)]


def comparison(difference: float, spread: float = 0.01, sigma: float = 1.0) -> Comparison:
    ends = difference - spread, difference + spread
    return Comparison(difference, ends, ends, sigma, (0.05, 0.02), (0.0, 0.0), 1, 0, 1)


def quit_row(w: int = 8, **more: object) -> RuleRow:
    scores = {
        "rerank": Score(0.8, comparison(0.0), comparison(0.003)),
        "metricx": Score(5.0, comparison(0.03), comparison(-0.1)),
    }
    settings = {"k": 8, "w": w, "alpha": 1e-3, "n": 512}
    return RuleRow("mbr:chrf", f"QUIT w={w}", 128.5, 0.25, scores, settings=settings, **more)  # type: ignore[arg-type]


def whole() -> RuleRow:
    return RuleRow("mbr:chrf", "Unaccelerated", 512.0, 1.0, {"rerank": Score(0.81), "metricx": Score(4.9)})


def headings(table: Table) -> list[str]:
    return [column.title for column in table.columns]


def cell(table: Table, row: int, key: str) -> Cell:
    return table.rows[row][[column.key for column in table.columns].index(key)]


def test_main_results_mark_equivalence_and_show_the_difference_to_a_fixed_size() -> None:
    paper = {"speedup_estimated": Printed(1.74), "rerank": Printed(0.8344, "††")}
    table = tables.main_results([whole(), quit_row(estimated=3.9, live=3.5, paper=paper)], METRICS)
    assert headings(table) == [
        "Reranker", "Acceleration", "Mean N ↓", "Full, %", "Speedup, × (estimated)", "Speedup, × (live)",
        "Rerank score", "Rerank score − Fixed-N*", "MetricX ↓", "MetricX − Fixed-N* ↓",
    ]  # fmt: skip
    assert cell(table, 1, "rerank") == Cell(0.8, "††", paper=0.8344, paper_mark="††")
    assert cell(table, 1, "metricx").mark == "†"
    assert cell(table, 1, "metricx_minus_fixed") == Cell(-0.1, interval=comparison(-0.1).interval)
    assert cell(table, 1, "full_percent").value == 25
    assert cell(table, 1, "speedup_estimated").paper == 1.74
    assert cell(table, 0, "rerank_minus_fixed").value is None
    assert cell(table, 0, "rerank").mark == ""


def test_columns_and_notes_without_content_are_left_out() -> None:
    table = tables.main_results([whole()], METRICS)
    assert headings(table) == ["Reranker", "Acceleration", "Mean N ↓", "Full, %", "Rerank score", "MetricX ↓"]
    assert table.footnotes == ()
    chrf = tables.chrf_utility([], [whole(), quit_row(dataset="wmt24")], METRICS)
    assert chrf is not None and "dataset" in csv(chrf)
    assert tables.chrf_utility([whole()], [], METRICS) is None


def test_alpha_has_worse_and_better_counts() -> None:
    table = tables.alpha_ablation([quit_row(worse_better=(2, 7)), quit_row(4)], METRICS)
    assert headings(table)[-2:] == ["n↓", "n↑"]
    assert (cell(table, 0, "worse").value, cell(table, 0, "better").value) == (2, 7)
    assert cell(table, 1, "worse").value is None
    assert "1e−3" in markdown(table)


def test_steps_by_windows_and_gaps() -> None:
    sizes = [MeanSize("mbr", 8, 4, 132.0, 132.86), MeanSize("mbr", 8, 16, 388.0), MeanSize("mbr", 4, 4, 81.0)]
    table = tables.step_by_window(sizes)
    assert headings(table) == ["Reranker", "k", "Mean N, w=4", "Mean N, w=16"]
    assert [row[1].value for row in table.rows] == [4, 8]
    assert cell(table, 1, "mean_n_w4") == Cell(132.0, paper=132.86)
    assert cell(table, 0, "mean_n_w16").value is None


def test_an_undefined_prr_is_said_and_a_missing_one_is_not() -> None:
    found = [Prr("qe", 4, "proxy", 0.25, 0.2), Prr("qe", 8, "proxy", None), Prr("qe", 8, "chrfpp", 0.5)]
    table = tables.prr(found, {"chrfpp": "chrF++"})
    assert headings(table) == ["Reranker", "w", "PRR, proxy", "PRR, chrF++"]
    assert cell(table, 0, "prr_proxy") == Cell(0.25, paper=0.2)
    assert cell(table, 1, "prr_proxy").value == "undefined"
    assert cell(table, 0, "prr_chrfpp").value is None
    assert not table.is_text(2)


def test_speedups_are_over_the_same_reranker_on_the_same_basis() -> None:
    rows = [
        RuntimeRow("mbr", "Unaccelerated", RuleSeconds(90, 10, False), RuleSeconds(100, 20, True)),
        RuntimeRow("mbr", "QUIT w=8", RuleSeconds(40, 10, False), RuleSeconds(25, 5, True)),
        RuntimeRow("qe", "QUIT w=8", RuleSeconds(1, 1, False)),
    ]
    table = tables.runtime(rows)
    assert [cell(table, row, "speedup_estimated").value for row in range(3)] == [1, 2, None]
    assert [cell(table, row, "speedup_live").value for row in range(3)] == [1, 4, None]
    assert cell(table, 1, "total_seconds_live").value == 30
    only_estimated = tables.runtime([rows[2]])
    assert not any("live" in heading for heading in headings(only_estimated))
