"""All configurations of a study with their costs: greedy, beam searches, and all samplings × rerankers × rules.

Invariants:
- Cost is candidates per segment: samples and anchors; for a beam search its hypotheses.
- Estimated seconds come from a replay, live ones from a run of the rule; neither replaces the other. Greedy and beam
  searches are measured while they are decoded, so their seconds belong to both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from quitmt.lab.frames import Floats, Ints, Replayed, Trajectories
from quitmt.lab.replay import rules as replay
from quitmt.lab.replay import runtime
from quitmt.lab.replay.frontier import FIXED, REACHED, Curve
from quitmt.lab.replay.live import Live
from quitmt.lab.replay.rules import replayed_sizes
from quitmt.lab.report.assemble import key_of
from quitmt.lab.report.frontier import Frontier
from quitmt.lab.results import Results
from quitmt.lab.rows import UNACCELERATED

QUIT = "QUIT"
POINTS = 24
"""Points per curve."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A live run of a configuration, on the first segments."""

    segments: int
    seconds: float
    """Per segment."""
    quality: Mapping[str, float]
    """By metric, on these segments."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A sampling, reranker and rule; or greedy decoding, or a beam search."""

    sampling: str
    """Empty for greedy and beam searches, and so is the reranker."""
    reranker: str
    rule: str
    size: float
    """Mean samples per segment."""
    cost: float
    quality: Mapping[str, Floats]
    """By metric, [S]."""
    estimated: float | None = None
    """Seconds per segment."""
    live: Measured | None = None
    in_table: bool = True
    is_choice: bool = True
    """Whether one could choose to use it; a Fixed-N* is only there for comparison."""

    @property
    def is_baseline(self) -> bool:
        return not self.sampling

    @property
    def name(self) -> str:
        return ", ".join(part for part in (self.sampling, self.reranker, self.rule) if part)


@dataclass(frozen=True, slots=True)
class Series:
    """A rule at every size or threshold, with one sampling and reranker: a line of the first figure."""

    sampling: str
    reranker: str
    rule: str
    cost: Floats
    """[P]: means."""
    estimated: Floats | None
    """[P]: seconds per segment."""
    quality: Mapping[str, Floats] = field(default_factory=dict)
    """By metric, [P]."""


def configurations_of(results: Results, frontiers: Sequence[Frontier], windows: Sequence[int]) -> list[Configuration]:
    """The configurations of all samplings, each with its frontier; ``windows`` are the windows of QUIT to include."""
    found, sampled = _baselines(results), set[tuple[str, ...]]()
    for one, frontier in zip((results, *results.others), frontiers, strict=True):
        first = tuple(pool.candidates[0].text for pool in one.pools)
        if first not in sampled:  # samplings that differ only in their anchors have the same samples
            found.append(_one_sample(one))
        sampled.add(first)
        found += _of_sampling(one, frontier, windows)
    return found


def series_of(results: Results, frontiers: Sequence[Frontier]) -> list[Series]:
    found = []
    for one, frontier in zip((results, *results.others), frontiers, strict=True):
        for spec, curves in frontier.curves.items():
            trajectories = one.trajectories[spec]
            for curve, line in zip(curves, frontier.lines[spec], strict=True):
                sizes = [curve.size[place].astype(np.int64) for place in line.places(POINTS)]
                found.append(_series(one, trajectories, curve.rule, sizes))
            quits = sorted(one.replays[spec].windows, key=lambda rule: rule.mean_size)
            found.append(_series(one, trajectories, QUIT, [rule.size for rule in quits]))
    return found


def _baselines(results: Results) -> list[Configuration]:
    count = _live_segments(results)
    found = []
    for column, one in enumerate(results.baselines):
        quality = {key_of(results.quality[name]): of[:, column] for name, of in results.baseline_quality.items()}
        seconds = _known(float(one.seconds.mean()))
        live = None
        if count and seconds is not None:
            live = Measured(count, float(one.seconds[:count].mean()), _first(quality, count))
        found.append(Configuration("", "", one.name, 0, one.cost, quality, seconds, live))
    return found


def _one_sample(results: Results) -> Configuration:
    one = next(iter(results.trajectories.values()))
    alone = replay.one_sample(one)
    seconds = _known(float((one.generate_seconds / one.sizes).mean()))
    return Configuration(results.name, "", alone.name, 1, 1, _quality(results, alone), seconds)


def _of_sampling(results: Results, frontier: Frontier, windows: Sequence[int]) -> list[Configuration]:
    found = []
    for spec, one in results.trajectories.items():
        own = results.replays[spec]
        live = {run.rule: run for run in results.live.get(spec, [])}
        pairs: list[tuple[Replayed, Replayed | None]] = [(own.unaccelerated, None)]
        pairs += [pair for pair in zip(own.windows, own.fixed, strict=True) if pair[0].settings["w"] in windows]
        pairs += zip(own.beyond, own.beyond_fixed, strict=True)
        for rule, fixed in pairs:
            found.append(_configuration(results, one, rule, live.get(rule.name)))
            if fixed is not None:
                found.append(_configuration(results, one, fixed, is_choice=False))
        for rule in _more(results, one, frontier.curves.get(spec, ())):
            found.append(_configuration(results, one, rule, in_table=False))
    return found


def _more(results: Results, one: Trajectories, curves: Sequence[Curve]) -> Iterator[Replayed]:
    """Choices besides the rules that the study names: round fixed sizes, and thresholds with round costs."""
    budget = results.study.model.budget
    sizes = [2**power for power in range(2, 20) if 2**power < budget]
    for size in sizes:
        yield replayed_sizes(f"{FIXED}={size}", one, np.minimum(one.sizes, size), budget, {"n": size})
    rules = replay.fitting(results.study, one, [curve.rule for curve in curves if curve.rule != FIXED])
    for curve in curves:
        if curve.rule not in rules:
            continue
        means = curve.size.mean(axis=1)
        for size in sizes:
            place = int(np.abs(means - size).argmin())
            if abs(means[place] - size) <= REACHED * size:
                threshold = float(f"{curve.thresholds[place]:.3g}")
                name = f"{curve.rule}{',' if ':' in curve.rule else ':'}{rules[curve.rule].limit}={threshold:g}"
                yield replayed_sizes(name, one, curve.size[place].astype(np.int64), budget, {"limit": threshold})


def configuration_of(results: Results, one: Trajectories, name: str, size: Ints) -> Configuration:
    """A rule of which only the number of samples per segment is known."""
    rule = replayed_sizes(name, one, size, results.study.model.budget, {})
    return _configuration(results, one, rule, in_table=False)


def _configuration(
    results: Results,
    one: Trajectories,
    rule: Replayed,
    live: Live | None = None,
    *,
    in_table: bool = True,
    is_choice: bool = True,
) -> Configuration:
    quality = _quality(results, rule)
    measured = None
    if live is not None:
        count = len(live.sizes)
        measured = Measured(count, live.seconds.total / count, _first(quality, count))
    return Configuration(
        results.name,
        one.reranker,
        f"all {results.study.model.budget}" if rule.name == UNACCELERATED else rule.name,
        rule.mean_size,
        rule.mean_size + float(one.anchors.mean()),
        quality,
        _seconds(one, rule),
        measured,
        in_table,
        is_choice,
    )


def _quality(results: Results, rule: Replayed) -> dict[str, Floats]:
    return {key_of(one): one.of(rule) for one in results.quality.values()}


def _first(quality: Mapping[str, Floats], count: int) -> dict[str, float]:
    """The means of the first segments."""
    return {name: float(values[:count].mean()) for name, values in quality.items()}


def _series(results: Results, one: Trajectories, name: str, sizes: Sequence[Ints]) -> Series:
    rules = [replayed_sizes(name, one, size, results.study.model.budget, {}) for size in sizes]
    cost = np.array([rule.mean_size for rule in rules]) + float(one.anchors.mean())
    known = [value for rule in rules if (value := _seconds(one, rule)) is not None]
    estimated = np.array(known) if len(known) == len(rules) else None
    quality = {key_of(of): np.array([float(of.of(rule).mean()) for rule in rules]) for of in results.quality.values()}
    return Series(results.name, one.reranker, name, cost, estimated, quality)


def _seconds(one: Trajectories, rule: Replayed) -> float | None:
    return _known(runtime.estimated(one, rule).total / len(rule.size))


def _known(seconds: float) -> float | None:
    return seconds if np.isfinite(seconds) else None


def _live_segments(results: Results) -> int:
    """How many segments were run live, with any sampling."""
    runs = [run for one in (results, *results.others) for own in one.live.values() for run in own]
    return min((len(run.sizes) for run in runs), default=0)
