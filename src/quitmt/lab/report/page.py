"""The report: one HTML file that opens anywhere, offline.

Everything is inside: style, script, figures as SVG, the segments as JSON. The page forbids itself to load anything else
(its Content-Security-Policy), and it works as a document without its script: only sorting and the browser of segments
need it. Its text comes from ``report_page/``; nothing of a study is ever put into it unescaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from quitmt.lab.report.segments import CANDIDATES, SEGMENTS, SegmentView, embedded
from quitmt.lab.report.tables import NOTHING, Cell, Column, Table, cell_text


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure of the report."""

    name: str
    title: str
    svg: str
    """As ``drawing.save`` writes it."""
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Advised:
    """What a reader is to do, before everything else."""

    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True, slots=True)
class StudyReport:
    title: str
    date: str
    machine: str
    sentences: Sequence[str] = ()
    """The summary, one statement each (``facts.sentences``)."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Everything that produced the numbers, in groups: study, signatures, machine."""
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    segments: Sequence[SegmentView] = ()
    total_segments: int | None = None
    """Of the study, if ``segments`` are only the first of them."""
    opening: Advised = field(default_factory=Advised)
    links: Mapping[str, str] = field(default_factory=dict)
    """To the reports of other samplings, by name."""


def write(report: StudyReport, path: Path) -> None:
    # A lone surrogate, which a byte-level model can emit, must not lose the report.
    path.write_text(html(report), "utf-8", errors="replace", newline="\n")


def html(report: StudyReport) -> str:
    """The whole page."""
    page = resources.files("quitmt.lab.report") / "report_page"
    parts = {
        "title": escape(report.title),
        "date": escape(report.date),
        "machine": escape(report.machine),
        "style": (page / "style.css").read_text("utf-8"),
        "script": (page / "script.js").read_text("utf-8"),
        "opening": _opening(report.opening),
        "links": _links(report.links),
        "summary": "\n".join(f"<li>{escape(said)}</li>" for said in report.sentences),
        "tables": "\n".join(_table(table) for table in report.tables),
        "figures": "\n".join(_figure(picture) for picture in report.pictures),
        "settings": "\n".join(_settings(name, group) for name, group in report.settings.items()),
        "extent": escape(_extent(report)),
        "segments": embedded(report.segments),
    }
    # All at once, so that nothing put in is taken for a place to put something.
    template = (page / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _opening(opening: Advised) -> str:
    said = "\n".join(f"<li>{escape(one)}</li>" for one in opening.sentences)
    first, *others = (_table(table) for table in opening.tables) if opening.tables else ("",)
    figures = "\n".join(_figure(picture) for picture in opening.pictures)
    return "\n".join([f"<ul>\n{said}\n</ul>", first, figures, *others])


def _links(links: Mapping[str, str]) -> str:
    if not links:
        return ""
    found = ", ".join(f'<a href="{escape(quote(path))}">{escape(name)}</a>' for name, path in links.items())
    return (
        f"<p>The tables and figures below are of the first sampling. Each other has a report of its own: {found}.</p>"
    )


def _extent(report: StudyReport) -> str:
    total = report.total_segments or len(report.segments)
    shown = min(SEGMENTS, len(report.segments))
    which = f"All {total:,} segments" if shown == total else f"The first {shown:,} of {total:,} segments"
    return f"{which}, each with about {CANDIDATES} of its best candidates and every one that a rule would choose."


def for_reading(table: Table) -> Table:
    """What is the same in all rows goes, and what a row is about comes first, then quality, then cost."""
    lead = [i for i in range(len(table.columns)) if table.is_text(i) and table.columns[i].key != "dataset"]
    costs = ("mean_n", "full_percent", "speedup_", "seconds_", "candidates", "best_again")
    later = [i for i, column in enumerate(table.columns) if i not in lead and column.key.startswith(costs)]
    between = [i for i in range(len(table.columns)) if i not in (*lead, *later) and table.columns[i].key != "dataset"]
    order = [*lead, *between, *later]
    rows = tuple(tuple(row[i] for i in order) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in order), rows=rows)


def _table(given: Table) -> str:
    table = for_reading(given)
    heads, rows = [], []
    for i, column in enumerate(table.columns):
        side = "" if table.is_text(i) else ' class="number"'
        heads.append(f'<th scope="col"{side}>{escape(column.title)}</th>')
    for row in table.rows:
        cells = [
            _cell(cell, column, table.is_text(i))
            for i, (cell, column) in enumerate(zip(row, table.columns, strict=True))
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.footnotes)
    title = escape(table.title)
    return (
        f'<figure class="table" id="table-{escape(table.name)}"><figcaption><h3>{title}</h3></figcaption>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{title}"><table class="sortable"><thead>'
        f"<tr>{''.join(heads)}</tr></thead><tbody>\n{chr(10).join(rows)}\n</tbody></table></div>"
        f'<div class="notes">{notes}</div></figure>'
    )


def _cell(cell: Cell, column: Column, is_text: bool) -> str:
    """``data-value`` is what a column is sorted by; a cell without a number has none, and sorts last."""
    if is_text:
        return f"<td>{escape(cell_text(cell, column, str))}</td>"
    value = ""
    if isinstance(cell.value, (int, float)) and math.isfinite(cell.value):
        value = f' data-value="{float(cell.value)!r}"'
    own = escape(column.text(cell.value) + cell.mark)
    if cell.interval is not None:
        low, high = (column.text(end) for end in cell.interval)
        own += f' <span class="interval">[{low}, {high}]</span>'
    if cell.paper is not None:
        own += f' <span class="paper">({escape(column.text(cell.paper) + cell.paper_mark)})</span>'
    return f'<td class="number"{value}>{own}</td>'


def _figure(picture: Picture) -> str:
    caption = f"<p>{escape(picture.caption)}</p>" if picture.caption else ""
    return (
        f'<figure id="figure-{escape(picture.name)}"><div class="scroll drawing" tabindex="0" role="region" '
        f'aria-label="{escape(picture.title)}">{inline_svg(picture)}</div>'
        f"<figcaption><h3>{escape(picture.title)}</h3>{caption}</figcaption></figure>"
    )


def inline_svg(picture: Picture) -> str:
    """An SVG file's drawing as part of a page: without its prolog and metadata, its ids made the picture's own."""
    svg = picture.svg[picture.svg.index("<svg") :]
    svg = _without(svg, "metadata")
    svg = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    # Matplotlib's style sheet is for the whole file, which here would be the whole page; style.css has the same rule.
    svg = _without(svg, "style")
    prefix = re.sub(r"\W", "-", picture.name)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^()]+)\)", rf"url(#{prefix}-\1)", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(picture.title)}"', 1)


def _without(svg: str, element: str) -> str:
    before, *rest = svg.split(f"<{element}")
    return before + "".join(part.partition(f"</{element}>")[2] for part in rest)


def _settings(name: str, group: Mapping[str, str]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(key)}</th><td>{escape(value) or NOTHING}</td></tr>'
        for key, value in group.items()
    )
    return f'<h3>{escape(name)}</h3><div class="scroll"><table class="settings"><tbody>{rows}</tbody></table></div>'
