"""A study from its file to its numbers: sample, score, replay, evaluate. What is done is kept and not done again.

Stages depend on each other by content: pools on model, seed and sources; trajectories on reranker and pools; quality on
metric, references and what rerankers choose. Replays and tables cost little and are always made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quitmt.errors import MissingExtra, UsageError, unknown
from quitmt.evaluate import metrics
from quitmt.evaluate.metrics import Setup
from quitmt.generate.recorded import RecordedGenerator
from quitmt.lab.frames import Floats, QualityScores, Replayed, Trajectories
from quitmt.lab.paper import printed
from quitmt.lab.pools import quality, sample, store, trajectories
from quitmt.lab.replay import beyond
from quitmt.lab.replay import rules as replay
from quitmt.lab.replay.fixed import matched_fixed
from quitmt.lab.replay.live import Live
from quitmt.lab.replay.live import run as run_live
from quitmt.lab.study import Study, testsets
from quitmt.metrics.devices import Hardware
from quitmt.protocols import Generator, Reranker
from quitmt.recipe.build import build_generator, build_reranker
from quitmt.recipe.check import check as check_recipe
from quitmt.recipe.effective import NOTHING, Given
from quitmt.rerank import Reranking
from quitmt.types import Segment

Languages = tuple[str | None, str | None]
Bar = Callable[[str, int, str], Any]
"""Opens a progress bar: what is done, how many of it, and of what."""


@dataclass(frozen=True, slots=True)
class AcceleratedReplay:
    """An accelerated kind of MBR on the whole pools."""

    replayed: Replayed
    rerank_seconds: Floats
    """[S]: measured."""
    share: float
    """Of all utilities."""


@dataclass(frozen=True, slots=True)
class Replays:
    """All rules on one reranker; to each QUIT belongs a fixed size with as many candidates on average."""

    unaccelerated: Replayed
    windows: tuple[Replayed, ...]
    fixed: tuple[Replayed, ...]
    alphas: tuple[Replayed, ...]
    alphas_fixed: tuple[Replayed, ...]
    steps: tuple[Replayed, ...]
    steps_fixed: tuple[Replayed, ...]
    accelerated: tuple[AcceleratedReplay, ...]
    beyond: tuple[Replayed, ...] = ()
    """Rules with a threshold that are, or could be, run live."""
    beyond_fixed: tuple[Replayed, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that tables, figures and the report are made of."""

    study: Study
    test_set: testsets.StudyTestSet
    pools: tuple[sample.FullPool, ...]
    trajectories: dict[str, Trajectories]
    replays: dict[str, Replays]
    quality: dict[str, QualityScores]
    live: dict[str, list[Live]]


def run(study: Study, bar: Bar, *, live: bool = False) -> Results:
    test_set = testsets.load(study.test_set)
    languages = sample.languages(study.model)
    check(study, test_set, languages, live=live)
    folder = Path(study.output) / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    segments = test_set.segments
    generator = None if study.model.pools is not None else build_generator(study.model)
    with _counted(bar, "sampling", len(segments)) as step:
        if generator is None:
            pools = sample.recorded(study.model.pools or "", segments, study.model.budget)
        else:
            pools = sample.sampled(generator, study.model, segments, folder, step)
    found, replays, measured = dict[str, Trajectories](), dict[str, Replays](), dict[str, list[Live]]()
    windows = _windows(study, live=live)
    for spec in study.rerank.rerankers:
        # Held until all that needs it is done: its scoring model is loaded once, and no two of them at a time.
        reranker = build_reranker(study.rerank.recipe(spec), languages)
        with _counted(bar, f"scoring with {spec}", len(pools)) as step:
            found[spec] = trajectories.compute(
                spec,
                pools,
                study.rerank,
                languages,
                folder,
                step,
                beyond.observed(study),
                step=study.rules.k,
                budget=study.model.budget,
            )
        replays[spec] = _replays(study, found[spec], windows, pools, languages, folder, bar)
        if live and generator is not None:
            measured[spec] = _live(study, generator, spec, reranker, segments, folder, bar)
        del reranker
    faster = [one.replayed for own in replays.values() for one in own.accelerated]
    scores = _evaluated(study, pools, test_set, [*found.values(), *faster], languages, folder, bar)
    return Results(study, test_set, tuple(pools), found, replays, scores, measured)


def check(study: Study, test_set: testsets.StudyTestSet, languages: Languages, *, live: bool = False) -> None:
    """Raise what would otherwise come up only after hours of sampling."""
    store.require()
    if find_spec("matplotlib") is None:
        raise MissingExtra("the lab's figures need matplotlib", hint="pip install 'quitmt[lab]'")
    if live and study.model.pools is not None:
        raise UsageError("a study of recorded pools cannot be run live", hint="name a model in [model]")
    beyond.check(study)
    for name, asked in (("dataset", study.paper.dataset), ("model", study.paper.model)):
        known = {row[name] for row in printed.table("results")}
        if asked is None and (study.paper.dataset or study.paper.model):
            raise UsageError(f"[paper] names no {name}", hint=f"there is {', '.join(sorted(known))}")
        if asked is not None and asked not in known:
            raise unknown(f"{name} of the paper", asked, known)
    given = NOTHING if study.model.pools is None else Given(RecordedGenerator())
    for spec in study.rerank.rerankers:
        for kind in ["exact", *study.rerank.accelerated] if spec.startswith("mbr:") else ["exact"]:
            recipe = study.recipe_of(spec, kind)
            check_recipe(recipe, given)
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
    for variant in study.rerank.accelerated if one.is_mbr else ():
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
    by_step = tuple(window(k, w, rules.alpha) for k in rules.steps for w in rules.alpha_windows)
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
    study: Study,
    pools: list[sample.FullPool],
    test_set: testsets.StudyTestSet,
    chosen: list[Trajectories | Replayed],
    languages: Languages,
    folder: Path,
    bar: Bar,
) -> dict[str, QualityScores]:
    judging = study.evaluate
    setup = Setup(Hardware(judging.device, judging.dtype, judging.batch_tokens), languages, judging.options)
    wanted = quality.wanted(pools, test_set.references, chosen)
    scores = {}
    for metric in judging.metrics:
        with _counted(bar, f"evaluating with {metric}", len(wanted.texts), "translations") as step:
            scores[metric] = quality.evaluate(metric, wanted, folder, setup, step)
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
