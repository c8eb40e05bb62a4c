"""The files of a report: tables, figures, a page to open in a browser, and a text.

OUTPUT/report.html       everything, self-contained
OUTPUT/results.md        what to use, the findings and the tables
OUTPUT/tables/           each table as Markdown, LaTeX and CSV
OUTPUT/figures/          each figure as SVG, PDF and PNG
OUTPUT/SAMPLING/         the same for each further sampling by itself

The report opens with what to use, among all samplings. Its other tables and figures are of the sampling of ``[model]``.
To add a table, write a function that makes it (``tables``) and add an entry to ``TABLES``.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from quitmt._version import __version__
from quitmt.lab import drawing
from quitmt.lab.report import advice, cost_figures, figures, formats, guaranteed, page, tables, text
from quitmt.lab.report.advice import Overview, overview
from quitmt.lab.report.assemble import Assembled, assemble, key_of
from quitmt.lab.report.configurations import Configuration, Series, configurations_of, series_of
from quitmt.lab.report.formats import Table
from quitmt.lab.report.frontier import Frontier, frontier_of
from quitmt.lab.report.page import Page, Picture, Section
from quitmt.lab.results import Results
from quitmt.lab.rows import UNACCELERATED, RuleRow, Score
from quitmt.lab.study import Study


class Chapter:
    """One sampling, with everything that its tables and figures are made of."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.study = results.study
        self.headings = {key_of(one): one.metric for one in results.quality.values()}

    @cached_property
    def rows(self) -> Assembled:
        return assemble(self.results)

    @cached_property
    def frontier(self) -> Frontier:
        return frontier_of(self.results, {key_of(one): one for one in self.results.quality.values()})


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to use, among some samplings."""

    sentences: tuple[str, ...]
    tables: tuple[Table, ...]
    series: Sequence[Series]
    options: Sequence[Configuration]
    found: Overview | None

    def baseline_rows(self, results: Results) -> list[RuleRow]:
        """Greedy, beam searches and one sample, if greedy or a beam search is known."""
        alone = [one for one in self.options if one.is_baseline or (one.sampling == results.name and not one.reranker)]
        if not any(one.is_baseline for one in alone):
            return []
        compared = {id(one): found for one, found in zip(self.found.options, self.found.against, strict=True)} \
            if self.found else {}  # fmt: skip
        rows = []
        for one in alone:
            against = compared.get(id(one), {})
            scores = {name: Score(float(of.mean()), greedy=against.get(name)) for name, of in one.quality.items()}
            rows.append(RuleRow("", one.rule, one.cost, float("nan"), scores, dataset=results.test_set.name))
        return rows

    def baseline_notes(self) -> tuple[str, ...]:
        if self.found is None or not any(one.is_baseline for one in self.options):
            return ()
        metric = self.found.judged
        shown = [one for one in self.options if one.in_table and (one.is_baseline or one.rule.startswith("all "))]
        values = [f"{one.name} {text.number(float(one.quality[metric.name].mean()), metric)}" for one in shown]
        return (f"For comparison, {metric.heading}: {'; '.join(values)}.",)


@dataclass(frozen=True, slots=True)
class Entry:
    """A table of the report."""

    make: Callable[[Chapter, Sequence[RuleRow]], Table | None]
    """From a sampling and the rows of its baselines; None if the study has nothing for the table."""
    shown: bool = True
    """Whether the page and the text show it; False for rows that are in the main results too, and for long tables."""
    noted: bool = False
    """Whether a note compares with baselines, for a table that has no rows for them."""


TABLES = (
    Entry(lambda one, baselines: tables.main_results([*baselines, *one.rows.main], one.rows.metrics)),
    Entry(lambda one, _: tables.equal_cost(one.frontier, one.headings, one.study.rules.splits), noted=True),
    Entry(lambda one, _: tables.against_quit(one.frontier, one.headings, one.study.rules.splits), noted=True),
    Entry(lambda one, _: tables.window_sweep(one.rows.windows, one.rows.metrics), shown=False, noted=True),
    Entry(lambda one, _: tables.alpha_ablation(one.rows.alphas, one.rows.metrics), noted=True),
    Entry(lambda one, _: tables.step_by_window(one.rows.mean_sizes)),
    Entry(lambda one, _: tables.prr(one.rows.prr, {"proxy": "score at stopping", **one.headings})),
    Entry(lambda one, _: tables.runtime(one.rows.runtimes)),
    Entry(lambda one, baselines: tables.chrf_utility(baselines, one.rows.main, one.rows.metrics), shown=False),
    Entry(lambda one, _: tables.curves(one.frontier, one.headings), shown=False),
)


def figures_of(one: Chapter, baselines: Sequence[RuleRow]) -> Iterator[tuple[str, str, Any]]:
    """The name, title and drawing of every figure of one sampling."""
    study, rows, metric = one.study, one.rows, one.rows.judged
    budget, windows = study.model.budget, study.shown_windows()
    stops = {
        spec: {int(rule.settings["w"]): rule.size for rule in own.windows if rule.settings["w"] in windows}
        for spec, own in one.results.replays.items()
    }
    yield "stopping", "Where segments stop", figures.stopping_distribution(stops, budget=budget)
    base = [row for row in rows.main if row.rule == UNACCELERATED]
    sweep = figures.window_sweep(rows.windows, base, rows.metrics, budget=budget, alone=baselines)
    yield "windows", "The window", sweep
    yield "evolution", "The best score of single segments", figures.score_evolution(figures.evolutions(one.results))
    middle = study.rules.alpha_windows[len(study.rules.alpha_windows) // 2]
    product = study.rules.k * middle
    yield "steps", "The step", figures.step_sizes(rows.steps, metric, w=middle, product=product, alone=baselines)
    for each in rows.metrics:
        figure = cost_figures.quality_against_cost(one.frontier.lines, rows.main, each, baselines)
        yield "cost-" + re.sub(r"[^\w+.-]", "-", each.name), f"{each.heading} against cost", figure
    regret = cost_figures.regret_against_cost(cost_figures.traces(one.results, one.frontier))
    yield "regret", "Regret against cost", regret
    if any(row.estimated or row.live for row in rows.runtimes):
        yield "runtime", "Where the time goes", figures.runtime_breakdown(rows.runtimes)
    yield "alpha", "The threshold", figures.alpha_tradeoff(rows.alphas, metric, baselines)


def publish(results: Results, folder: Path) -> Path:
    """Write everything; returns the path of the report."""
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


def _opening(arms: Sequence[Chapter]) -> Recommendation:
    first = replace(arms[0].results, others=tuple(arm.results for arm in arms[1:]))
    frontiers = [arm.frontier for arm in arms]
    options = configurations_of(first, frontiers, first.study.shown_windows())
    metrics = arms[0].rows.metrics[1:]
    found = overview(options, metrics, first.study)
    proven = guaranteed.proofs([arm.results for arm in arms], options, metrics)
    shown: tuple[Table, ...] = ()
    if found:
        shown = advice.choices_table(found), guaranteed.table(proven, metrics), advice.options_table(found)
    said = (*advice.sentences(found), *guaranteed.sentences(proven))
    return Recommendation(said, shown, series_of(first, frontiers), options, found)


def _write(arm: Chapter, opening: Recommendation, folder: Path, links: dict[str, str]) -> Path:
    results, baselines = arm.results, opening.baseline_rows(arm.results)
    shown = []
    for table in opening.tables:
        formats.write(table, folder / "tables")
    for entry in TABLES:
        if (made := entry.make(arm, baselines)) is not None:
            notes = (*made.notes, *(opening.baseline_notes() if entry.noted else ()), *_live_notes(results, made))
            table = replace(made, notes=notes)
            formats.write(table, folder / "tables")
            shown += [table] if entry.shown else []
    first = []
    if opening.found is not None:
        metric = opening.found.judged
        figure = cost_figures.quality_against_all_costs(opening.series, opening.options, metric)
        first.append(_picture("overview", f"{metric.heading} against cost, of all options", figure, folder))
    pictures = [_picture(name, title, figure, folder) for name, title, figure in figures_of(arm, baselines)]
    said = tuple(_findings(arm))
    found, use = Section(said, shown, pictures), Section(opening.sentences, opening.tables, first)
    report = folder / "report.html"
    page.write(Page(results.study.title, _now(), _machine(), found, _settings(results), results, use, links), report)
    lines = [f"# {results.study.title}", "", "## What to use", "", *(f"- {one}" for one in opening.sentences)]
    lines += ["", "## What was found", "", *(f"- {one}" for one in said)]
    for table in (*opening.tables, *shown):
        lines += ["", formats.markdown(table)]
    (folder / "results.md").write_text("\n".join(lines) + "\n", "utf-8")
    return report


def _picture(name: str, title: str, figure: Any, folder: Path) -> Picture:
    saved = {path.suffix: path for path in drawing.save(figure, folder / "figures", name)}
    return Picture(name, title, saved[".svg"].read_text("utf-8"))


def _live_notes(results: Results, table: Table) -> list[str]:
    """A note if only some segments were run live."""
    count = min((len(one.sizes) for own in results.live.values() for one in own), default=len(results.pools))
    if count == len(results.pools) or not any(column.basis == "live" for column in table.columns):
        return []
    if table.name == "runtime":
        return [f"All seconds here are of the first {count} of {len(results.pools)} segments, which were run live."]
    return [f"Live: of the first {count} of {len(results.pools)} segments."]


def _findings(arm: Chapter) -> Iterator[str]:
    results, rows, study = arm.results, arm.rows, arm.study
    rules = [f"QUIT w={w}" for w in study.shown_windows()]
    rules += [rule.name for own in results.replays.values() for rule in own.beyond]
    yield text.pools(len(results.pools), study.model.budget, _source(results))
    yield from text.about_rules(rows.main, rows.metrics, budget=study.model.budget, rules=rules)
    yield from text.agreements(results)


def _source(results: Results) -> str:
    """The source of the samples; for a file, its name."""
    model = results.study.model
    source = PurePath(model.pools).name if model.pools is not None else model.name
    return f"{source} ({results.name})" if results.name not in ("", source) else source


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _machine() -> str:
    return f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}, quitmt {__version__}"


def _settings(results: Results) -> dict[str, dict[str, str]]:
    """Everything that produced the numbers, in groups."""
    study: Study = results.study
    signatures = {spec: one.signature for spec, one in results.trajectories.items()}
    signatures |= {quality.metric: quality.signature for quality in results.quality.values()}
    found = {"signatures": signatures}
    for name, group in asdict(study).items():
        if isinstance(group, dict):
            found[name] = {key: str(value) for key, value in group.items()}
    for place, one in enumerate(study.samplings, start=1):
        found[f"samplings {place}"] = {key: str(value) for key, value in asdict(one).items() if value is not None}
    return found
