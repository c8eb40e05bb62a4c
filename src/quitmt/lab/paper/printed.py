"""The QUIT study's own numbers, for columns beside ours: every table it printed, as ``published/*.csv``.

What each table and column means is in ``published/README.md``. Values are texts as printed (``.8357``, ``512.00``), so
that what is shown beside ours has the study's digits; ``PrintedCell.value`` is the number.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from quitmt.errors import UsageError, unknown
from quitmt.lab.frames import RuleSeconds

TABLES = ("alpha", "chrf_utility", "mean_n_by_k", "prr", "results", "runtime")

Key = str | int | float


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """One number as printed."""

    text: str
    mark: str = ""
    """† equivalent to the unaccelerated within 0.05σ, †† within 0.02σ; only qualities have one."""

    @property
    def value(self) -> float:
        return float(self.text)


@cache
def table(name: str) -> tuple[Mapping[str, str], ...]:
    """The rows of a table, each a mapping from column to text."""
    if name not in TABLES:
        raise unknown("table of the study", name, TABLES)
    text = (resources.files("quitmt.lab.paper") / "published" / f"{name}.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def cell(name: str, column: str, **keys: Key) -> PrintedCell | None:
    """The cell of the one row with these keys, or None if the study has no such row.

    >>> cell("alpha", "mean_n", reranker="MBR", w=8, alpha=1e-3)
    PrintedCell(text='252', mark='')
    """
    rows = table(name)
    for known in (column, *keys):
        if known not in rows[0]:
            raise unknown(f"column of the study's table {name}", known, rows[0])
    found = [row for row in rows if all(_same(row[key], value) for key, value in keys.items())]
    if len(found) > 1:
        raise UsageError(f"{len(found)} rows of the study's table {name} have {keys}", hint="name more columns")
    return PrintedCell(found[0][column], found[0].get(f"{column}_eq", "")) if found else None


def runtime(dataset: str, model: str, acceleration: str) -> RuleSeconds | None:
    """Seconds with MBR, by the names of the main table.

    They count as estimated: unaccelerated reranking is one number for all models of a data set, 1.399 s a segment in
    both, which no run would measure.
    """
    method, _, window = acceleration.partition(" w=")
    keys: dict[str, Key] = {"dataset": dataset, "model": model}
    keys["method"] = {"Unaccelerated": "Unaccelerated MBR"}.get(method, method)
    if window:
        keys["w"] = window
    generation = cell("runtime", "generation_seconds", **keys)
    reranking = cell("runtime", "reranking_seconds", **keys)
    if generation is None or reranking is None:
        return None
    return RuleSeconds(generation.value, reranking.value, live=False)


def _same(printed: str, requested: Key) -> bool:
    """Numbers are the same however they are written: 1e-3 and 0.001."""
    if printed == str(requested):
        return True
    try:
        return float(printed) == float(requested)
    except ValueError:
        return False
