"""What a study leaves behind: tables, figures, a report to open in a browser, and a page to read.

OUTPUT/report.html       everything, self-contained
OUTPUT/results.md        the summary and the tables
OUTPUT/tables/           each table as Markdown, LaTeX and CSV
OUTPUT/figures/          each figure as SVG, PDF and PNG
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from quitmt._version import __version__
from quitmt.calibrate import drawing
from quitmt.lab.frames import Replayed
from quitmt.lab.replay import rules as replay
from quitmt.lab.replay.frontier import REGRET
from quitmt.lab.report import cost_figures, facts, figures, frontier_facts, frontier_tables, paper_tables, tables
from quitmt.lab.report import page as report
from quitmt.lab.report.assemble import Assembled, assemble, key_of
from quitmt.lab.report.cost_figures import Trace
from quitmt.lab.report.figures import Evolution
from quitmt.lab.report.frontier_rows import Frontier, frontier_of
from quitmt.lab.report.segments import segment_views
from quitmt.lab.results import Results
from quitmt.lab.rows import UNACCELERATED, MetricColumn

EVOLUTIONS = 6
"""Single segments in the figure of score evolution."""


def publish(results: Results, folder: Path) -> Path:
    """Write everything; the path of the report."""
    rows = assemble(results)
    frontier = frontier_of(results, {key_of(one): one for one in results.quality.values()})
    found = _tables(results, rows, frontier)
    curves = frontier_tables.curves(frontier, _headings(results))  # to compute with, and too long to read
    for table in (*found, curves):
        tables.write(table, folder / "tables")
    pictures = []
    for name, title, figure in _figures(results, rows, frontier):
        saved = {path.suffix: path for path in drawing.save(figure, folder / "figures", name)}
        pictures.append(report.Picture(name, title, saved[".svg"].read_text("utf-8")))
    sentences = facts.sentences(_facts(results, rows, frontier))
    page = folder / "report.html"
    report.write(_report(results, found, pictures, sentences), page)
    text = [f"# {results.study.title}", "", *(f"- {said}" for said in sentences)]
    for table in found:
        text += ["", tables.markdown(table)]
    (folder / "results.md").write_text("\n".join(text) + "\n", "utf-8")
    return page


def _headings(results: Results) -> dict[str, str]:
    return {key_of(quality): quality.metric for quality in results.quality.values()}


def _tables(results: Results, rows: Assembled, frontier: Frontier) -> list[tables.Table]:
    risks, splits = _headings(results), results.study.rules.splits
    found = [
        paper_tables.main_results(rows.main, rows.metrics),
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
        found.append(paper_tables.chrf_utility(by_chrf, rows.metrics))
    return [_with_live_note(results, table) for table in found]


def _with_live_note(results: Results, table: tables.Table) -> tables.Table:
    """Say so if only some segments were run live."""
    count = min((len(one.sizes) for own in results.live.values() for one in own), default=len(results.pools))
    if count == len(results.pools) or not any(column.basis == "live" for column in table.columns):
        return table
    note = f"Live: of the first {count} of {len(results.pools)} segments."
    if table.name == "runtime":
        note = f"All seconds here are of the first {count} of {len(results.pools)} segments, which were run live."
    return replace(table, notes=(*table.notes, note))


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether live runs did what replays of the same pools say, segment by segment."""

    reranker: str
    runs: int
    segments: int
    differing: int

    def sentence(self) -> str:
        said = f"{self.reranker}: {self.runs} rules were run live on {self.segments} segments"
        if not self.differing:
            return f"{said} and used the same candidates and chose the same translations as in the replay."
        return (
            f"{said}; in {self.differing} of {self.runs * self.segments} cases the number of candidates or the choice "
            f"was another than in the replay: sampling or scoring is not reproducible here."
        )


def agreements(results: Results) -> list[Agreement]:
    found = []
    for spec, runs in results.live.items():
        own = results.replays[spec]
        replayed = {one.name: one for one in (own.unaccelerated, *own.windows, *own.beyond)}
        differing = 0
        for live in runs:
            rule, count = replayed[live.rule], len(live.sizes)
            same = (rule.size[:count] == live.sizes) & (rule.index[:count] == live.indices)
            differing += int((~same).sum())
        found.append(Agreement(spec, len(runs), len(runs[0].sizes), differing))
    return found


def _shown_windows(results: Results) -> tuple[int, ...]:
    """Those that figures and sentences are about: the ones of the other sweeps, if they are replayed, else all."""
    rules = results.study.rules
    return tuple(w for w in rules.windows if w in rules.alpha_windows) or rules.windows


def _figures(results: Results, rows: Assembled, frontier: Frontier) -> Iterator[tuple[str, str, Any]]:
    study = results.study
    budget = study.model.budget
    shown = _shown_windows(results)
    stops = {
        spec: {int(one.settings["w"]): one.size for one in own.windows if one.settings["w"] in shown}
        for spec, own in results.replays.items()
    }
    judged = _judged(rows)
    yield "stopping", "Where segments stop", figures.stopping_distribution(stops, budget=budget)
    base = [row for row in rows.main if row.rule == UNACCELERATED]
    yield "windows", "The window", figures.window_sweep(rows.windows, base, rows.metrics, budget=budget)
    yield "evolution", "The best score of single segments", figures.score_evolution(_evolutions(results))
    middle = study.rules.alpha_windows[len(study.rules.alpha_windows) // 2]
    steps = figures.step_sizes(rows.steps, judged, w=middle, product=study.rules.k * middle)
    yield "steps", "The step", steps
    for metric in rows.metrics:
        figure = cost_figures.quality_against_cost(_bought(frontier, metric), rows.main, metric)
        yield f"cost-{_file_name(metric.name)}", f"{metric.heading} against cost", figure
    yield "regret", "Regret against cost", cost_figures.regret_against_cost(_traces(results, frontier))
    if any(row.estimated or row.live for row in rows.runtimes):
        yield "runtime", "Where the time goes", cost_figures.runtime_breakdown(rows.runtimes)
    yield "alpha", "The threshold", cost_figures.alpha_tradeoff(rows.alphas, judged)


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "+-_." else "-" for c in name)


def _judged(rows: Assembled) -> MetricColumn:
    """The first external metric, or the reranker's own score if there is none."""
    return rows.metrics[1] if len(rows.metrics) > 1 else rows.metrics[0]


def _evolutions(results: Results) -> list[Evolution]:
    budget, k = results.study.model.budget, results.study.rules.k
    found, windows = [], _shown_windows(results)
    for spec, one in results.trajectories.items():
        shown = [rule for rule in results.replays[spec].windows if rule.settings["w"] in windows]
        for row in range(min(max(1, EVOLUTIONS // len(results.trajectories)), len(one.ids))):
            sizes = replay.steps(int(one.sizes[row]), k, budget)
            stops = {rule.name: int(rule.size[row]) for rule in shown}
            found.append(Evolution(one.ids[row], spec, sizes, one.score[row, sizes - 1], stops))
    return found


def _bought(frontier: Frontier, metric: MetricColumn) -> dict[str, cost_figures.CostCurves]:
    """What each fixed size buys, and each rule at every threshold."""
    found = {}
    for spec, (fixed, *others) in frontier.lines.items():
        rules = {line.rule: (line.size, line.quality[metric.name]) for line in others}
        few = fixed.places(64)
        found[spec] = cost_figures.CostCurves(fixed.size[few], fixed.quality[metric.name][few], rules)
    return found


def _traces(results: Results, frontier: Frontier) -> dict[str, list[Trace]]:
    """Fixed sizes, rules at every threshold, and QUIT by window and by α."""
    found = {}
    for spec, lines in frontier.lines.items():
        own, rules = results.replays[spec], results.study.rules
        traces = [Trace(line.rule, line.size, line.lost[REGRET]) for line in lines]
        series = {f"QUIT, all w, α={rules.alpha:g}": list(own.windows)}
        for w in rules.alpha_windows:
            series[f"QUIT w={w}, all α"] = [one for one in own.alphas if one.settings["w"] == w]
        traces += [_trace(name, quits, own.unaccelerated) for name, quits in series.items()]
        found[spec] = traces
    return found


def _trace(name: str, rules: list[Replayed], whole: Replayed) -> Trace:
    points = sorted((one.mean_size, float((whole.score - one.score).mean())) for one in rules)
    return Trace(name, *np.array(points).T)


def _facts(results: Results, rows: Assembled, frontier: Frontier) -> list[facts.Fact]:
    study = results.study
    windows = _shown_windows(results)
    told = [f"QUIT w={w}" for w in windows]
    told += [rule.name for own in results.replays.values() for rule in own.beyond]
    found: list[facts.Fact] = [
        facts.Pools(len(results.pools), study.model.budget, study.model.pools or study.model.name),
        *facts.facts(rows.main, rows.metrics, budget=study.model.budget, rules=told),
        *frontier_facts.facts(frontier, _headings(results), study.rules.splits),
    ]
    judged = _judged(rows)
    ranked = [one for one in rows.prr if one.w in windows and one.risk == judged.name]
    return [*found, *agreements(results), *(facts.RiskRanking(one, judged.heading) for one in ranked)]


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
    rules = [rule for own in results.replays.values() for rule in (own.unaccelerated, *own.windows, *own.beyond)]
    views = segment_views(
        [pool.segment.source for pool in results.pools],
        list(zip(*results.test_set.references, strict=True)) or [()] * len(results.pools),
        [[one.text for one in pool.candidates] for pool in results.pools],
        list(results.trajectories.values()),
        rules,
        list(results.quality.values()),
        k=study.rules.k,
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
