"""The report: one file, nothing from outside, and everything in it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quitmt.calibrate.drawing import encoded
from quitmt.lab.frames import QualityScores
from quitmt.lab.replay.rules import quit_rule, unaccelerated
from quitmt.lab.report.figures import stopping_distribution
from quitmt.lab.report.page import Picture, StudyReport, html, inline_svg, write
from quitmt.lab.report.segments import CANDIDATES, POINTS, SegmentView, Stop, Track, embedded, segment_views
from quitmt.lab.report.tables import Cell, Column, Table
from tests.lab.arrays import fixed, running_best

EVIL = "</script><script>alert(1)</script><!-- & \"quoted\" 'text' {{style}}"
VOID = {"meta", "link", "input", "br", "img", "path", "use", "rect", "line", "circle"}


class Page(HTMLParser):
    """What a browser would see: elements, scripts, ids, texts, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        if tag not in VOID:
            self._open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, key, value or "") for key, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts[-1] += data
        elif self._open[-1:] != ["style"]:
            self.text += data

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])


def view(id: str = "1", texts: tuple[str, ...] = ("a", "b", "a")) -> SegmentView:
    final = [0.1 * (i + 1) for i in range(len(texts))]
    track = Track("mbr:chrf", [1, len(texts)], [0.5, 0.6], final, (Stop("QUIT w=8", len(texts), 1),))
    return SegmentView(id, f"source {id}", ("reference",), texts, (track,), {"chrF++": [50.0] * len(texts)})


def report(**more: Any) -> StudyReport:
    table = Table(
        "results",
        "All <results>",
        (Column("rule", "Rule"), Column("x", "X", 2, lower_is_better=True)),
        ((Cell("QUIT & co"), Cell(np.float64(10.5), "†", (9.0, 12.0), 11.0, "††")), (Cell("Fixed"), Cell(None))),
        ("A note.",),
    )
    figure = encoded(stopping_distribution({"mbr": {8: np.array([8, 16, 32])}}, budget=32), "svg").decode()
    pictures = [Picture("one", "First figure", figure, "Caption one"), Picture("two", "Second figure", figure)]
    content: dict[str, Any] = {
        "sentences": ["It saves 75%.", "Its choices are <equivalent>."],
        "settings": {"Study": {"k": "8"}, "Signatures": {"mbr": "mbr|u:chrf<x>"}},
        "tables": [table],
        "pictures": pictures,
        "segments": [view("1"), view("2", (EVIL, "b"))],
    }
    return StudyReport("A <study>", "2025-01-02", "2 cores & 24 GiB", **{**content, **more})


def test_nothing_comes_from_outside() -> None:
    text = html(report())
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\((?!#)", text)
    page = Page(text)
    fetched = [(tag, value) for tag, key, value in page.attributes if key in ("src", "href", "xlink:href", "action")]
    assert fetched
    assert all(value.startswith("#") or value == "data:," for _, value in fetched)
    assert "default-src 'none'" in text


def test_everything_is_in_it() -> None:
    page = Page(html(report()))
    for said in (
        "A <study>", "2025-01-02 · 2 cores & 24 GiB", "It saves 75%.", "Its choices are <equivalent>.", "All <results>",
        "A note.", "QUIT & co", "First figure", "Caption one", "Second figure", "mbr|u:chrf<x>", "All 2 segments",
    ):  # fmt: skip
        assert said in page.text
    assert [segment["id"] for segment in page.data["segments"]] == ["1", "2"]
    assert "{{" not in page.text


def test_markup_in_a_candidate_is_harmless() -> None:
    text = html(report())
    page = Page(text)
    assert len(page.scripts) == 2
    assert page.data["segments"][1]["candidates"][1][0] == EVIL
    assert "alert(1)" not in page.scripts[1]
    assert "alert" not in page.text
    assert text.count("</script>") == 2
    hostile = Page(html(report(sentences=[EVIL], settings={EVIL: {EVIL: EVIL}})))
    assert len(hostile.scripts) == 2
    assert hostile.text.count(EVIL) == 4


def test_tables_sort_by_exact_numbers_and_show_the_rest_beside() -> None:
    text = html(report())
    assert '<td class="number" data-value="10.5">10.50† <span class="interval">[9.00, 12.00]</span>' in text
    assert '<span class="paper">(11.00††)</span>' in text
    assert '<td class="number">–</td>' in text
    assert '<th scope="col" class="number">X ↓</th>' in text


def test_figures_on_one_page_do_not_share_ids() -> None:
    page = Page(html(report()))
    ids = [value for _, key, value in page.attributes if key == "id"]
    assert len(ids) == len(set(ids))
    inlined = inline_svg(report().pictures[0])
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', inlined))
    assert used
    assert {a or b for a, b in used} <= set(re.findall(r'\bid="([^"]+)"', inlined))
    assert inlined.startswith('<svg role="img" aria-label="First figure"')


def test_identical_candidates_are_one_entry_and_their_choice_is_found() -> None:
    (segment,) = json.loads(embedded([view(texts=("x", "y", "x", "y", "y"))]))["segments"]
    assert (segment["drawn"], segment["distinct"]) == (5, 2)
    assert [entry[:3] for entry in segment["candidates"]] == [["y", 3, 2], ["x", 2, 1]]
    assert segment["tracks"][0]["stops"] == [[0, 5, 0]]


def test_large_studies_are_cut_but_chosen_candidates_stay() -> None:
    texts = tuple(f"candidate {i}" for i in range(400))
    sizes = list(range(1, 401))
    stops = (Stop("Fixed", 37, 3), Stop("All", 400, 399))
    track = Track("qe:x", sizes, [float(size) for size in sizes], [float(i) for i in range(400)], stops)
    many = [SegmentView(str(i), "s", (), texts, (track,)) for i in range(5)]
    data = json.loads(embedded(many, segments=3))
    assert [segment["id"] for segment in data["segments"]] == ["0", "1", "2"]
    segment = data["segments"][0]
    assert len(segment["candidates"]) == CANDIDATES + 1
    assert segment["candidates"][segment["tracks"][0]["stops"][0][2]][0] == "candidate 3"
    assert len(segment["tracks"][0]["sizes"]) <= POINTS + 3
    assert {1, 37, 400} <= set(segment["tracks"][0]["sizes"])
    page = Page(html(report(segments=many[:2], total_segments=997)))
    assert "The first 2 of 997 segments" in page.text


def test_unknown_scores_are_null_and_the_json_is_valid() -> None:
    track = Track("qe:x", [2], [float("nan")], [float("nan"), 1.0], (Stop("All", 2, 1),))
    text = embedded([SegmentView("1", "s", (), ("a", "b"), (track,), {"m": [float("nan"), 0.123456789]})])
    (segment,) = json.loads(text, parse_constant=lambda constant: pytest.fail(constant))["segments"]
    assert segment["candidates"] == [["b", 1, 2, [1.0], [0.123457], ""], ["a", 1, 1, [None], [None], ""]]


def test_segments_come_from_the_studys_arrays() -> None:
    scores = np.array([[0.1, 0.4, 0.2, 0.9, 0.3], [0.5, 0.1, 0.2, 0.3, 0.0]])
    found = running_best(scores, sizes=[5, 4])
    rules = [unaccelerated(found, 5), fixed(found, 3, 5), quit_rule(found, k=2, w=2, alpha=1.0, budget=5)]
    quality = QualityScores("chrF++", "chrf", False, scores * 100)
    pools = [["a", "b", "c", "d", "e"], ["f", "g", "h", "i"]]
    first, second = segment_views(["s", "t"], [["r"], []], pools, [found], rules, [quality], k=2)
    (track,) = first.tracks
    assert (first.id, first.references, track.sizes) == ("s0", ("r",), [2, 3, 4, 5])
    assert track.score == [0.4, 0.4, 0.9, 0.9]
    assert [(stop.size, first.candidates[stop.index]) for stop in track.stops] == [(5, "d"), (3, "b"), (4, "d")]
    assert second.tracks[0].final == [0.5, 0.1, 0.2, 0.3]
    assert second.quality["chrF++"] == [50.0, 10.0, 20.0, 30.0]
    assert len(segment_views(["s", "t"], [[], []], pools, [found], rules, limit=1)) == 1


def test_an_empty_report_and_lone_surrogates_are_written(tmp_path: Path) -> None:
    write(StudyReport("t", "d", "m", sentences=["\udc80"], segments=[view(texts=("\udc80", "b"))]), tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text("utf-8"))
    assert page.data["segments"][0]["distinct"] == 2
    assert Page(html(StudyReport("t", "d", "m"))).data["segments"] == []
