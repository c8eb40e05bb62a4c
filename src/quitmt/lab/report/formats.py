"""One table, three formats: Markdown to read, LaTeX (booktabs) to print, CSV to compute with.

Invariants:
- All formats come from the same cells. CSV has the exact numbers, and separate columns for marks, ends of intervals and
  the paper's values.
- A heading has ↓ where less is better, and "estimated" or "live" where its numbers come from seconds: a column has one
  of the two, never both.
- Unknown values are – (an empty field in CSV), never 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from csv import writer
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Literal

Value = float | str | None
"""A number, a text, or None; NaN counts as None."""

NOTHING = "–"
PAPER_NOTE = "In parentheses: the paper's value for the same cell."


@dataclass(frozen=True, slots=True)
class Column:
    """The properties that a column's cells share."""

    key: str
    """Its name in CSV: ``mean_n``."""
    heading: str
    decimals: int = 2
    lower_is_better: bool = False
    basis: Literal["", "estimated", "live"] = ""
    """The origin of the seconds that the numbers come from, if any."""
    signed: bool = False
    """Whether positive numbers have a sign, as in a column of differences."""
    scientific: bool = False
    """Whether numbers are written 1e-3."""

    @property
    def title(self) -> str:
        arrow = " ↓" if self.lower_is_better else ""
        return f"{self.heading}{arrow} ({self.basis})" if self.basis else f"{self.heading}{arrow}"

    def text(self, value: Value) -> str:
        """A value as readers see it."""
        if isinstance(value, str):
            return value
        if value is None or math.isnan(value):
            return NOTHING
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        if self.scientific:
            digits, power = f"{value:.0e}".split("e")
            return f"{digits}e{int(power)}".replace("-", "−")
        shown = f"{value:{'+' if self.signed else ''}.{self.decimals}f}"
        # A number that rounds to zero has no sign.
        return (f"{0:.{self.decimals}f}" if float(shown) == 0 else shown).replace("-", "−")


@dataclass(frozen=True, slots=True)
class Cell:
    """One value, with its mark, interval and the paper's value."""

    value: Value
    mark: str = ""
    """† or ††, ↓ or ↑."""
    interval: tuple[float, float] | None = None
    paper: Value = None
    """The paper's value for the same cell."""
    paper_mark: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    """For its files and its label: ``results``."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {self.name} has {len(row)} cells, not {len(self.columns)}")

    @property
    def footnotes(self) -> tuple[str, ...]:
        """The notes, and the one about the paper's values if the table has any."""
        beside = any(cell.paper is not None for row in self.rows for cell in row)
        return (*self.notes, PAPER_NOTE) if beside else self.notes

    def is_text(self, column: int) -> bool:
        """Whether a column holds words, which are aligned left; numbers are aligned right."""
        values = [row[column].value for row in self.rows if row[column].value is not None]
        return all(isinstance(value, str) for value in values)


def markdown(table: Table) -> str:
    """A pipe table below its title and above its notes."""
    grid = [[markdown_text(column.title) for column in table.columns]]
    for row in table.rows:
        grid.append([cell_text(cell, column, markdown_text) for cell, column in zip(row, table.columns, strict=True)])
    widths = [max(3, *(len(line[i]) for line in grid)) for i in range(len(table.columns))]
    left = [table.is_text(i) for i in range(len(table.columns))]
    grid.insert(1, ["-" * width if at else "-" * (width - 1) + ":" for width, at in zip(widths, left, strict=True)])
    lines = [f"**{markdown_text(table.title)}**", ""]
    for line in grid:
        padded = [
            text.ljust(width) if at else text.rjust(width) for text, width, at in zip(line, widths, left, strict=True)
        ]
        lines.append(f"| {' | '.join(padded)} |")
    for note in table.footnotes:
        lines += ["", markdown_text(note)]
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """A floating table, scaled down if it is wider than the text; needs booktabs and graphicx."""
    sides = "".join("l" if table.is_text(i) else "r" for i in range(len(table.columns)))
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(table.title)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        " & ".join(_latex_heading(column.title) for column in table.columns) + r" \\",
        r"\midrule",
    ]
    for row in table.rows:
        shown = [cell_text(cell, column, latex_text) for cell, column in zip(row, table.columns, strict=True)]
        # LaTeX would take a [ at the start of a row for the optional argument of the \\ before it.
        lines.append(" & ".join(shown).replace("[", "{[}", 1 if shown[0].startswith("[") else 0) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}}"]
    lines += [rf"\par\smallskip\footnotesize {latex_text(note)}" for note in table.footnotes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def csv(table: Table) -> str:
    """The exact numbers. Marks, intervals and the paper's values follow their column in columns of their own."""
    fields: list[tuple[str, list[object]]] = []
    for i, column in enumerate(table.columns):
        cells = [row[i] for row in table.rows]
        fields.append((column.key, [_exact(cell.value) for cell in cells]))
        beside: list[tuple[str, list[object]]] = [
            ("mark", [cell.mark for cell in cells]),
            ("low", [_exact(cell.interval and cell.interval[0]) for cell in cells]),
            ("high", [_exact(cell.interval and cell.interval[1]) for cell in cells]),
            ("paper", [_exact(cell.paper) for cell in cells]),
            ("paper_mark", [cell.paper_mark for cell in cells]),
        ]
        fields += [(f"{column.key}_{what}", values) for what, values in beside if any(v != "" for v in values)]
    text = StringIO()
    lines = writer(text, lineterminator="\n")
    lines.writerow([key for key, _ in fields])
    lines.writerows([values[row] for _, values in fields] for row in range(len(table.rows)))
    return text.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {"md": markdown, "tex": latex, "csv": csv}


def write(table: Table, folder: Path) -> list[Path]:
    """Write NAME.md, NAME.tex and NAME.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, form in FORMATS.items():
        path = folder / f"{table.name}.{suffix}"
        path.write_text(form(table), "utf-8", newline="\n")
        paths.append(path)
    return paths


def cell_text(cell: Cell, column: Column, escape: Callable[[str], str]) -> str:
    """A cell as readers see it: value, mark, interval, and the paper's value in parentheses."""
    shown = escape(column.text(cell.value) + cell.mark)
    if cell.interval is not None:
        low, high = (escape(column.text(end)) for end in cell.interval)
        shown += f" [{low}, {high}]"
    if cell.paper is not None:
        shown += f" ({escape(column.text(cell.paper) + cell.paper_mark)})"
    return shown


def markdown_text(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\|*_`<" else c for c in text.replace("\n", " "))


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "<": "$<$",
    ">": "$>$",
    "\n": " ",
    "–": "--",
    "−": "$-$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "∞": r"$\infty$",
    "α": r"$\alpha$",
    "σ": r"$\sigma$",
    "Δ": r"$\Delta$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "†": r"$^{\dagger}$",
    "…": r"\ldots{}",
}


def latex_text(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text.replace("††", "\0")).replace("\0", r"$^{\dagger\dagger}$")


def _latex_heading(title: str) -> str:
    """Two lines for a heading with two parts, so that headings don't make a table wider than its numbers do."""
    lines = [latex_text(line) for line in re.split(r" (?=− |\()", title)]
    return lines[0] if len(lines) == 1 else r"\shortstack[r]{" + r" \\ ".join(lines) + "}"


def _exact(value: Value) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if math.isnan(value):
        return ""
    # Converted to float because the repr of NumPy's numbers includes their type.
    return repr(float(value)) if isinstance(value, float) else str(value)


def columns_in_use(
    columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]]
) -> tuple[list[Column], list[tuple[Cell, ...]]]:
    """The columns in which some cell has a value: a study without live runs has no live columns."""
    kept = [i for i in range(len(columns)) if any(row[i].value is not None for row in rows)]
    return [columns[i] for i in kept], [tuple(row[i] for i in kept) for row in rows]
