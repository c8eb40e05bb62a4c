"""The report's page: one HTML file that opens anywhere, offline.

Everything is inside: style, script, figures as SVG, the segments as JSON. The page's Content-Security-Policy forbids
loading anything else. Without JavaScript the page still works as a document: only sorting and the browser of segments
need the script. The template is in ``report_page/``; nothing of a study is ever inserted unescaped.

Invariants of the browser of segments:
- Identical candidates are one entry with their count and the index of the first. Anchors are entries too, with their
  origin; their indices count from -1 downwards.
- Every rule's choice is among a segment's entries, however many candidates are left out.
- The JSON cannot end the script element that contains it, and has no NaN.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from quitmt.lab.frames import Floats, Replayed, Trajectories
from quitmt.lab.report.formats import NOTHING, Cell, Column, Table, cell_text
from quitmt.lab.results import Results

SEGMENTS = 300
"""Segments in the browser."""
CANDIDATES = 50
"""Candidates per segment in the browser, besides chosen ones."""
POINTS = 128
"""Points per line in the browser."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure of the report."""

    name: str
    title: str
    svg: str
    """As ``drawing.save`` writes it."""


@dataclass(frozen=True, slots=True)
class Section:
    """Sentences, tables and figures."""

    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    date: str
    machine: str
    found: Section = field(default_factory=Section)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Everything that produced the numbers, in groups."""
    results: Results | None = None
    """For the browser of segments."""
    opening: Section = field(default_factory=Section)
    """What to use."""
    links: Mapping[str, str] = field(default_factory=dict)
    """To the reports of other samplings, by name."""


def write(page: Page, path: Path) -> None:
    # A byte-level model can emit a lone surrogate, which must not prevent the report.
    path.write_text(html(page), "utf-8", errors="replace", newline="\n")


def html(page: Page) -> str:
    """The whole page."""
    folder = resources.files("quitmt.lab.report") / "report_page"
    parts = {
        "title": escape(page.title),
        "date": escape(page.date),
        "machine": escape(page.machine),
        "style": (folder / "style.css").read_text("utf-8"),
        "script": (folder / "script.js").read_text("utf-8"),
        "opening": _opening(page.opening),
        "links": _links(page.links),
        "summary": _items(page.found.sentences),
        "tables": "\n".join(_table(table) for table in page.found.tables),
        "figures": "\n".join(_figure(picture) for picture in page.found.pictures),
        "settings": "\n".join(_settings(name, group) for name, group in page.settings.items()),
        "extent": escape(_extent(len(page.results.pools) if page.results else 0)),
        "segments": embedded(page.results),
    }
    # One pass over the template, so that inserted text is never taken for a placeholder.
    template = (folder / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def _items(sentences: Sequence[str]) -> str:
    return "\n".join(f"<li>{escape(said)}</li>" for said in sentences)


def _opening(opening: Section) -> str:
    first, *others = (_table(table) for table in opening.tables) if opening.tables else ("",)
    figures = "\n".join(_figure(picture) for picture in opening.pictures)
    return "\n".join([f"<ul>\n{_items(opening.sentences)}\n</ul>", first, figures, *others])


def _links(links: Mapping[str, str]) -> str:
    if not links:
        return ""
    found = ", ".join(f'<a href="{escape(quote(path))}">{escape(name)}</a>' for name, path in links.items())
    return f"<p>The tables and figures below are of the first sampling. The others have their own reports: {found}.</p>"


def _extent(total: int) -> str:
    which = f"All {total:,} segments" if total <= SEGMENTS else f"The first {SEGMENTS:,} of {total:,} segments"
    return f"{which}, each with about {CANDIDATES} of its best candidates and every candidate that a rule would choose."


def for_reading(table: Table) -> Table:
    """The table with its columns reordered: names first, then quality, then cost; without the test set, which is the
    same in all rows."""
    lead = [i for i in range(len(table.columns)) if table.is_text(i) and table.columns[i].key != "dataset"]
    costs = ("mean_n", "full_percent", "speedup_", "seconds_", "candidates", "best_again")
    later = [i for i, column in enumerate(table.columns) if i not in lead and column.key.startswith(costs)]
    between = [i for i in range(len(table.columns)) if i not in (*lead, *later) and table.columns[i].key != "dataset"]
    order = [*lead, *between, *later]
    rows = tuple(tuple(row[i] for i in order) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in order), rows=rows)


def _table(original: Table) -> str:
    table = for_reading(original)
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
    """``data-value`` is the number to sort by; a cell without one sorts last."""
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
    title = escape(picture.title)
    return (
        f'<figure id="figure-{escape(picture.name)}"><div class="scroll drawing" tabindex="0" role="region" '
        f'aria-label="{title}">{inline_svg(picture)}</div><figcaption><h3>{title}</h3></figcaption></figure>'
    )


def inline_svg(picture: Picture) -> str:
    """An SVG file's drawing as part of a page: without its prolog and metadata, and with ids unique to the picture."""
    svg = picture.svg[picture.svg.index("<svg") :]
    svg = _without(svg, "metadata")
    svg = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    # Matplotlib's style sheet would apply to the whole page; style.css has the same rule.
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


def embedded(results: Results | None, *, segments: int = SEGMENTS, candidates: int = CANDIDATES) -> str:
    """The browser's JSON: the first ``segments``, each with its best ``candidates`` and every chosen one."""
    found: dict[str, Any] = {"rules": [], "metrics": [], "segments": []}
    if results is not None:
        rules = {spec: (own.unaccelerated, *own.windows, *own.beyond) for spec, own in results.replays.items()}
        names = list(dict.fromkeys(rule.name for own in rules.values() for rule in own))
        metrics = [quality.metric for quality in results.quality.values()]
        shown = range(min(segments, len(results.pools)))
        packed = [_segment(results, row, rules, names, candidates) for row in shown]
        found = {"rules": names, "metrics": metrics, "segments": packed}
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Without "<" there can be neither </script> nor <!--; JSON allows it as an escape everywhere.
    return text.replace("<", "\\u003c")


def _segment(
    results: Results, row: int, rules: Mapping[str, Sequence[Replayed]], names: list[str], limit: int
) -> dict[str, Any]:
    pool = results.pools[row]
    texts = [one.text for one in pool.candidates]
    first, count, origins = dict[str, int](), dict[str, int](), dict[str, str]()
    for index, text in enumerate(texts):
        first.setdefault(text, index)
        count[text] = count.get(text, 0) + 1
    distinct = len(first)
    for place, anchor in enumerate(pool.anchors):
        first.setdefault(anchor.text, -1 - place)
        known = origins.get(anchor.text)
        origins[anchor.text] = f"{known}, {anchor.origin}" if known else anchor.origin
    text_of = [*texts, *(anchor.text for anchor in reversed(pool.anchors))]  # so that negative indices find anchors

    def own(values: Floats) -> list[float]:
        """This pool's part of a row, whose anchors come after the samples of the largest pool."""
        anchors = values[row, values.shape[1] - len(pool.anchors) :]
        return [*values[row, : len(texts)].tolist(), *anchors.tolist()]

    finals = [own(one.final) for one in results.trajectories.values()]
    qualities = [own(one.values) for one in results.quality.values()]
    chosen = {text_of[int(rule.index[row])] for each in rules.values() for rule in each}
    kept = _kept(list(first.items()), chosen, finals, limit)
    place_of = {text_of[index]: at for at, index in enumerate(kept)}
    entries = [
        [
            text_of[index],
            count.get(text_of[index], 0),
            index + 1 if index >= 0 else None,
            [_short(final[index]) for final in finals],
            [_short(values[index]) for values in qualities],
            origins.get(text_of[index], ""),
        ]
        for index in kept
    ]
    tracks = []
    for spec, one in results.trajectories.items():
        stops = [
            [names.index(rule.name), int(rule.size[row]), place_of[text_of[int(rule.index[row])]]]
            for rule in rules[spec]
        ]
        tracks.append(_track(one, row, len(texts), stops, results.study.rules.k))
    return {
        "id": pool.segment.id,
        "source": pool.segment.source,
        "references": [texts[row] for texts in results.test_set.references],
        "drawn": len(texts),
        "distinct": distinct,
        "anchors": len(pool.anchors),
        "candidates": entries,
        "tracks": tracks,
    }


def _kept(distinct: list[tuple[str, int]], chosen: set[str], finals: list[list[float]], limit: int) -> list[int]:
    """The candidates to show: the best by each reranker in turn, and every chosen one, best first by the first one."""

    def ranked(final: list[float]) -> list[int]:
        scores = {index: final[index] if math.isfinite(final[index]) else -math.inf for _, index in distinct}
        return sorted(scores, key=lambda index: (-scores[index], index))

    orders = [ranked(final) for final in finals]
    wanted = {index for text, index in distinct if text in chosen}
    share = -(-limit // len(orders))
    for order in orders:
        wanted.update(order[:share])
    return [index for index in orders[0] if index in wanted]


def _track(one: Trajectories, row: int, pool: int, stops: list[list[int]], k: int) -> dict[str, Any]:
    """The best score of one reranker at some sizes, among them all at which rules stop."""
    needed = {size for _, size, _ in stops}
    sizes = sorted({*range(k, pool, k), pool, *needed})
    stride = max(1, -(-len(sizes) // POINTS))
    kept = [size for i, size in enumerate(sizes) if i % stride == 0 or size == sizes[-1] or size in needed]
    scores = [_short(float(one.score[row, size - 1])) for size in kept]
    return {"reranker": one.reranker, "sizes": kept, "scores": scores, "stops": stops}


def _short(value: float) -> float | None:
    """Six digits, which are more than a chart or a table shows."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
