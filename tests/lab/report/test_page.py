"""The report: one file, nothing from outside, and everything in it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quitmt.lab.drawing import encoded
from quitmt.lab.frames import QualityScores, Trajectories
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.replay.rules import unaccelerated
from quitmt.lab.report import page as report_page
from quitmt.lab.report.figures import stopping_distribution
from quitmt.lab.report.formats import Cell, Column, Table
from quitmt.lab.report.page import CANDIDATES, POINTS, Picture, Section, embedded, html, inline_svg, write
from quitmt.lab.results import Replays, Results
from quitmt.lab.study import Study
from quitmt.lab.study.settings import RuleSettings, TestSetSettings
from quitmt.lab.study.testsets import StudyTestSet
from quitmt.types import Candidate, Segment
from tests.lab.arrays import fixed

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


def results(*pools: Sequence[str], final: Any = None, score: Any = None, sizes: Any = (), k: int = 1) -> Results:
    """Pools with made-up scores that grow with the index, and rules that stop at ``sizes``, choosing by the score."""
    width = max(map(len, pools), default=1)
    rows = np.tile(0.1 * np.arange(1.0, width + 1), (len(pools), 1)) if final is None else np.array(final)
    best = np.maximum.accumulate(np.tile(np.arange(width), (len(pools), 1)), axis=1)
    counts = np.array([len(pool) for pool in pools], np.int64)
    ids, seconds = tuple(str(number + 1) for number in range(len(pools))), np.ones(len(pools))
    own = rows if score is None else np.array(score)
    one = Trajectories("mbr:chrf", "", ids, counts, best, own, rows, seconds, seconds)
    rules = tuple(fixed(one, size, width + 1, name=f"Fixed {size}") for size in sizes)
    replays = Replays(unaccelerated(one, width), rules, (), (), (), (), (), ())
    quality = {"chrf++": QualityScores("chrF++", "", False, np.where(np.isnan(rows), np.nan, 50.0))}
    full = tuple(
        FullPool(Segment(id, f"source {id}"), tuple(map(Candidate, pool)), 1.0)
        for id, pool in zip(ids, pools, strict=True)
    )
    study = Study(TestSetSettings(tsv="x"), rules=RuleSettings(k=k))
    test_set = StudyTestSet("x", tuple(pool.segment for pool in full), (("reference",) * len(full),))
    return Results(study, test_set, full, {"mbr:chrf": one}, {"mbr:chrf": replays}, quality, {})


def report(**more: Any) -> report_page.Page:
    table = Table(
        "results",
        "All <results>",
        (Column("rule", "Rule"), Column("x", "X", 2, lower_is_better=True)),
        ((Cell("QUIT & co"), Cell(np.float64(10.5), "†", (9.0, 12.0), 11.0, "††")), (Cell("Fixed"), Cell(None))),
        ("A note.",),
    )
    figure = encoded(stopping_distribution({"mbr": {8: np.array([8, 16, 32])}}, budget=32), "svg").decode()
    pictures = [Picture("one", "First figure", figure), Picture("two", "Second figure", figure)]
    sentences = more.pop("sentences", ["It saves 75%.", "Its choices are <equivalent>."])
    content: dict[str, Any] = {
        "found": Section(sentences, [table], pictures),
        "settings": {"Study": {"k": "8"}, "Signatures": {"mbr": "mbr|u:chrf<x>"}},
        "results": results(("a", "b", "a"), (EVIL, "b", "b")),
    }
    return report_page.Page("A <study>", "2025-01-02", "2 cores & 24 GiB", **{**content, **more})


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
        "A note.", "QUIT & co", "First figure", "Second figure", "mbr|u:chrf<x>", "All 2 segments",
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
    inlined = inline_svg(report().found.pictures[0])
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', inlined))
    assert used
    assert {a or b for a, b in used} <= set(re.findall(r'\bid="([^"]+)"', inlined))
    assert inlined.startswith('<svg role="img" aria-label="First figure"')


def browsed(found: Results, **limits: int) -> Any:
    return json.loads(embedded(found, **limits), parse_constant=lambda constant: pytest.fail(constant))


def test_identical_candidates_are_one_entry_and_their_choice_is_found() -> None:
    (segment,) = browsed(results(("x", "y", "x", "y", "y")))["segments"]
    assert (segment["drawn"], segment["distinct"]) == (5, 2)
    assert [entry[:3] for entry in segment["candidates"]] == [["y", 3, 2], ["x", 2, 1]]
    assert segment["tracks"][0]["stops"] == [[0, 5, 0]]


def test_large_studies_are_cut_but_chosen_candidates_stay() -> None:
    texts = tuple(f"candidate {i}" for i in range(400))
    data = browsed(results(*[texts] * 5, sizes=[37]), segments=3)
    assert [segment["id"] for segment in data["segments"]] == ["1", "2", "3"]
    segment = data["segments"][0]
    assert data["rules"] == ["Unaccelerated", "Fixed 37"]
    assert len(segment["candidates"]) == CANDIDATES + 1
    assert segment["candidates"][segment["tracks"][0]["stops"][1][2]][0] == "candidate 36"
    assert len(segment["tracks"][0]["sizes"]) <= POINTS + 3
    assert {1, 37, 400} <= set(segment["tracks"][0]["sizes"])
    page = Page(html(report(results=results(*[("a", "b")] * 301))))
    assert "The first 300 of 301 segments" in page.text and len(page.data["segments"]) == 300


def test_unknown_scores_are_null() -> None:
    (segment,) = browsed(results(("a", "b"), final=[[np.nan, 0.123456789]], score=[[np.nan, 1.0]]))["segments"]
    assert segment["candidates"] == [["b", 1, 2, [0.123457], [50.0], ""], ["a", 1, 1, [None], [None], ""]]
    assert segment["tracks"][0]["scores"] == [None, 1.0]


def test_lines_are_the_best_scores_at_looks_and_stops() -> None:
    scores = [[0.1, 0.4, 0.4, 0.9, 0.9], [0.5, 0.5, 0.5, 0.5, 0.5]]
    first, second = browsed(results("abcde", "fghi", score=scores, sizes=[3], k=2))["segments"]
    (track,) = first["tracks"]
    assert (track["reranker"], track["sizes"], track["scores"]) == ("mbr:chrf", [2, 3, 4, 5], [0.4, 0.4, 0.9, 0.9])
    assert [(size, first["candidates"][place][0]) for _, size, place in track["stops"]] == [(5, "e"), (3, "c")]
    assert [entry[0] for entry in second["candidates"]] == ["i", "h", "g", "f"]


def test_an_empty_report_and_lone_surrogates_are_written(tmp_path: Path) -> None:
    odd = Section(["\udc80"])
    write(report_page.Page("t", "d", "m", odd, results=results(("\udc80", "b"))), tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text("utf-8"))
    assert page.data["segments"][0]["distinct"] == 2
    assert Page(html(report_page.Page("t", "d", "m"))).data["segments"] == []
