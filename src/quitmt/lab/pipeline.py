"""A study from its file to its numbers: sample, score, replay, evaluate. Finished work is kept and not done again.

Stages depend on each other by content: pools on model, seed and sources; trajectories on reranker and pools; quality on
metric, references and the rerankers' choices. Replays and tables cost little and are computed every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from quitmt import generate
from quitmt.errors import UsageError, unknown
from quitmt.evaluate import metrics
from quitmt.evaluate.metrics import Setup
from quitmt.generate.anchors import parse
from quitmt.generate.recorded import RecordedGenerator
from quitmt.lab import drawing
from quitmt.lab.frames import QualityScores, Replayed, Trajectories
from quitmt.lab.paper import values as paper
from quitmt.lab.pools import quality, sample, store, trajectories
from quitmt.lab.pools.arms import Baseline, PoolMaker
from quitmt.lab.pools.trajectories import AcceleratedReplay
from quitmt.lab.replay import rules as replay
from quitmt.lab.replay.live import Live
from quitmt.lab.replay.live import run as run_live
from quitmt.lab.results import Replays, Results
from quitmt.lab.study import Study, testsets
from quitmt.metrics.devices import Hardware
from quitmt.plan.build import build_generator, build_reranker
from quitmt.plan.plan import NO_PARTS, Parts
from quitmt.plan.resolve import resolve
from quitmt.protocols import Generator, Reranker
from quitmt.rerank import Reranking
from quitmt.rerank.specs import reads_texts
from quitmt.types import Segment

Languages = tuple[str | None, str | None]
Bar = Callable[[str, int, str], Any]
"""Opens a progress bar, from a label, the total, and the unit."""


def run(study: Study, bar: Bar, *, live: bool = False) -> Results:
    test_set = testsets.load(study.test_set)
    arms = [Sampled(arm.name, arm.study) for arm in study.arms()]
    if live and not any(one.is_live for one in arms):
        raise UsageError("a study of recorded pools cannot be run live", hint="name a model in [model]")
    for one in arms:
        check(one.study, test_set, one.languages)
    folder = Path(study.output) / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    segments = test_set.segments
    texts = bool(study.evaluate.metrics) or any(map(reads_texts, study.rerank.rerankers))
    maker = PoolMaker(build_generator, segments, folder, partial(_counted, bar), texts=texts)
    for one in arms:
        one.pools = maker.pools(one.study)
    baselines = tuple(maker.baselines([one.study for one in arms]))
    for spec in study.rerank.rerankers:
        held = []  # keeps a scoring model loaded for all samplings, and drops it before the next one is loaded
        for one in arms:
            reranker = build_reranker(one.study.rerank.recipe(spec), one.languages)
            held.append(reranker)
            one.trajectories[spec] = _trajectories(one, spec, folder, bar)
            faster = _accelerated(one, spec, folder, bar)
            one.replays[spec] = replayed(one.study, one.trajectories[spec], _windows(one.study, live=live), faster)
            if live and one.is_live:
                generator = maker.generator(one.study.model)
                one.live[spec] = _live(one.study, generator, reranker, segments, folder, one.trajectories[spec], bar)
        del held, reranker
    return _results(study, test_set, arms, baselines, folder, bar)


@dataclass(slots=True)
class Sampled:
    """One sampling, and its results so far."""

    name: str
    study: Study
    pools: list[sample.FullPool] = field(default_factory=list)
    trajectories: dict[str, Trajectories] = field(default_factory=dict)
    replays: dict[str, Replays] = field(default_factory=dict)
    live: dict[str, list[Live]] = field(default_factory=dict)

    @property
    def languages(self) -> Languages:
        return sample.languages(self.study.model)

    @property
    def is_live(self) -> bool:
        """Whether ``quitmt lab live`` runs its rules."""
        chosen = self.study.live.samplings
        return self.study.model.pools is None and (not chosen or self.name in chosen)

    def chosen(self) -> list[Trajectories | Replayed]:
        """Everything that a rule might choose, and the first sample."""
        faster = [one.replayed for own in self.replays.values() for one in own.accelerated]
        return [*self.trajectories.values(), *faster, *map(replay.one_sample, self.trajectories.values())]


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
    scores = _evaluated(study, wanted, arms[0].languages, folder, bar)
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
    """Raise errors that would otherwise come up only after hours of sampling."""
    store.require()
    drawing.require()
    replay.check_thresholds(study)
    for name, requested in (("dataset", study.paper.dataset), ("model", study.paper.model)):
        known = {row[name] for row in paper.table("results")}
        if requested is None and (study.paper.dataset or study.paper.model):
            raise UsageError(f"[paper] names no {name}", hint=f"there is {', '.join(sorted(known))}")
        if requested is not None and requested not in known:
            raise unknown(f"{name} of the paper", requested, known)
    recorded = NO_PARTS if study.model.pools is None else Parts(RecordedGenerator())
    if study.model.pools is None:
        generate.find(study.model.name).check_anchors(parse(study.baselines.anchors))
    for spec in study.rerank.rerankers:
        for kind in ["exact", *accelerated(study, spec)]:
            recipe = study.recipe_of(spec, kind)
            resolve(recipe, recorded)
            if not Reranking(spec).neural:  # scoring models are too large to load for a check
                build_reranker(recipe.rerank, languages)
    for spec in study.evaluate.metrics:
        entry, _ = metrics.find(spec)
        if entry.needs_reference and not test_set.references:
            raise UsageError(f"{spec} needs references, but the test set {test_set.name} has none")
        if entry.is_judge and None in languages:
            raise UsageError(f"{spec} needs both languages", hint="source_language and target_language in [model]")


def _windows(study: Study, *, live: bool) -> tuple[int, ...]:
    """The windows to replay. Windows that are run live are replayed too, for comparison."""
    more = study.live.windows if live else ()
    return tuple(dict.fromkeys((*study.rules.windows, *sorted(set(more) - set(study.rules.windows)))))


def _trajectories(one: Sampled, spec: str, folder: Path, bar: Bar) -> Trajectories:
    study = one.study
    with _counted(bar, f"scoring with {spec}", len(one.pools)) as step:
        return trajectories.compute(
            spec,
            one.pools,
            study.rerank,
            one.languages,
            folder,
            step,
            replay.observed(study),
            step=study.rules.k,
            budget=study.model.budget,
        )


def accelerated(study: Study, spec: str) -> tuple[str, ...]:
    """The accelerated kinds of MBR to compare with; if there are anchors, only kinds that take them."""
    kinds = study.rerank.accelerated if spec.startswith("mbr:") else ()
    if not study.model.words:
        return kinds
    return tuple(kind for kind in kinds if Reranking(spec, kind, support=study.rerank.support).traits.takes_anchors)


def _accelerated(one: Sampled, spec: str, folder: Path, bar: Bar) -> tuple[AcceleratedReplay, ...]:
    found = []
    for variant in accelerated(one.study, spec):
        rerankers = trajectories.accelerated_rerankers(spec, variant, one.study.rerank, one.languages)
        for name, reranker in rerankers.items():
            with _counted(bar, f"{spec}: {name}", len(one.pools)) as step:
                found.append(trajectories.accelerated(one.trajectories[spec], name, reranker, one.pools, folder, step))
    return tuple(found)


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
        return replay.matched_fixed(one, window(k, w, alpha).mean_size, budget, name=f"Fixed-N* (w={w})")

    def fixed(rules: tuple[Replayed, ...]) -> tuple[Replayed, ...]:
        settings = [rule.settings for rule in rules]
        return tuple(matched(int(own["k"]), int(own["w"]), own["alpha"]) for own in settings)

    by_window = tuple(window(rules.k, w, rules.alpha) for w in windows)
    by_alpha = tuple(window(rules.k, w, alpha) for w in rules.alpha_windows for alpha in rules.alphas)
    able = [(k, w) for k in rules.steps for w in rules.alpha_windows if k * w < budget]
    by_step = tuple(window(k, w, rules.alpha) for k, w in able or [(min(rules.steps), min(rules.alpha_windows))])
    others = replay.with_thresholds(study, one)
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
        tuple(replay.matched_fixed(one, rule.mean_size, budget, name=f"Fixed-N* ({rule.name})") for rule in others),
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
            scores[metric] = quality.evaluate(metric, wanted, folder, setup, step)
    return scores


def _live(
    study: Study,
    generator: Generator,
    reranker: Reranker[Any],
    segments: tuple[Segment, ...],
    folder: Path,
    replays: Trajectories,
    bar: Bar,
) -> list[Live]:
    spec, chosen = replays.reranker, segments[: study.live.limit]
    thresholds = replay.fitting(study, replays, study.live.rules)
    rules = 1 + len(study.live.windows) + len(thresholds)
    with _counted(bar, f"{spec}, live", len(chosen) * rules) as step:
        return run_live(study, generator, spec, reranker, chosen, folder, thresholds, step)


@contextmanager
def _counted(bar: Bar, what: str, total: int, unit: str = "segments") -> Iterator[Callable[[int], object]]:
    opened = bar(what, total, unit)
    try:
        yield opened.update
    finally:
        opened.close()
