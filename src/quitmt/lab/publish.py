"""What a study leaves behind: tables, figures, a report to open in a browser, and a page to read.

OUTPUT/report.html       everything, self-contained
OUTPUT/results.md        the summary and the tables
OUTPUT/tables/           each table as Markdown, LaTeX and CSV
OUTPUT/figures/          each figure as SVG, PDF and PNG
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from quitmt._version import __version__
from quitmt.lab import cost_figures, drawing, facts, figures, paper_tables, replay, report, tables
from quitmt.lab.assemble import Assembled, assemble, key_of
from quitmt.lab.figures import Evolution
from quitmt.lab.pipeline import Results
from quitmt.lab.report_segments import segment_views
from quitmt.lab.rows import UNACCELERATED, Metric

EVOLUTIONS = 6
"""Single segments in the figure of score evolution."""


def publish(results: Results, folder: Path) -> Path:
    """Write everything; the path of the report."""
    rows = assemble(results)
    found = _tables(results, rows)
    for table in found:
        tables.write(table, _made(folder / "tables"))
    pictures = []
    for name, title, figure in _figures(results, rows):
        drawing.save(figure, _made(folder / "figures"), name)
        pictures.append(report.Picture(name, title, drawing.svg(figure)))
    sentences = facts.sentences(_facts(results, rows))
    page = folder / "report.html"
    report.write(_report(results, found, pictures, sentences), page)
    text = [f"# {results.study.title}", "", *(f"- {said}" for said in sentences)]
    for table in found:
        text += ["", tables.markdown(table)]
    (folder / "results.md").write_text("\n".join(text) + "\n", "utf-8")
    return page


def _tables(results: Results, rows: Assembled) -> list[tables.Table]:
    risks = {key_of(quality): quality.metric for quality in results.quality.values()}
    found = [
        paper_tables.main_results(rows.main, rows.metrics),
        paper_tables.window_sweep(rows.windows, rows.metrics),
        paper_tables.alpha_ablation(rows.alphas, rows.metrics),
        paper_tables.step_by_window(rows.mean_sizes),
        paper_tables.prr(rows.prr, {"proxy": "score at stopping", **risks}),
        paper_tables.runtime(rows.runtimes),
    ]
    by_chrf = [row for row in rows.main if row.reranker == "mbr:chrf"]
    return [*found, paper_tables.chrf_utility(by_chrf, rows.metrics)] if by_chrf else found


def _figures(results: Results, rows: Assembled) -> Iterator[tuple[str, str, Any]]:
    study = results.study
    budget = study.model.budget
    stops = {
        spec: {
            int(one.settings["w"]): one.size for one in own.windows if one.settings["w"] in study.rules.alpha_windows
        }
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
        figure = cost_figures.quality_against_cost(_frontiers(results, metric), rows.main, metric)
        yield f"cost-{metric.name}", f"{metric.heading} against cost", figure
    if any(row.estimated or row.live for row in rows.runtimes):
        yield "runtime", "Where the time goes", cost_figures.runtime_breakdown(rows.runtimes)
    yield "alpha", "The threshold", cost_figures.alpha_tradeoff(rows.alphas, judged)


def _judged(rows: Assembled) -> Metric:
    """The first external metric, or the reranker's own score if there is none."""
    return rows.metrics[1] if len(rows.metrics) > 1 else rows.metrics[0]


def _evolutions(results: Results) -> list[Evolution]:
    budget, k = results.study.model.budget, results.study.rules.k
    found = []
    for spec, one in results.trajectories.items():
        shown = [rule for rule in results.replays[spec].windows if rule.settings["w"] in (4, 8, 16)]
        for row in range(min(EVOLUTIONS // len(results.trajectories), len(one.ids))):
            sizes = replay.steps(int(one.sizes[row]), k, budget)
            stops = {rule.name: int(rule.size[row]) for rule in shown}
            found.append(Evolution(one.ids[row], spec, sizes, one.score[row, sizes - 1], stops))
    return found


def _frontiers(results: Results, metric: Metric) -> dict[str, cost_figures.Frontier]:
    """What each fixed size buys."""
    budget = results.study.model.budget
    sizes = np.unique(np.geomspace(1, budget, 64).astype(np.int64))
    quality = next((one for one in results.quality.values() if key_of(one) == metric.name), None)
    found = {}
    for spec, one in results.trajectories.items():
        rules = [replay.fixed(one, int(size), budget) for size in sizes]
        values = [rule.score if quality is None else quality.of(rule) for rule in rules]
        found[spec] = cost_figures.Frontier(sizes, np.array([own.mean() for own in values]))
    return found


def _facts(results: Results, rows: Assembled) -> list[facts.Fact]:
    study = results.study
    told = [f"QUIT w={w}" for w in study.rules.alpha_windows]
    found: list[facts.Fact] = [
        facts.Pools(len(results.pools), study.model.budget, study.model.pools or study.model.name),
        *facts.facts(rows.main, rows.metrics, budget=study.model.budget, rules=told),
    ]
    judged = _judged(rows)
    ranked = [one for one in rows.prr if one.w in study.rules.alpha_windows and one.risk == judged.name]
    return [*found, *(facts.RiskRanking(one, judged.heading) for one in ranked)]


def _report(
    results: Results, found: list[tables.Table], pictures: list[report.Picture], sentences: tuple[str, ...]
) -> report.Report:
    study = results.study
    signatures = {spec: one.signature for spec, one in results.trajectories.items()}
    signatures |= {quality.metric: quality.signature for quality in results.quality.values()}
    settings = {
        name: {key: str(value) for key, value in group.items()}
        for name, group in asdict(study).items()
        if isinstance(group, dict)
    }
    rules = [rule for own in results.replays.values() for rule in (own.unaccelerated, *own.windows)]
    views = segment_views(
        [pool.segment.source for pool in results.pools],
        list(zip(*results.test_set.references, strict=True)) or [()] * len(results.pools),
        [[one.text for one in pool.candidates] for pool in results.pools],
        list(results.trajectories.values()),
        rules,
        list(results.quality.values()),
        k=study.rules.k,
    )
    return report.Report(
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


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
