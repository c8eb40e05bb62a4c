"""What is wrong with a recipe, found before anything is loaded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from quitmt import generate, stop
from quitmt.calibrate.auto import Wish
from quitmt.engine.deadlines import Deadlines
from quitmt.errors import QuitmtError, UsageError, place, placed, said, setting
from quitmt.generate.anchors import Anchor
from quitmt.generate.anchors import parse as parse_anchors
from quitmt.generate.beams import check as check_beams
from quitmt.metrics.devices import DTYPES, Hardware
from quitmt.protocols import GeneratorTraits, traits_of
from quitmt.recipe.effective import (
    NOTHING,
    Given,
    build_rule,
    effective,
    granted_of,
    profile_of,
    reranker_traits,
    reranking_of,
    sampling_of,
    title_of,
)
from quitmt.recipe.recipe import OBJECT, ModelRecipe, Recipe, StopRecipe
from quitmt.rerank.anchors import TEXTS
from quitmt.sampling import Sampling
from quitmt.stop.steering import Steered
from quitmt.stop.window import Quit

log = logging.getLogger(__name__)

SAMPLING = ("temperature", "top_k", "top_p", "epsilon", "min_p")


def check(recipe: Recipe, given: Given = NOTHING, *, installed: bool = True) -> None:
    """Raise everything that is wrong, in one sentence if it is one thing; nothing is loaded.

    Functions of the user's are imported, for only so it is known whether they are there, and profiles are read.
    ``installed`` is False for a recipe that is to be run elsewhere: extras that are missing here do not count.
    """
    errors: dict[str, QuitmtError] = {}  # by what they say: one mistake may be met twice
    for step in _steps(recipe, given, installed=installed):
        try:
            step()
        except QuitmtError as error:
            errors.setdefault(str(error), error)
    if len(errors) > 1:
        raise UsageError("; and ".join(errors))
    if errors:
        raise next(iter(errors.values()))


def _steps(recipe: Recipe, given: Given, *, installed: bool) -> Iterator[Callable[[], object]]:
    yield partial(_check_run, recipe)
    yield partial(_check_rerank, recipe, given, installed=installed)
    for name in SAMPLING:
        if getattr(recipe.model, name) is not None:
            yield partial(Sampling, **{name: getattr(recipe.model, name)})
    yield partial(_check_model, recipe, given, installed=installed)
    yield partial(_check_numbers, recipe)
    yield partial(_check_stop, recipe, given, installed=installed)


def _check_model(recipe: Recipe, given: Given, *, installed: bool) -> None:
    model = recipe.model
    sampling = sampling_of(model)
    if model.context < 0:
        raise UsageError(f"{setting('model.context')} must be 0 or more, not {model.context}")
    recorded = given.generator is not None and traits_of(given.generator, GeneratorTraits).recorded
    # Of recorded anchors the names are whatever they were recorded with.
    anchors = parse_anchors(model.anchors) if model.anchors is not None and not recorded else ()
    if anchors and not reranker_traits(recipe, given, installed=False).takes_anchors:
        hint = f"give {setting('model.anchors', 'none')}"
        raise UsageError(f"{title_of(recipe, given)} scores samples only, no anchors", hint=hint)
    if given.generator is not None:
        return
    _refuse_object(model.name, "model.name")
    with placed("model.name"):
        name, *languages = generate.resolve(model.name, *model.languages)
        generate.check(name, sampling, (languages[0], languages[1]), model.options, installed=installed)
    generate.check_anchors(name, anchors)
    if model.beams is not None:
        _check_beams(model, name, anchors)
    backend = generate.find(name)
    if model.context and not (backend and backend.prompted):
        raise UsageError(f"{setting('model.context')} goes with chat models, not with {name}")


def _check_beams(model: ModelRecipe, name: str, anchors: Sequence[Anchor]) -> None:
    assert model.beams is not None
    check_beams(model.beams)
    for setting_name in SAMPLING:
        if getattr(model, setting_name) is not None:
            told = f"{setting('model.beams')} searches, and {setting(f'model.{setting_name}')} is for sampling"
            raise UsageError(told, hint="leave one of them out")
    if anchors:
        raise UsageError(
            f"{setting('model.beams')} and {setting('model.anchors')} do not go together: beams begin "
            "with the best hypotheses",
            hint=f"give {setting('model.anchors', 'none')}",
        )
    backend = generate.find(name)
    if backend is None or "beam" in backend.lacks:
        raise UsageError(f"{name} has no beam search for {setting('model.beams')}")


def _check_rerank(recipe: Recipe, given: Given, *, installed: bool) -> None:
    own = recipe.rerank
    if given.reranker is not None:
        return
    _refuse_object(own.name, "rerank.name")
    choice = reranking_of(own)
    choice.check(installed=installed)
    hardware = {"rerank.device": own.device, "rerank.dtype": own.dtype, "rerank.batch_tokens": own.batch_tokens}
    if not choice.neural and (extra := next((name for name, value in hardware.items() if value is not None), None)):
        raise UsageError(f"{setting(extra)} goes with scoring models such as mbr:comet, not with {own.name}")
    Hardware(own.device, own.dtype, own.batch_tokens)
    if own.dtype is not None and own.dtype not in DTYPES:
        raise UsageError(f"{setting('rerank.dtype')} must be one of {', '.join(DTYPES)}, not {own.dtype!r}")


def _check_numbers(recipe: Recipe) -> None:
    own = recipe.stop
    for name, value in (("k", own.k), ("n", own.n)):
        if value is not None and value < 1:
            raise UsageError(f"{setting(f'stop.{name}')} must be a whole number of at least 1, not {value}")
    if own.w is not None:
        with placed("stop.w"):
            Quit(window=own.w, single=own.single_step_window)
    if own.alpha is not None:
        with placed("stop.alpha"):
            Quit(alpha=own.alpha)


def _check_stop(recipe: Recipe, given: Given, *, installed: bool) -> None:
    own = recipe.stop
    with placed("stop.max_loss" if own.max_cost is None else "stop.max_cost"):
        Wish(None if own.max_loss is None else str(own.max_loss), own.max_cost)
    if own.rule not in (None, "auto") and (own.wishes or given.profile):
        wishes = ", ".join(setting(f"stop.{name}") for name in ("max_loss", "max_cost"))
        auto_rule = setting("stop.rule", "auto")
        raise UsageError(f"{wishes} and {setting('stop.profile')} go with {auto_rule}, not with {own.rule}")
    if given.rule is not None:
        return
    _refuse_object(own.rule, "stop.rule")
    # Numbers that cannot be are told elsewhere: the rule would refuse them in other words.
    sound = {f"stop.{name}": value for name in ("k", "n") if (value := getattr(own, name)) is None or value > 0}
    recipe = recipe.changed({"stop.k": None, "stop.n": None, **sound})
    whole = effective(recipe, replace(given, generator=given.generator or _ANY))
    if own.k is not None and whole.stop.n is not None and own.k > whole.stop.n > 0:
        more = f"{setting('stop.k', str(own.k))} is more than the budget of {whole.stop.n} candidates"
        raise UsageError(more, hint=f"give at most {whole.stop.n}, or a larger {setting('stop.n')}")
    _check_taken(own, str(whole.stop.rule))
    known = profile_of(recipe, given)
    if known and known.recipe and given.reranker is None:
        _check_profile(known.recipe, whole)
    with placed("stop.rule"):
        granted = granted_of(whole, given, known)
        rule = granted.rule if granted else build_rule(whole.stop)
        stop.check_fits(rule, reranker_traits(recipe, given, installed=installed), title_of(recipe, given))


def _check_taken(own: StopRecipe, rule: str) -> None:
    """Say what is given and does nothing, and refuse what cannot be done."""
    ways = stop.Ways() if rule == "auto" else stop.ways(rule)
    for taken in ("window", "alpha", "single"):
        field = stop.SHARED[taken]
        if getattr(own, field) not in (None, False) and taken not in ways.takes:
            usual = setting("stop.rule", "quit")
            log.warning(said(f"{setting(f'stop.{field}')} does nothing with {rule}: it goes with {usual}"))
    for field, value, made in (("k", own.k, ways.step), ("n", own.n, ways.budget)):
        if ways.is_made and value not in (None, made):
            told = f"{rule} is made already, with {setting(f'stop.{field}', made)}"
            raise UsageError(told, hint=f"leave {setting(f'stop.{field}')} out, or name the class")


def refuse_texts(recipe: Recipe, whose: str) -> None:
    """For whoever has no texts of support to give to a segment."""
    if recipe.rerank.support == TEXTS:
        hint = "take quitmt translate or quitmt rerank with --support-from FILE"
        raise UsageError(
            f"{setting('rerank.support', TEXTS)} needs texts for each segment, and {whose} has none", hint=hint
        )


def refuse_pacing(recipe: Recipe, why: str = "workers of a batch have none") -> None:
    """For whoever works on segments in no order, or on a part of them: raise if they would depend on each other."""
    granted = granted_of(effective(recipe), NOTHING, profile_of(recipe, NOTHING))
    if granted is not None and isinstance(granted.rule, Steered):
        rule = setting("stop.rule", f"fixed:{granted.rule.alone()}")
        hint = f"calibrate and give {setting('stop.profile')}, or take {rule}"
        raise UsageError(f"{setting('stop.max_cost')} paces segments in their order, and {why}", hint=hint)


def _check_profile(calibrated: Mapping[str, Any], recipe: Recipe) -> None:
    """Its thresholds are in the units of the reranker that it was made for."""
    theirs, own = calibrated.get("rerank", {}), dict(recipe.of_results().get("rerank", {}))
    for name in ("name", "variant", "support", "filter", "keep"):
        if theirs.get(name) != own.get(name):
            hint = "rerank as it was calibrated, or calibrate again"
            requested = f"{setting(f'rerank.{name}')} is {own.get(name)}"
            raise UsageError(f"{requested}, and {setting('stop.profile')} was made for {theirs.get(name)}", hint=hint)


def _check_run(recipe: Recipe) -> None:
    run = recipe.run
    with placed("run.deadline"):
        Deadlines(run.deadline)
    if run.nbest is not None and run.nbest < 1:
        raise UsageError(f"{setting('run.nbest')} must be a whole number of at least 1, not {run.nbest}")
    with placed("run.run_deadline"):
        Deadlines(None, run.run_deadline)
    if run.in_flight is not None and run.in_flight < 1:
        raise UsageError(f"{place('run.in_flight')}at least 1 segment must be in flight, not {run.in_flight}")


class _Any:
    """Stands for whatever generates, where only the rule is looked at."""

    signature = "any"
    traits = GeneratorTraits(recorded=True)

    def draw(self, requests: Any) -> Any:
        raise AssertionError("nothing is drawn from it")

    def close(self, segment: Any) -> None:
        """Nothing is kept."""


_ANY = _Any()


def _refuse_object(name: str | None, field: str) -> None:
    if name is not None and name.startswith(OBJECT):
        hint = "give the recipe a name for it: module:attribute"
        raise UsageError(
            f"{setting(field)} {name!r} was an object of a Python program and cannot be made again", hint=hint
        )
