"""From a recipe to its parts: the only code that puts generators, rerankers and rules together.

effective   what a recipe comes to, with everything filled in that it leaves open
check       everything that is wrong with it, found before anything is loaded
build       the parts; objects of the caller's may stand in for what the recipe names
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from quitmt import generate, rerank, stop
from quitmt.calibrate import auto
from quitmt.calibrate import profile as profiles
from quitmt.calibrate.auto import Granted, Wish
from quitmt.calibrate.profile import Profile
from quitmt.engine.deadlines import Clock, Deadlines
from quitmt.engine.driver import Driver
from quitmt.engine.slots import Observer
from quitmt.errors import QuitmtError, UsageError, place, placed, setting
from quitmt.metrics.devices import DTYPES, Hardware
from quitmt.protocols import Generator, GeneratorTraits, Reranker, RerankerTraits, StoppingRule, traits_of
from quitmt.recipe.recipe import ModelRecipe, Recipe, RerankRecipe, StopRecipe
from quitmt.rerank import Reranking
from quitmt.rerank.filtered import KEEP
from quitmt.sampling import Sampling

STEP, BUDGET = 8, 512
IN_FLIGHT, RECORDED_IN_FLIGHT = 16, 64
"""Segments at a time, of functions and of recorded pools; backends have their own."""
OBJECT = "object:"
"""Begins the name of a part that was given as an object: the recipe tells of it, but cannot make it again."""


@dataclass(frozen=True, slots=True)
class Given:
    """Parts that the caller has as objects; a recipe's own names for them do not count."""

    generator: Generator | None = None
    reranker: Reranker[Any] | None = None
    rule: StoppingRule | None = None
    profile: Profile | None = None


NOTHING = Given()


@dataclass(frozen=True, slots=True)
class Built:
    """The parts of a recipe, and the recipe with everything filled in."""

    recipe: Recipe
    generator: Generator
    reranker: Reranker[Any]
    rule: StoppingRule
    granted: Granted | None = None
    """How a wish was granted, if there was one."""

    def driver(self, observer: Observer | None = None, clock: Clock | None = None) -> Driver:
        run = self.recipe.run
        return Driver(
            self.generator,
            self.reranker,
            self.rule,
            in_flight=run.in_flight or IN_FLIGHT,
            observer=observer,
            speculate=run.speculate,
            deadlines=Deadlines(run.deadline, run.run_deadline),
            clock=clock,
            recipe=self.recipe.of_results(),
        )


def build(recipe: Recipe, given: Given = NOTHING) -> Built:
    check(recipe, given)
    known = _profile(recipe.stop, given)
    whole = effective(recipe, given)
    granted = None if given.rule else _granted(whole, given, known)
    rule = given.rule or (granted.rule if granted else build_rule(whole.stop))
    generator = given.generator or build_generator(whole.model)
    reranker = given.reranker or build_reranker(whole.rerank, whole.model.languages)
    sampled = None if traits_of(generator, GeneratorTraits).recorded else generator.signature
    if granted and granted.profile:
        granted.profile.check_fits(
            sampled,
            reranker.signature,
            whole.model.languages,
            (whole.stop.k or STEP, whole.stop.n or BUDGET),
            own=known is not None,
        )
    elif granted and whole.stop.max_loss is not None:
        auto.tell_basis(_title(recipe, given), sampled)
    return Built(_named(whole, given, granted), generator, reranker, rule, granted)


def build_generator(model: ModelRecipe) -> Generator:
    name, *_ = generate.resolve(model.name, *model.languages)
    return generate.load(name, sampling_of(model), languages=model.languages, options=model.options)


def build_reranker(recipe: RerankRecipe, languages: tuple[str | None, str | None]) -> Reranker[Any]:
    choice = reranking_of(recipe)
    settings: dict[str, Any] = {"variant": choice.variant, "filter": choice.filter, "keep": choice.keep}
    return rerank.load(choice.name, languages=languages, hardware=hardware_of(recipe), **settings)


def build_rule(recipe: StopRecipe) -> StoppingRule:
    return stop.load(
        recipe.rule or "quit",
        k=recipe.k or STEP,
        w=recipe.w,
        alpha=recipe.alpha,
        n=recipe.n or BUDGET,
        single=recipe.single_step_window,
    )


def sampling_of(model: ModelRecipe) -> Sampling:
    return Sampling(model.temperature, model.top_k, model.top_p, model.epsilon, model.seed)


def reranking_of(recipe: RerankRecipe) -> Reranking:
    return Reranking(recipe.name, recipe.variant, recipe.filter, recipe.keep)


def hardware_of(recipe: RerankRecipe) -> Hardware | None:
    """None where there is no scoring model."""
    return Hardware(recipe.device, recipe.dtype, recipe.batch_tokens) if reranking_of(recipe).neural else None


def effective(recipe: Recipe, given: Given = NOTHING) -> Recipe:
    """With everything filled in that can be without loading a model."""
    model, known = recipe.model, _profile(recipe.stop, given)
    recorded = given.generator is not None and traits_of(given.generator, GeneratorTraits).recorded
    if given.generator is None:
        name, source, target = generate.resolve(model.name, *model.languages)
        model = replace(model, name=name, source_language=source, target_language=target)
    elif recorded:  # the languages of the embedded models, for metrics that must know them
        source, target = model.source_language or "en", model.target_language or "pt"
        model = replace(model, source_language=source, target_language=target)
    own = recipe.stop
    rule = own.rule or ("auto" if own.wishes or known else "quit")
    k, n = own.k or (known.step if known else STEP), own.n or (known.budget if known else BUDGET)
    choice = recipe.rerank
    if choice.filter is not None and choice.keep is None:
        choice = replace(choice, keep=KEEP)
    run = replace(recipe.run, in_flight=recipe.run.in_flight or _in_flight(model, given, recorded=recorded))
    return replace(recipe, model=model, rerank=choice, stop=replace(own, rule=rule, k=k, n=n), run=run)


def check(recipe: Recipe, given: Given = NOTHING) -> None:
    """Raise everything that is wrong, in one sentence if it is one thing; nothing is loaded.

    Functions of the user's are imported, for only so it is known whether they are there, and profiles are read.
    """
    steps: list[Callable[[], object]] = [lambda: _check_run(recipe), lambda: _check_rerank(recipe, given)]
    steps += [lambda: _check_model(recipe, given), lambda: _check_stop(recipe, given)]
    errors: dict[str, QuitmtError] = {}  # by what they say: one mistake may be met twice
    for step in steps:
        try:
            step()
        except QuitmtError as error:
            errors.setdefault(str(error), error)
    if len(errors) > 1:
        raise UsageError("; and ".join(errors))
    if errors:
        raise next(iter(errors.values()))


def _check_model(recipe: Recipe, given: Given) -> None:
    model = recipe.model
    sampling = sampling_of(model)
    if model.context < 0:
        raise UsageError(f"{setting('model.context')} must be 0 or more, not {model.context}")
    if given.generator is not None:
        return
    _refuse_object(model.name, "model.name")
    with placed("model.name"):
        name, *languages = generate.resolve(model.name, *model.languages)
        generate.check(name, sampling, (languages[0], languages[1]), model.options)
    backend = generate.find(name)
    if model.context and not (backend and backend.prompted):
        raise UsageError(f"{setting('model.context')} goes with chat models, not with {name}")


def _check_rerank(recipe: Recipe, given: Given) -> None:
    own = recipe.rerank
    if given.reranker is not None:
        return
    _refuse_object(own.name, "rerank.name")
    choice = reranking_of(own)
    choice.check()
    hardware = {"rerank.device": own.device, "rerank.dtype": own.dtype, "rerank.batch_tokens": own.batch_tokens}
    if not choice.neural and (extra := next((name for name, value in hardware.items() if value is not None), None)):
        raise UsageError(f"{setting(extra)} goes with scoring models such as mbr:comet, not with {own.name}")
    Hardware(own.device, own.dtype, own.batch_tokens)
    if own.dtype is not None and own.dtype not in DTYPES:
        raise UsageError(f"{setting('rerank.dtype')} must be one of {', '.join(DTYPES)}, not {own.dtype!r}")


def _check_stop(recipe: Recipe, given: Given) -> None:
    own = recipe.stop
    with placed("stop.max_loss" if own.max_cost is None else "stop.max_cost"):
        Wish(None if own.max_loss is None else str(own.max_loss), own.max_cost)
    if own.rule not in (None, "auto") and (own.wishes or given.profile):
        wishes = ", ".join(setting(f"stop.{name}") for name in ("max_loss", "max_cost"))
        auto_rule = setting("stop.rule", "auto")
        raise UsageError(f"{wishes} and {setting('stop.profile')} go with {auto_rule}, not with {own.rule}")
    for name, value in (("k", own.k), ("n", own.n)):
        if value is not None and value < 1:
            raise UsageError(f"{setting(f'stop.{name}')} must be a whole number of at least 1, not {value}")
    if given.rule is not None:
        return
    _refuse_object(own.rule, "stop.rule")
    whole = effective(recipe, replace(given, generator=given.generator or _ANY))
    known = _profile(own, given)
    if known and known.recipe and given.reranker is None:
        _check_profile(known.recipe, whole)
    with placed("stop.rule"):
        granted = _granted(whole, given, known)
        rule = granted.rule if granted else build_rule(whole.stop)
        stop.check_fits(rule, _traits(recipe, given), _title(recipe, given))


def _check_profile(calibrated: Mapping[str, Any], recipe: Recipe) -> None:
    """Its thresholds are in the units of the reranker that it was made for."""
    theirs, own = calibrated.get("rerank", {}), dict(recipe.of_results().get("rerank", {}))
    for name in ("name", "variant", "filter", "keep"):
        if theirs.get(name) != own.get(name):
            made = f"{setting(f'rerank.{name}')} {theirs.get(name)}"
            hint = "rerank as it was calibrated, or calibrate again"
            raise UsageError(f"{setting('stop.profile')} was made for {made}, not for {own.get(name)}", hint=hint)


def _check_run(recipe: Recipe) -> None:
    run = recipe.run
    with placed("run.deadline"):
        Deadlines(run.deadline)
    with placed("run.run_deadline"):
        Deadlines(None, run.run_deadline)
    if run.in_flight is not None and run.in_flight < 1:
        raise UsageError(f"{place('run.in_flight')}at least 1 segment must be in flight, not {run.in_flight}")


class _Any:
    """Stands for whatever generates, where only the rule is looked at."""

    signature = "any"
    traits = GeneratorTraits(recorded=True)

    def draw(self, asks: Any) -> Any:
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


def _granted(recipe: Recipe, given: Given, known: Profile | None) -> Granted | None:
    """The rule for a wish, if the recipe has one."""
    own = recipe.stop
    if own.rule != "auto":
        return None
    wish = Wish(None if own.max_loss is None else str(own.max_loss), own.max_cost)
    k, n = own.k or STEP, own.n or BUDGET
    return auto.rule(_title(recipe, given), _traits(recipe, given), wish, known, k=k, n=n)


def _traits(recipe: Recipe, given: Given) -> RerankerTraits:
    if given.reranker is not None:
        return traits_of(given.reranker, RerankerTraits)
    choice = reranking_of(recipe.rerank)
    choice.check()
    return choice.traits


def _title(recipe: Recipe, given: Given) -> str:
    return recipe.rerank.name if given.reranker is None else given.reranker.signature.partition("|")[0]


def _profile(own: StopRecipe, given: Given) -> Profile | None:
    if given.profile is not None or own.profile is None:
        return given.profile
    with placed("stop.profile"):
        return profiles.read(own.profile)


def _in_flight(model: ModelRecipe, given: Given, *, recorded: bool) -> int:
    if given.generator is not None:
        return RECORDED_IN_FLIGHT if recorded else IN_FLIGHT
    try:
        backend = generate.find(model.name or "")
    except UsageError:  # ``check`` says what is wrong with it
        return IN_FLIGHT
    return backend.in_flight if backend else IN_FLIGHT


def _named(recipe: Recipe, given: Given, granted: Granted | None) -> Recipe:
    """With names for the parts that were given as objects."""
    changes: dict[str, Any] = {}
    for field, part in (("model.name", given.generator), ("rerank.name", given.reranker), ("stop.rule", given.rule)):
        if part is not None:
            changes[field] = f"{OBJECT}{part.signature.partition('|')[0]}"
    if given.rule is not None:
        changes |= {"stop.k": given.rule.step, "stop.n": given.rule.budget}
    if given.profile is not None and granted is not None:
        changes["stop.rule"] = granted.spec
    return recipe.changed(changes)
