"""What a study leaves behind: tables, figures, a report to open in a browser, and a page to read.

OUTPUT/report.html       everything, self-contained
OUTPUT/results.md        what to use, the summary and the tables
OUTPUT/tables/           each table as Markdown, LaTeX and CSV
OUTPUT/figures/          each figure as SVG, PDF and PNG
OUTPUT/SAMPLING/         the same of each further sampling by itself

The report opens with what to use, of all samplings. Its other tables and figures are of the sampling of ``[model]``.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from quitmt._version import __version__
from quitmt.calibrate import drawing
from quitmt.evaluate.equivalence import Comparison
from quitmt.lab.report import advice, facts, frontier_facts, frontier_tables, guaranteed, paper_tables, tables
from quitmt.lab.report import page as report
from quitmt.lab.report.agreement import agreements
from quitmt.lab.report.assemble import Assembled, assemble, key_of
from quitmt.lab.report.choices import Overview, overview
from quitmt.lab.report.drawn import all_figures, judged, shown_windows
from quitmt.lab.report.frontier_rows import Frontier, frontier_of
from quitmt.lab.report.options import Series, Way, options_of, series_of
from quitmt.lab.report.overview_figure import quality_against_all_costs
from quitmt.lab.report.segments import segment_views
from quitmt.lab.results import Results
from quitmt.lab.rows import RuleRow, Score
from quitmt.lab.study import Study

FILES_ONLY = frozenset(("window_sweep", "chrf_utility"))
"""Tables whose rows are in the main results too: they are written, and not shown twice."""


class Chapter:
    """One sampling, with what its tables are made of."""

    def __init__(self, results: Results) -> None:
        self.results = results

    @cached_property
    def rows(self) -> Assembled:
        return assemble(self.results)

    @cached_property
    def frontier(self) -> Frontier:
        return frontier_of(self.results, {key_of(one): one for one in self.results.quality.values()})


@dataclass(frozen=True, slots=True)
class Everything:
    """What the report opens with."""

    said: tuple[str, ...]
    tables: tuple[tables.Table, ...]
    series: Sequence[Series]
    options: Sequence[Way]
    found: Overview | None


def publish(results: Results, folder: Path) -> Path:
    """Write everything; the path of the report."""
    arms = [Chapter(results), *(Chapter(one) for one in results.others)]
    links = {arm.results.name: f"{folder_name(arm.results.name)}/report.html" for arm in arms[1:]}
    for arm in arms[1:]:
        _write(arm, _opening([arm]), folder / folder_name(arm.results.name), {})
    return _write(arms[0], _opening(arms), folder, links)


def folder_name(sampling: str) -> str:
    """
    >>> folder_name("T=0.7 + greedy,beam:4")
    'T-0.7-greedy-beam-4'
    """
    return re.sub(r"[^\w.]+", "-", sampling).strip("-.") or "sampling"


def _opening(arms: Sequence[Chapter]) -> Everything:
    first = replace(arms[0].results, others=tuple(arm.results for arm in arms[1:]))
    frontiers = [arm.frontier for arm in arms]
    options = options_of(first, frontiers, shown_windows(first))
    found = overview(options, arms[0].rows.metrics[1:], first.study)
    metrics = arms[0].rows.metrics[1:]
    proven = guaranteed.proofs([arm.results for arm in arms], options, metrics)
    said = (*advice.stop_reason(found), *advice.sentences(found), *guaranteed.sentences(proven))
    shown: tuple[tables.Table, ...] = ()
    if found:
        shown = advice.choices_table(found), guaranteed.table(proven, metrics), advice.options_table(found)
    return Everything(said, shown, series_of(first, frontiers), options, found)


def _write(arm: Chapter, opening: Everything, folder: Path, links: dict[str, str]) -> Path:
    results, rows, frontier = arm.results, arm.rows, arm.frontier
    found = _tables(results, rows, frontier, opening)
    curves = frontier_tables.curves(frontier, _headings(results))  # to compute with, and too long to read
    for table in (*opening.tables, *found, curves):
        tables.write(table, folder / "tables")
    first, pictures = [], []
    if opening.found is not None:
        metric = opening.found.judged
        figure = quality_against_all_costs(opening.series, opening.options, metric)
        first.append(_picture("overview", f"{metric.heading} against cost, of everything", figure, folder))
    for name, title, figure in all_figures(results, rows, frontier, _baseline_rows(results, opening)):
        pictures.append(_picture(name, title, figure, folder))
    sentences = facts.sentences(_facts(results, rows, frontier))
    page = folder / "report.html"
    shown = [table for table in found if table.name not in FILES_ONLY]
    content = _report(results, shown, pictures, sentences)
    report.write(replace(content, opening=_opened(opening, first), links=links), page)
    text = [f"# {results.study.title}", "", "## What to use", "", *(f"- {said}" for said in opening.said)]
    text += ["", "## What was found", "", *(f"- {said}" for said in sentences)]
    for table in (*opening.tables, *shown):
        text += ["", tables.markdown(table)]
    (folder / "results.md").write_text("\n".join(text) + "\n", "utf-8")
    return page


def _picture(name: str, title: str, figure: Any, folder: Path) -> report.Picture:
    saved = {path.suffix: path for path in drawing.save(figure, folder / "figures", name)}
    return report.Picture(name, title, saved[".svg"].read_text("utf-8"))


def _opened(opening: Everything, pictures: Sequence[report.Picture]) -> report.Advised:
    return report.Advised(opening.said, opening.tables, pictures)


def _headings(results: Results) -> dict[str, str]:
    return {key_of(quality): quality.metric for quality in results.quality.values()}


def _tables(results: Results, rows: Assembled, frontier: Frontier, opening: Everything) -> list[tables.Table]:
    risks, splits = _headings(results), results.study.rules.splits
    baselines = _baseline_rows(results, opening)
    found = [
        paper_tables.main_results([*baselines, *rows.main], rows.metrics),
        paper_tables.window_sweep(rows.windows, rows.metrics),
        paper_tables.alpha_ablation(rows.alphas, rows.metrics),
        paper_tables.step_by_window(rows.mean_sizes),
        paper_tables.prr(rows.prr, {"proxy": "score at stopping", **risks}),
        paper_tables.runtime(rows.runtimes),
    ]
    if frontier.costs:
        found.insert(1, frontier_tables.equal_cost(frontier, risks, splits))
    if frontier.quits:
        found.insert(2, frontier_tables.against_quit(frontier, risks, splits))
    if by_chrf := [row for row in rows.main if row.reranker == "mbr:chrf"]:
        found.append(paper_tables.chrf_utility([*baselines, *by_chrf], rows.metrics))
    notes = _baseline_notes(rows, opening)
    noted = [replace(one, notes=(*one.notes, *notes)) if one.name in NOTED else one for one in found]
    return [_with_live_note(results, table) for table in noted]


NOTED = frozenset(("window_sweep", "alpha", "beyond_cost", "beyond_quit"))
"""Tables of rules that have no row for what reranks nothing: a note says what that is worth."""


def _alone(results: Results, opening: Everything) -> list[Way]:
    """Greedy, beam searches and one sample, if the first are known."""
    found = [one for one in opening.options if one.is_baseline or (one.sampling == results.name and not one.reranker)]
    return found if any(one.is_baseline for one in found) else []


def _baseline_rows(results: Results, opening: Everything) -> list[RuleRow]:
    found = []
    for one in _alone(results, opening):
        against = _against(opening, one)
        scores = {name: Score(float(of.mean()), greedy=against.get(name)) for name, of in one.quality.items()}
        found.append(RuleRow("", one.rule, one.cost, float("nan"), scores, dataset=results.test_set.name))
    return found


def _against(opening: Everything, option: Way) -> Mapping[str, Comparison]:
    """Its comparisons with greedy."""
    found = opening.found
    places = [at for at, one in enumerate(found.options) if one is option] if found else []
    return found.against[places[0]] if found and places else {}


def _baseline_notes(rows: Assembled, opening: Everything) -> tuple[str, ...]:
    if opening.found is None or not any(one.is_baseline for one in opening.options):
        return ()
    metric = opening.found.judged
    column = tables.Column("", "", metric.decimals)
    told = [one for one in opening.options if one.in_table and (one.is_baseline or one.rule.startswith("all "))]
    values = [f"{one.name} {column.text(float(one.quality[metric.name].mean()))}" for one in told]
    return (f"For comparison, {metric.heading}: {'; '.join(values)}.",)


def _with_live_note(results: Results, table: tables.Table) -> tables.Table:
    """Say so if only some segments were run live."""
    count = min((len(one.sizes) for own in results.live.values() for one in own), default=len(results.pools))
    if count == len(results.pools) or not any(column.basis == "live" for column in table.columns):
        return table
    note = f"Live: of the first {count} of {len(results.pools)} segments."
    if table.name == "runtime":
        note = f"All seconds here are of the first {count} of {len(results.pools)} segments, which were run live."
    return replace(table, notes=(*table.notes, note))


def _facts(results: Results, rows: Assembled, frontier: Frontier) -> list[facts.Fact]:
    study = results.study
    windows = shown_windows(results)
    told = [f"QUIT w={w}" for w in windows]
    told += [rule.name for own in results.replays.values() for rule in own.beyond]
    found: list[facts.Fact] = [
        facts.Pools(len(results.pools), study.model.budget, _source(results)),
        *facts.facts(rows.main, rows.metrics, budget=study.model.budget, rules=told),
        *frontier_facts.facts(frontier, _headings(results), study.rules.splits),
    ]
    metric = judged(rows)
    ranked = [one for one in rows.prr if one.w in windows and one.risk == metric.name]
    return [*found, *agreements(results), *(facts.RiskRanking(one, metric.heading) for one in ranked)]


def _source(results: Results) -> str:
    """Where samples are from; of a file, its name."""
    model = results.study.model
    source = PurePath(model.pools).name if model.pools is not None else model.name
    return f"{source} ({results.name})" if results.name not in ("", source) else source


def _report(
    results: Results, found: list[tables.Table], pictures: list[report.Picture], sentences: tuple[str, ...]
) -> report.StudyReport:
    study = results.study
    signatures = {spec: one.signature for spec, one in results.trajectories.items()}
    signatures |= {quality.metric: quality.signature for quality in results.quality.values()}
    settings = {
        name: {key: str(value) for key, value in group.items()}
        for name, group in asdict(study).items()
        if isinstance(group, dict)
    }
    settings |= {f"samplings {place}": given for place, given in enumerate(_given(study), start=1)}
    rules = [rule for own in results.replays.values() for rule in (own.unaccelerated, *own.windows, *own.beyond)]
    views = segment_views(
        [pool.segment.source for pool in results.pools],
        list(zip(*results.test_set.references, strict=True)) or [()] * len(results.pools),
        [[one.text for one in pool.candidates] for pool in results.pools],
        list(results.trajectories.values()),
        rules,
        list(results.quality.values()),
        k=study.rules.k,
        anchors=[[(one.text, one.origin) for one in pool.anchors] for pool in results.pools],
    )
    return report.StudyReport(
        study.title,
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}, quitmt {__version__}",
        sentences,
        {"signatures": signatures, **settings},
        found,
        pictures,
        views,
        len(results.pools),
    )


def _given(study: Study) -> list[dict[str, str]]:
    return [{key: str(value) for key, value in asdict(one).items() if value is not None} for one in study.samplings]
