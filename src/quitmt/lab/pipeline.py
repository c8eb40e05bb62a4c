"""A study from its file to its numbers: sample, score, replay, evaluate. What is done is kept and not done again.

Stages depend on each other by content: pools on model, seed and sources; trajectories on reranker and pools; quality on
metric, references and what rerankers choose. Replays and tables cost little and are always made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from quitmt import generate
from quitmt.errors import MissingExtra, UsageError, unknown
from quitmt.evaluate import metrics
from quitmt.evaluate.metrics import Setup
from quitmt.generate.anchors import parse
from quitmt.generate.recorded import RecordedGenerator
from quitmt.lab.frames import QualityScores, Replayed, Trajectories
from quitmt.lab.paper import printed
from quitmt.lab.pools import quality, sample, store, trajectories
from quitmt.lab.pools.arms import Baseline, PoolMaker
from quitmt.lab.replay import beyond
from quitmt.lab.replay import rules as replay
from quitmt.lab.replay.fixed import matched_fixed
from quitmt.lab.replay.live import Live
from quitmt.lab.replay.live import run as run_live
from quitmt.lab.results import AcceleratedReplay, Replays, Results
from quitmt.lab.rows import ONE_SAMPLE
from quitmt.lab.study import Study, testsets
from quitmt.metrics.devices import Hardware
from quitmt.plan.build import build_generator, build_reranker
from quitmt.plan.plan import NO_PARTS, Parts
from quitmt.plan.resolve import resolve
from quitmt.protocols import Generator, Reranker
from quitmt.rerank import Reranking
from quitmt.types import Segment

Languages = tuple[str | None, str | None]
Bar = Callable[[str, int, str], Any]
"""Opens a progress bar: what is done, how many of it, and of what."""


def run(study: Study, bar: Bar, *, live: bool = False) -> Results:
    test_set = testsets.load(study.test_set)
    arms = [Sampled(arm.name, arm.study) for arm in study.arms()]
    if live and not any(one.is_live for one in arms):
        raise UsageError("a study of recorded pools cannot be run live", hint="name a model in [model]")
    for one in arms:
        check(one.study, test_set, sample.languages(one.study.model))
    folder = Path(study.output) / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    segments = test_set.segments
    sampler = PoolMaker(build_generator, segments, folder, partial(_counted, bar))
    for one in arms:
        one.pools = sampler.pools(one.study)
    baselines = tuple(sampler.baselines([one.study for one in arms]))
    for spec in study.rerank.rerankers:
        held = []  # until all that needs them is done: a scoring model is loaded once, and no two of them at a time
        for one in arms:
            languages = sample.languages(one.study.model)
            reranker = build_reranker(one.study.rerank.recipe(spec), languages)
            held.append(reranker)
            with _counted(bar, f"scoring with {spec}", len(one.pools)) as step:
                one.trajectories[spec] = trajectories.compute(
                    spec,
                    one.pools,
                    one.study.rerank,
                    languages,
                    folder,
                    step,
                    beyond.observed(one.study),
                    step=one.study.rules.k,
                    budget=one.study.model.budget,
                )
            windows = _windows(one.study, live=live)
            one.replays[spec] = _replays(one.study, one.trajectories[spec], windows, one.pools, languages, folder, bar)
            if live and one.is_live:
                generator = sampler.generator(one.study.model)
                one.live[spec] = _live(one.study, generator, spec, reranker, segments, folder, bar)
        del held, reranker
    return _results(study, test_set, arms, baselines, folder, bar)


@dataclass(slots=True)
class Sampled:
    """What is known of one sampling so far."""

    name: str
    study: Study
    pools: list[sample.FullPool] = field(default_factory=list)
    trajectories: dict[str, Trajectories] = field(default_factory=dict)
    replays: dict[str, Replays] = field(default_factory=dict)
    live: dict[str, list[Live]] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """Whether it would be run live."""
        chosen = self.study.live.samplings
        return self.study.model.pools is None and (not chosen or self.name in chosen)

    def chosen(self) -> list[Trajectories | Replayed]:
        """Whatever a rule might choose, and the first sample."""
        faster = [one.replayed for own in self.replays.values() for one in own.accelerated]
        return [*self.trajectories.values(), *faster, *(one_sample(own) for own in self.trajectories.values())]


def one_sample(one: Trajectories) -> Replayed:
    """The baseline that reranks nothing."""
    rows = len(one.ids)
    first = np.zeros(rows, np.int64)
    full = np.zeros(rows, np.bool_)
    return Replayed(ONE_SAMPLE, one.reranker, first + 1, first, one.final[:, 0], full, {"n": 1})


def _results(
    study: Study,
    test_set: testsets.StudyTestSet,
    arms: list[Sampled],
    baselines: tuple[Baseline, ...],
    folder: Path,
    bar: Bar,
) -> Results:
    references = test_set.references
    wanted = [quality.wanted(one.pools, references, one.chosen()) for one in arms]
    sources = [segment.source for segment in test_set.segments]
    wanted.append(quality.wanted_texts(sources, references, [one.texts for one in baselines]))
    scores = _evaluated(study, wanted, sample.languages(study.model), folder, bar)
    of_baselines = {metric: found[-1].values for metric, found in scores.items()}
    first, *others = (
        Results(
            one.study,
            test_set,
            tuple(one.pools),
            one.trajectories,
            one.replays,
            {metric: found[place] for metric, found in scores.items()},
            one.live,
            one.name,
            baselines,
            of_baselines,
        )
        for place, one in enumerate(arms)
    )
    return replace(first, study=replace(first.study, samplings=study.samplings), others=tuple(others))


def check(study: Study, test_set: testsets.StudyTestSet, languages: Languages) -> None:
    """Raise what would otherwise come up only after hours of sampling."""
    store.require()
    if find_spec("matplotlib") is None:
        raise MissingExtra("the lab's figures need matplotlib", hint="pip install 'quitmt[lab]'")
    beyond.check(study)
    for name, requested in (("dataset", study.paper.dataset), ("model", study.paper.model)):
        known = {row[name] for row in printed.table("results")}
        if requested is None and (study.paper.dataset or study.paper.model):
            raise UsageError(f"[paper] names no {name}", hint=f"there is {', '.join(sorted(known))}")
        if requested is not None and requested not in known:
            raise unknown(f"{name} of the paper", requested, known)
    parts = NO_PARTS if study.model.pools is None else Parts(RecordedGenerator())
    if study.model.pools is None:
        generate.find(study.model.name).check_anchors(parse(study.baselines.anchors))
    for spec in study.rerank.rerankers:
        for kind in ["exact", *accelerated(study, spec)]:
            recipe = study.recipe_of(spec, kind)
            resolve(recipe, parts)
            if not Reranking(spec).neural:  # scoring models are too large to load for a look
                build_reranker(recipe.rerank, languages)
    for spec in study.evaluate.metrics:
        entry, _ = metrics.find(spec)
        if entry.needs_reference and not test_set.references:
            raise UsageError(f"{spec} needs references, which the test set {test_set.name} has not")
        if entry.is_judge and None in languages:
            raise UsageError(
                f"{spec} must be told the languages", hint="source_language and target_language in [model]"
            )


def _windows(study: Study, *, live: bool) -> tuple[int, ...]:
    """The windows to replay; what is measured live is replayed as well, to stand beside it."""
    more = study.live.windows if live else ()
    return tuple(dict.fromkeys((*study.rules.windows, *sorted(set(more) - set(study.rules.windows)))))


def accelerated(study: Study, spec: str) -> tuple[str, ...]:
    """The accelerated kinds to compare with: of MBR, and where there are anchors those that take them."""
    kinds = study.rerank.accelerated if spec.startswith("mbr:") else ()
    if not study.model.words:
        return kinds
    return tuple(kind for kind in kinds if Reranking(spec, kind, support=study.rerank.support).traits.takes_anchors)


def _replays(
    study: Study,
    one: Trajectories,
    windows: tuple[int, ...],
    pools: list[sample.FullPool],
    languages: Languages,
    folder: Path,
    bar: Bar,
) -> Replays:
    faster = []
    for variant in accelerated(study, one.reranker):
        with _counted(bar, f"{one.reranker} with {variant}", len(pools)) as step:
            found = trajectories.accelerated(one, variant, pools, study.rerank, languages, folder, step)
            faster.append(AcceleratedReplay(*found))
    return replayed(study, one, windows, tuple(faster))


def replayed(
    study: Study, one: Trajectories, windows: tuple[int, ...], faster: tuple[AcceleratedReplay, ...] = ()
) -> Replays:
    """Every rule of a study on one reranker."""
    rules, budget = study.rules, study.model.budget

    @cache  # a rule may be in several sweeps
    def window(k: int, w: int, alpha: float) -> Replayed:
        return replay.quit_rule(one, k=k, w=w, alpha=alpha, budget=budget)

    @cache
    def matched(k: int, w: int, alpha: float) -> Replayed:
        return matched_fixed(one, window(k, w, alpha).mean_size, budget, name=f"Fixed-N* (w={w})")

    def fixed(rules: tuple[Replayed, ...]) -> tuple[Replayed, ...]:
        settings = [rule.settings for rule in rules]
        return tuple(matched(int(own["k"]), int(own["w"]), own["alpha"]) for own in settings)

    by_window = tuple(window(rules.k, w, rules.alpha) for w in windows)
    by_alpha = tuple(window(rules.k, w, alpha) for w in rules.alpha_windows for alpha in rules.alphas)
    able = [(k, w) for k in rules.steps for w in rules.alpha_windows if k * w < budget]
    by_step = tuple(window(k, w, rules.alpha) for k, w in able or [(min(rules.steps), min(rules.alpha_windows))])
    others = beyond.replayed(study, one)
    return Replays(
        replay.unaccelerated(one, budget),
        by_window,
        fixed(by_window),
        by_alpha,
        fixed(by_alpha),
        by_step,
        fixed(by_step),
        faster,
        others,
        tuple(matched_fixed(one, rule.mean_size, budget, name=f"Fixed-N* ({rule.name})") for rule in others),
    )


def _evaluated(
    study: Study, wanted: list[quality.Wanted], languages: Languages, folder: Path, bar: Bar
) -> dict[str, list[QualityScores]]:
    judging = study.evaluate
    setup = Setup(Hardware(judging.device, judging.dtype, judging.batch_tokens), languages, judging.options)
    scores = {}
    for metric in judging.metrics:
        count = len(quality.all_texts(wanted))
        with _counted(bar, f"evaluating with {metric}", count, "translations") as step:
            scores[metric] = quality.evaluate_all(metric, wanted, folder, setup, step)
    return scores


def _live(
    study: Study,
    generator: Generator,
    spec: str,
    reranker: Reranker[Any],
    segments: tuple[Segment, ...],
    folder: Path,
    bar: Bar,
) -> list[Live]:
    chosen = segments[: study.live.limit]
    rules = 1 + len(study.live.windows) + len(beyond.fitting(study, spec, study.live.rules))
    with _counted(bar, f"{spec}, live", len(chosen) * rules) as step:
        return run_live(study, generator, spec, reranker, chosen, folder, step)


@contextmanager
def _counted(bar: Bar, what: str, total: int, unit: str = "segments") -> Iterator[Callable[[int], object]]:
    opened = bar(what, total, unit)
    try:
        yield opened.update
    finally:
        opened.close()
