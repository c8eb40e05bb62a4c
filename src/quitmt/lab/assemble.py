"""From results to rows: every comparison and every speedup that a table, a figure or a sentence shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quitmt.evaluate.equivalence import Comparison, compare
from quitmt.lab import paper, runtime
from quitmt.lab.frames import Floats, Quality, Replayed, Seconds
from quitmt.lab.pipeline import Results
from quitmt.lab.prr import window_prr
from quitmt.lab.rows import MeanSize, Metric, Printed, Prr, RuleRow, RuntimeRow, Score
from quitmt.lab.significance import pair_of, tally

RERANK = "rerank"
PAPER_NAMES = {"chrF++": "chrfpp", "xCOMET": "xcomet", "MetricX": "metricx"}
"""Metrics that the paper has as well, by its columns."""


@dataclass(frozen=True, slots=True)
class Assembled:
    metrics: tuple[Metric, ...]
    main: tuple[RuleRow, ...]
    windows: tuple[RuleRow, ...]
    alphas: tuple[RuleRow, ...]
    steps: tuple[RuleRow, ...]
    mean_sizes: tuple[MeanSize, ...]
    prr: tuple[Prr, ...]
    runtimes: tuple[RuntimeRow, ...]


def assemble(results: Results) -> Assembled:
    judges = [Judge(RERANK, "Rerank score", None)]
    judges += [Judge(key_of(quality), quality.metric, quality) for quality in results.quality.values()]
    metrics = tuple(judge.shown(results) for judge in judges)
    main, windows, alphas, steps = [], [], [], []
    for spec in results.trajectories:
        rows = Rows(results, spec, judges)
        main += rows.main()
        windows += rows.windows()
        alphas += rows.alphas()
        steps += rows.steps()
    return Assembled(
        metrics,
        tuple(main),
        tuple(windows),
        tuple(alphas),
        tuple(steps),
        tuple(_mean_sizes(results)),
        tuple(_prr(results)),
        tuple(_runtimes(results)),
    )


@dataclass(frozen=True, slots=True)
class Judge:
    """A metric, or the reranker's own score on the whole pool (``quality`` is None)."""

    name: str
    heading: str
    quality: Quality | None

    def values(self, replayed: Replayed) -> Floats:
        return replayed.score if self.quality is None else self.quality.of(replayed)

    def shown(self, results: Results) -> Metric:
        lower = self.quality is not None and self.quality.lower_is_better
        one = next(iter(results.replays.values())).unaccelerated
        large = abs(float(np.nanmean(self.values(one)))) >= 10
        return Metric(self.name, self.heading, 2 if large else 4, lower)


class Rows:
    """The rows of one reranker."""

    def __init__(self, results: Results, spec: str, judges: Sequence[Judge]) -> None:
        self._results, self._spec, self._judges = results, spec, judges
        self._replays = results.replays[spec]
        self._trajectories = results.trajectories[spec]
        self._live = {one.rule: one.seconds for one in results.live.get(spec, [])}

    def main(self) -> list[RuleRow]:
        found = [self._row(self._replays.unaccelerated)]
        found += [self._row(one.replayed, rerank=one.rerank_seconds) for one in self._replays.accelerated]
        for window, fixed in zip(self._replays.windows, self._replays.fixed, strict=True):
            found += [self._row(window, fixed=fixed), self._row(fixed)]
        return found

    def windows(self) -> list[RuleRow]:
        pairs = zip(self._replays.windows, self._replays.fixed, strict=True)
        return [self._row(window, fixed=fixed) for window, fixed in pairs]

    def alphas(self) -> list[RuleRow]:
        usual = {
            one.settings["w"]: one
            for one in self._replays.alphas
            if np.isclose(one.settings["alpha"], self._results.study.rules.alpha)
        }
        found = []
        for one in self._replays.alphas:
            base = usual.get(one.settings["w"])
            counted = None
            if base is not None and base is not one:
                pairs = [pair_of(base, one, judge.quality) for judge in self._judges if judge.quality]
                count = tally([pairs], resamples=self._results.study.evaluate.resamples)
                counted = count.worse, count.better
            found.append(self._row(one, worse_better=counted))
        return found

    def steps(self) -> list[RuleRow]:
        return [self._row(one) for one in self._replays.steps]

    def _row(
        self,
        replayed: Replayed,
        *,
        fixed: Replayed | None = None,
        rerank: float | None = None,
        worse_better: tuple[int, int] | None = None,
    ) -> RuleRow:
        base = self._replays.unaccelerated
        scores = {}
        for judge in self._judges:
            value = float(np.mean(judge.values(replayed)))
            to_base = self._compared(base, replayed, judge) if replayed is not base else None
            to_fixed = self._compared(fixed, replayed, judge) if fixed is not None else None
            scores[judge.name] = Score(value, to_base, to_fixed)
        seconds = runtime.estimated(self._trajectories, replayed)
        if rerank is not None:
            seconds = Seconds(seconds.generate, rerank, live=False)
        whole = runtime.estimated(self._trajectories, base)
        live = self._live.get(replayed.name)
        return RuleRow.of(
            replayed,
            scores,
            estimated=runtime.speedup(whole, seconds),
            live=runtime.speedup(self._live[base.name], live) if live else None,
            worse_better=worse_better,
            paper=_printed(self._results, self._spec, replayed),
            dataset=self._results.test_set.name,
        )

    def _compared(self, base: Replayed, other: Replayed, judge: Judge) -> Comparison:
        settings = self._results.study.evaluate
        pair = pair_of(base, other, judge.quality)
        return compare([pair], resamples=settings.resamples, rng=settings.seed)[0]


def key_of(quality: Quality) -> str:
    return PAPER_NAMES.get(quality.metric, quality.metric.lower())


def _mean_sizes(results: Results) -> list[MeanSize]:
    found = []
    for spec, replays in results.replays.items():
        for one in replays.steps:
            k, w = int(one.settings["k"]), int(one.settings["w"])
            printed = paper.cell("mean_n_by_k", "mean_n", k=k, w=w, reranker=_kind(spec)) if _beside(results) else None
            found.append(MeanSize(spec, k, w, one.mean_size, printed.value if printed else None))
    return found


def _prr(results: Results) -> list[Prr]:
    found = []
    rules, budget, beside = results.study.rules, results.study.model.budget, results.study.paper
    for spec, one in results.trajectories.items():
        for w in rules.windows:
            judged = [("proxy", None), *((key_of(quality), quality) for quality in results.quality.values())]
            for risk, quality in judged:
                printed = None
                if _beside(results):
                    keys = {"dataset": beside.dataset or "", "model": beside.model or ""}
                    printed = paper.cell("prr", "prr", w=w, reranker=_kind(spec), risk=risk, **keys)
                value = window_prr(one, quality, rules.k, w, budget)
                found.append(Prr(spec, w, risk, value, printed.value if printed else None))
    return found


def _runtimes(results: Results) -> list[RuntimeRow]:
    found = []
    for spec, replays in results.replays.items():
        trajectories = results.trajectories[spec]
        live = {one.rule: one.seconds for one in results.live.get(spec, [])}
        measured = {one.replayed.name: one.rerank_seconds for one in replays.accelerated}
        faster = [one.replayed for one in replays.accelerated]
        for one in (replays.unaccelerated, *faster, *replays.windows):
            seconds = runtime.estimated(trajectories, one)
            if one.name in measured:
                seconds = Seconds(seconds.generate, measured[one.name], live=False)
            known = seconds if np.isfinite(seconds.total) else None
            found.append(RuntimeRow(spec, one.name, known, live.get(one.name)))
    return found


def _beside(results: Results) -> bool:
    return results.study.paper.dataset is not None and results.study.paper.model is not None


def _kind(spec: str) -> str:
    return "MBR" if spec.startswith("mbr:") else "QE"


def _printed(results: Results, spec: str, replayed: Replayed) -> dict[str, Printed]:
    """The paper's cells for the same rule: its chrF table for chrF, its main one for other rerankers."""
    if not _beside(results):
        return {}
    keys: dict[str, str] = {"dataset": results.study.paper.dataset or "", "model": results.study.paper.model or ""}
    name = "results"
    if spec == "mbr:chrf":
        name, keys["window"] = "chrf_utility", replayed.name.removeprefix("QUIT ")
    else:
        keys |= {"reranker": _kind(spec), "acceleration": replayed.name}
    columns = {"mean_n": "mean_n", "speedup_live": "speedup", RERANK: RERANK}
    columns |= {column: column for column in PAPER_NAMES.values()}
    found = {}
    for shown, column in columns.items():
        if column in paper.table(name)[0] and (cell := paper.cell(name, column, **keys)):
            found[shown] = Printed(cell.value, cell.mark)
    return found
