"""From results to rows: every comparison and every speedup that a table, a figure or a sentence shows.

Invariants:
- All comparisons with one reranker, by all metrics, use the same resamples, which are drawn once.
- Estimated speedups are of all segments, live ones of the segments that were run live. Where both kinds of seconds are
  in one table, both are of the segments that were run live.
- The paper's value is shown only beside the same cell: the same rule with the same step, threshold and budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from quitmt.evaluate.equivalence import Comparison, Pair, compare
from quitmt.lab.frames import Floats, QualityScores, Replayed, RuleSeconds, Trajectories
from quitmt.lab.paper import values as paper
from quitmt.lab.replay import runtime
from quitmt.lab.replay.prr import window_prr
from quitmt.lab.results import Results
from quitmt.lab.rows import ONE_SAMPLE, MeanSize, MetricColumn, Printed, Prr, RuleRow, RuntimeRow, Score, direction

RERANK = "rerank"
GREEDY = "greedy"


@dataclass(frozen=True, slots=True)
class Assembled:
    metrics: tuple[MetricColumn, ...]
    main: tuple[RuleRow, ...]
    windows: tuple[RuleRow, ...]
    alphas: tuple[RuleRow, ...]
    steps: tuple[RuleRow, ...]
    mean_sizes: tuple[MeanSize, ...]
    prr: tuple[Prr, ...]
    runtimes: tuple[RuntimeRow, ...]

    @property
    def judged(self) -> MetricColumn:
        """The first external metric, or the reranker's own score if there is none."""
        return self.metrics[min(1, len(self.metrics) - 1)]


def assemble(results: Results) -> Assembled:
    judges = [Criterion(RERANK, "Rerank score", None)]
    judges += [Criterion(key_of(quality), quality.metric, quality) for quality in results.quality.values()]
    by_reranker = [RerankerRows(results, spec, judges) for spec in results.trajectories]
    return Assembled(
        tuple(judge.shown(results) for judge in judges),
        tuple(row for one in by_reranker for row in one.main()),
        tuple(row for one in by_reranker for row in one.windows()),
        tuple(row for one in by_reranker for row in one.alphas()),
        tuple(row for one in by_reranker for row in one.steps()),
        tuple(_mean_sizes(results)),
        tuple(_prr(results)),
        tuple(_runtimes(results)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """A metric, or the reranker's own score on the whole pool (``quality`` is None)."""

    name: str
    heading: str
    quality: QualityScores | None

    def values(self, replayed: Replayed) -> Floats:
        return scores_of(replayed, self.quality)

    @property
    def lower_is_better(self) -> bool:
        return self.quality is not None and self.quality.lower_is_better

    def shown(self, results: Results) -> MetricColumn:
        one = next(iter(results.replays.values())).unaccelerated
        large = abs(float(np.nanmean(self.values(one)))) >= 10
        return MetricColumn(self.name, self.heading, 2 if large else 4, self.lower_is_better)


def pair_of(base: Replayed, other: Replayed, quality: QualityScores | None) -> Pair:
    """Two rules on the same segments by one metric; without one, by the reranker's own score on the whole pool."""
    lower = quality is not None and quality.lower_is_better
    return Pair(scores_of(base, quality), scores_of(other, quality), lower)


def scores_of(replayed: Replayed, quality: QualityScores | None) -> Floats:
    return replayed.score if quality is None else quality.of(replayed)


class RerankerRows:
    """The rows of one reranker."""

    def __init__(self, results: Results, spec: str, judges: Sequence[Criterion]) -> None:
        self._results, self._spec, self._judges = results, spec, judges
        self._replays = results.replays[spec]
        self._trajectories = results.trajectories[spec]
        self._live = {one.rule: one.seconds for one in results.live.get(spec, [])}
        self._usual = {
            one.settings["w"]: one
            for one in self._replays.alphas
            if np.isclose(one.settings["alpha"], results.study.rules.alpha, rtol=1e-9, atol=0)
        }
        """By window: the rule that other thresholds are compared with."""
        self._compared = self._comparisons()

    def main(self) -> list[RuleRow]:
        own = self._replays
        found = [self._row(own.unaccelerated)]
        found += [self._row(one.replayed, rerank=one.rerank_seconds) for one in own.accelerated]
        for rule, fixed in zip((*own.windows, *own.beyond), (*own.fixed, *own.beyond_fixed), strict=True):
            found += [self._row(rule, fixed=fixed), self._row(fixed)]
        return found

    def windows(self) -> list[RuleRow]:
        pairs = zip(self._replays.windows, self._replays.fixed, strict=True)
        return [self._row(window, fixed=fixed) for window, fixed in pairs]

    def alphas(self) -> list[RuleRow]:
        found = []
        for one, fixed in zip(self._replays.alphas, self._replays.alphas_fixed, strict=True):
            beside = paper.alpha(self._results.study, self._spec, one, self._results.quality.values())
            found.append(self._row(one, fixed=fixed, worse_better=self._counts(one), beside=beside))
        return found

    def steps(self) -> list[RuleRow]:
        pairs = zip(self._replays.steps, self._replays.steps_fixed, strict=True)
        return [self._row(one, fixed=fixed, beside={}) for one, fixed in pairs]

    def _counts(self, one: Replayed) -> tuple[int, int] | None:
        """How many external metrics are significantly worse and better than with the usual threshold."""
        base = self._usual.get(one.settings["w"])
        if base is None or base.key == one.key:
            return None
        signs = [
            direction(self._compared[base.key, one.key, judge.name], lower_is_better=judge.lower_is_better)
            for judge in self._judges
            if judge.quality
        ]
        return signs.count(-1), signs.count(1)

    def _comparisons(self) -> dict[tuple[str, str, str], Comparison]:
        """By the keys of two rules and the name of a judge: all that the rows need, on one set of resamples."""
        own = self._replays
        against_base = [*(one.replayed for one in own.accelerated), *own.windows, *own.fixed, *own.alphas, *own.steps]
        against_base += [*own.beyond, *own.beyond_fixed]
        pairs = [(own.unaccelerated, one) for one in against_base]
        pairs += zip(own.fixed, own.windows, strict=True)
        pairs += zip(own.alphas_fixed, own.alphas, strict=True)
        pairs += zip(own.steps_fixed, own.steps, strict=True)
        pairs += zip(own.beyond_fixed, own.beyond, strict=True)
        pairs += [(self._usual[one.settings["w"]], one) for one in own.alphas if one.settings["w"] in self._usual]
        wanted = {(base.key, other.key): (base, other) for base, other in pairs}
        keys = [(*key, judge) for key in wanted for judge in self._judges]
        scored = [pair_of(*wanted[base, other], judge.quality) for base, other, judge in keys]
        against_greedy = self._against_greedy([own.unaccelerated, *against_base, *own.alphas_fixed, *own.steps_fixed])
        keys += [(GREEDY, key, judge) for key, judge in against_greedy]
        scored += against_greedy.values()
        settings = self._results.study.evaluate
        found = compare(scored, resamples=settings.resamples, rng=settings.seed)
        return {(base, other, judge.name): one for (base, other, judge), one in zip(keys, found, strict=True)}

    def _against_greedy(self, rules: Sequence[Replayed]) -> dict[tuple[str, Criterion], Pair]:
        """By the key of a rule and a judge; empty if greedy decoding is not among the baselines."""
        column = next((at for at, one in enumerate(self._results.baselines) if one.name == GREEDY), None)
        if column is None:
            return {}
        greedy = {key_of(self._results.quality[m]): of[:, column] for m, of in self._results.baseline_quality.items()}
        return {
            (rule.key, judge): Pair(greedy[judge.name], judge.values(rule), judge.lower_is_better)
            for rule in rules
            for judge in self._judges
            if judge.name in greedy
        }

    def _row(
        self,
        replayed: Replayed,
        *,
        fixed: Replayed | None = None,
        rerank: Floats | None = None,
        worse_better: tuple[int, int] | None = None,
        beside: dict[str, Printed] | None = None,
    ) -> RuleRow:
        base, scores = self._replays.unaccelerated, {}
        for judge in self._judges:
            to_base = self._compared[base.key, replayed.key, judge.name] if replayed.key != base.key else None
            to_fixed = self._compared[fixed.key, replayed.key, judge.name] if fixed is not None else None
            greedy = self._compared.get((GREEDY, replayed.key, judge.name))
            scores[judge.name] = Score(float(np.mean(judge.values(replayed))), to_base, to_fixed, greedy)
        whole = runtime.estimated(self._trajectories, base)
        run_live = {one.key for one in (base, *self._replays.windows, *self._replays.beyond)}
        live = self._live.get(replayed.name) if replayed.key in run_live else None
        if beside is None:
            beside = paper.rule(self._results.study, self._spec, replayed, self._results.quality.values())
        return RuleRow(
            replayed.reranker,
            replayed.name,
            replayed.mean_size,
            float(replayed.full.mean()),
            scores,
            runtime.speedup(whole, _estimated(self._trajectories, replayed, rerank)),
            runtime.speedup(self._live[base.name], live) if live else None,
            replayed.settings,
            worse_better,
            beside,
            self._results.test_set.name,
        )


def _estimated(trajectories: Trajectories, replayed: Replayed, rerank: Floats | None) -> RuleSeconds:
    """The estimated cost of a rule; the reranking of accelerated MBR was measured."""
    seconds = runtime.estimated(trajectories, replayed)
    return seconds if rerank is None else RuleSeconds(seconds.generate, float(rerank.sum()), live=False)


def key_of(quality: QualityScores) -> str:
    return paper.NAMES.get(quality.metric, quality.metric.lower())


def _mean_sizes(results: Results) -> list[MeanSize]:
    found = []
    for spec, replays in results.replays.items():
        for one in replays.steps:
            k, w = int(one.settings["k"]), int(one.settings["w"])
            found.append(MeanSize(spec, k, w, one.mean_size, paper.mean_size(results.study, spec, k, w)))
    return found


def _prr(results: Results) -> list[Prr]:
    rules, budget = results.study.rules, results.study.model.budget
    judged = [("proxy", None), *((key_of(quality), quality) for quality in results.quality.values())]
    return [
        Prr(spec, w, risk, window_prr(one, quality, rules.k, w, budget), paper.prr(results.study, spec, w, quality))
        for spec, one in results.trajectories.items()
        for w in rules.windows
        for risk, quality in judged
    ]


def _runtimes(results: Results) -> list[RuntimeRow]:
    """Estimated and live seconds, of the same segments."""
    found = _alone(results)
    for spec, replays in results.replays.items():
        live = {one.rule: one for one in results.live.get(spec, [])}
        count = min((len(one.sizes) for one in live.values()), default=len(results.pools))
        few = _first(results.trajectories[spec], count)
        faster = {one.replayed.key: one.rerank_seconds[:count] for one in replays.accelerated}
        rules = (*(one.replayed for one in replays.accelerated), *replays.windows, *replays.beyond)
        for one in (replays.unaccelerated, *rules):
            seconds = _estimated(few, replace(one, size=one.size[:count]), faster.get(one.key))
            known = seconds if np.isfinite(seconds.total) else None
            measured = live[one.name].seconds if one.name in live else None
            found.append(RuntimeRow(spec, one.name, known, measured, paper.seconds(results.study, spec, one)))
    return found


def _alone(results: Results) -> list[RuntimeRow]:
    """Greedy, beam searches and one sample. Greedy and beam searches are measured while they are decoded, so their
    seconds count as live too."""
    sizes = [len(one.sizes) for own in results.live.values() for one in own]
    count = min(sizes, default=len(results.pools))
    found = []
    for baseline in results.baselines:
        seconds = float(baseline.seconds[:count].sum())
        if np.isfinite(seconds):
            live = RuleSeconds(seconds, 0.0, live=True) if sizes else None
            found.append(RuntimeRow("", baseline.name, RuleSeconds(seconds, 0.0, live=False), live))
    one = next(iter(results.trajectories.values()))
    seconds = float((one.generate_seconds / one.sizes)[:count].sum())
    if found and np.isfinite(seconds):
        found.append(RuntimeRow("", ONE_SAMPLE, RuleSeconds(seconds, 0.0, live=False)))
    return found


def _first(trajectories: Trajectories, count: int) -> Trajectories:
    """The first segments only; just the arrays that estimates of seconds need."""
    return replace(
        trajectories,
        sizes=trajectories.sizes[:count],
        generate_seconds=trajectories.generate_seconds[:count],
        rerank_seconds=trajectories.rerank_seconds[:count],
        anchors=trajectories.anchors[:count],
        anchor_seconds=trajectories.anchor_seconds[:count],
    )
