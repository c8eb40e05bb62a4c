"""A study from its file to its numbers: sample, score, replay, evaluate. What is done is kept and not done again.

Stages depend on each other by content: pools on model, seed and sources; trajectories on reranker and pools; quality on
metric, references and what rerankers choose. Replays and tables cost little and are always made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quitmt.devices import Hardware
from quitmt.evaluate.metrics import Setup
from quitmt.lab import quality, replay, sample, testsets, trajectories
from quitmt.lab.fixed import matched_fixed
from quitmt.lab.frames import Quality, Replayed, Trajectories
from quitmt.lab.live import Live
from quitmt.lab.live import run as run_live
from quitmt.lab.study import Study
from quitmt.types import Segment

Bar = Callable[[str, int], Any]
"""Opens a progress bar: what is done, and how many of it."""


@dataclass(frozen=True, slots=True)
class Accelerated:
    """An accelerated kind of MBR on the whole pools."""

    replayed: Replayed
    rerank_seconds: float
    share: float
    """Of all utilities."""


@dataclass(frozen=True, slots=True)
class Replays:
    """All rules on one reranker."""

    unaccelerated: Replayed
    windows: tuple[Replayed, ...]
    fixed: tuple[Replayed, ...]
    """As many candidates on average as each of ``windows``."""
    alphas: tuple[Replayed, ...]
    steps: tuple[Replayed, ...]
    accelerated: tuple[Accelerated, ...]

    def all(self) -> list[Replayed]:
        faster = [one.replayed for one in self.accelerated]
        return [self.unaccelerated, *faster, *self.windows, *self.fixed, *self.alphas, *self.steps]


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that tables, figures and the report are made of."""

    study: Study
    test_set: testsets.TestSet
    pools: tuple[sample.Pool, ...]
    trajectories: dict[str, Trajectories]
    replays: dict[str, Replays]
    quality: dict[str, Quality]
    live: dict[str, list[Live]]


def run(study: Study, bar: Bar, *, live: bool = False) -> Results:
    folder = Path(study.output) / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    test_set = testsets.load(study.test_set)
    segments = test_set.segments
    with _counted(bar, "sampling", len(segments)) as step:
        if study.model.pools is not None:
            pools = sample.recorded(study.model.pools, segments, study.model.budget)
        else:
            pools = sample.sampled(study.model, segments, folder, step)
    languages = _languages(study)
    found = {}
    for spec in study.rerank.rerankers:
        with _counted(bar, f"scoring with {spec}", len(pools)) as step:
            found[spec] = trajectories.compute(spec, pools, study.rerank, languages, folder, step)
    replays = {spec: _replays(study, one, pools, languages, folder, bar) for spec, one in found.items()}
    chosen: list[Trajectories | Replayed] = [*found.values()]
    chosen += [one.replayed for own in replays.values() for one in own.accelerated]
    judging = study.evaluate
    hardware = Hardware(judging.device, judging.dtype, judging.batch_tokens)
    setup, scores = Setup(hardware, languages, judging.options), {}
    for metric in study.evaluate.metrics:
        with _counted(bar, f"evaluating with {metric}", len(pools)) as step:
            scores[metric] = quality.evaluate(metric, pools, test_set.references, chosen, folder, setup, step)
    measured = {spec: _live(study, spec, segments, folder, bar) for spec in study.rerank.rerankers} if live else {}
    return Results(study, test_set, tuple(pools), found, replays, scores, measured)


def _replays(
    study: Study,
    one: Trajectories,
    pools: list[sample.Pool],
    languages: tuple[str | None, str | None],
    folder: Path,
    bar: Bar,
) -> Replays:
    rules, budget = study.rules, study.model.budget

    def window(k: int, w: int, alpha: float) -> Replayed:
        return replay.quit_rule(one, k=k, w=w, alpha=alpha, budget=budget)

    windows = tuple(window(rules.k, w, rules.alpha) for w in rules.windows)
    faster = []
    for variant in study.rerank.accelerated if one.is_mbr else ():
        with _counted(bar, f"{one.reranker} with {variant}", len(pools)) as step:
            found = trajectories.accelerated(one, variant, pools, study.rerank, languages, folder, step)
            faster.append(Accelerated(*found))
    return Replays(
        replay.unaccelerated(one, budget),
        windows,
        tuple(
            matched_fixed(one, rule.mean_size, budget, name=f"Fixed-N* (w={w})")
            for w, rule in zip(rules.windows, windows, strict=True)
        ),
        tuple(window(rules.k, w, alpha) for w in rules.alpha_windows for alpha in rules.alphas),
        tuple(window(k, w, rules.alpha) for k in rules.steps for w in rules.alpha_windows),
        tuple(faster),
    )


def _live(study: Study, spec: str, segments: tuple[Segment, ...], folder: Path, bar: Bar) -> list[Live]:
    chosen = segments[: study.live.limit]
    with _counted(bar, f"{spec}, live", len(chosen) * (len(study.live.windows) + 1)) as step:
        return run_live(study, spec, chosen, folder, step)


def _languages(study: Study) -> tuple[str | None, str | None]:
    if study.model.pools is not None:
        return study.model.source_language, study.model.target_language
    return sample.sampler(study.model)[1]


@contextmanager
def _counted(bar: Bar, what: str, total: int) -> Iterator[Callable[[int], object]]:
    opened = bar(what, total)
    try:
        yield opened.update
    finally:
        opened.close()
