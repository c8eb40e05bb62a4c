"""What a recipe comes to: everything filled in that it leaves open, and the rule that its wishes are granted by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from quitmt import generate, stop
from quitmt.calibrate import auto
from quitmt.calibrate import profile as profiles
from quitmt.calibrate.auto import Granted, Wish
from quitmt.calibrate.profile import Profile
from quitmt.errors import QuitmtError, UsageError, placed, setting
from quitmt.generate import Backend
from quitmt.generate import anchors as anchor_names
from quitmt.generate.anchors import NONE
from quitmt.metrics.devices import Hardware
from quitmt.protocols import Generator, GeneratorTraits, Reranker, RerankerTraits, StoppingRule, traits_of
from quitmt.recipe.recipe import ModelRecipe, Recipe, RerankRecipe, StopRecipe
from quitmt.rerank import Reranking
from quitmt.rerank.anchors import TEXTS
from quitmt.rerank.filtered import KEEP
from quitmt.sampling import Sampling

STEP, BUDGET = 8, 512
WINDOW, ALPHA = 8, 1e-3
AUTO_STEP, AUTO_BUDGET = 4, 256
"""Of exact MBR: anchored pools need few candidates, so the rule looks sooner, and gives up sooner."""
FIXED = 64
"""Candidates where scores do not compare across sizes of a pool, so that no rule can tell when to stop."""
PAPER_TEMPERATURE = 1.2
IN_FLIGHT, RECORDED_IN_FLIGHT = 16, 64
"""Segments at a time, of functions and of recorded pools; backends have their own."""


@dataclass(frozen=True, slots=True)
class Given:
    """Parts that the caller has as objects; a recipe's own names for them do not count."""

    generator: Generator | None = None
    reranker: Reranker[Any] | None = None
    rule: StoppingRule | None = None
    profile: Profile | None = None


NOTHING = Given()


def effective(recipe: Recipe, given: Given = NOTHING) -> Recipe:
    """With everything filled in that can be without loading a model."""
    model, known = recipe.model, profile_of(recipe, given)
    recorded = given.generator is not None and traits_of(given.generator, GeneratorTraits).recorded
    if given.generator is None:
        name, source, target = generate.resolve(model.name, *model.languages)
        model = replace(model, name=name, source_language=source, target_language=target)
    elif recorded:  # the languages of the embedded models, for metrics that must know them
        source, target = model.source_language or "en", model.target_language or "pt"
        model = replace(model, source_language=source, target_language=target)
    own, choice = recipe.stop, recipe.rerank
    if choice.filter is not None and choice.keep is None:
        choice = replace(choice, keep=KEEP)
    if given.reranker is None:
        choice = replace(choice, support=_support(choice))
    traits = _traits(replace(recipe, rerank=choice), given)
    model = _with_defaults(model, given, takes_anchors=traits.takes_anchors and choice.support != "all")
    rule = own.rule
    if rule is None:
        rule = _usual_rule(own, traits, known)
    step, budget = STEP, BUDGET
    if rule != "auto":
        step, budget = stop.ways(rule).step, stop.ways(rule).budget
    elif traits.gives_rivals and not traits.judges_itself:
        step, budget = AUTO_STEP, AUTO_BUDGET
    k, n = own.k or (known.step if known else step), own.n or (known.budget if known else budget)
    if rule == "quit":
        own = replace(own, w=WINDOW if own.w is None else own.w, alpha=ALPHA if own.alpha is None else own.alpha)
    run = replace(recipe.run, in_flight=recipe.run.in_flight or _in_flight(model, given, recorded=recorded))
    return replace(recipe, model=model, rerank=choice, stop=replace(own, rule=rule, k=k, n=n), run=run)


def _usual_rule(own: StopRecipe, traits: RerankerTraits, known: Profile | None) -> str:
    if own.wishes or known is not None or (traits.gives_rivals and not own.of_quit):
        return "auto"
    if not traits.comparable and not own.of_quit:
        return f"fixed:{min(FIXED, own.n or FIXED)}"
    return "quit"


def _support(choice: RerankRecipe) -> str | None:
    try:
        usual = reranking_of(choice).usual_support
    except QuitmtError:  # ``check`` says what is wrong with it
        return choice.support
    return None if usual is None else choice.support or usual


def _traits(recipe: Recipe, given: Given) -> RerankerTraits:
    try:
        return reranker_traits(recipe, given, installed=False)
    except QuitmtError:  # ``check`` says what is wrong with it
        return RerankerTraits()


def _with_defaults(model: ModelRecipe, given: Given, *, takes_anchors: bool) -> ModelRecipe:
    """With the sampling that is safe for the kind of model, and the anchors that it is best with."""
    backend = None if given.generator is not None else _backend(model)
    if backend is None:  # it samples as it likes, or has done so
        return model
    if model.beams is not None:  # nothing is sampled
        return replace(model, anchors=model.anchors or NONE)
    changes: dict[str, Any] = {}
    if model.temperature is None:
        changes["temperature"] = backend.temperature
    if model.anchors is None:
        changes["anchors"] = backend.anchors if takes_anchors and model.temperature != 0 else NONE
    return replace(model, **changes)


def _backend(model: ModelRecipe) -> Backend | None:
    try:
        return generate.find(model.name or "")
    except UsageError:  # ``check`` says what is wrong with it
        return None


def build_rule(recipe: StopRecipe) -> StoppingRule:
    return stop.load(
        "quit" if recipe.rule is None else recipe.rule,
        k=recipe.k,
        w=recipe.w,
        alpha=recipe.alpha,
        n=recipe.n,
        single=recipe.single_step_window or None,
    )


def sampling_of(model: ModelRecipe) -> Sampling:
    """Where nothing is said, as in the paper: ``effective`` comes first."""
    temperature = PAPER_TEMPERATURE if model.temperature is None else model.temperature
    return Sampling(temperature, model.top_k, model.top_p, model.epsilon, model.seed, model.min_p)


def reranking_of(recipe: RerankRecipe) -> Reranking:
    return Reranking(recipe.name, recipe.variant, recipe.filter, recipe.keep, recipe.support)


def hardware_of(recipe: RerankRecipe) -> Hardware | None:
    """None where there is no scoring model."""
    return Hardware(recipe.device, recipe.dtype, recipe.batch_tokens) if reranking_of(recipe).neural else None


def granted_of(recipe: Recipe, given: Given, known: Profile | None, *, steer: bool = True) -> Granted | None:
    """The rule for a wish, if the recipe has one; see ``auto.rule``."""
    own = recipe.stop
    if own.rule != "auto":
        return None
    wish = Wish(None if own.max_loss is None else str(own.max_loss), own.max_cost)
    k, n = own.k or STEP, own.n or BUDGET
    traits = reranker_traits(recipe, given, installed=False)
    named = recipe.model.anchors if given.generator is None else None
    anchors = sum(anchor.count for anchor in anchor_names.parse(named)) if named else 0
    return auto.rule(title_of(recipe, given), traits, wish, known, k=k, n=n, anchors=anchors, steer=steer)


def reranker_traits(recipe: Recipe, given: Given, *, installed: bool = True) -> RerankerTraits:
    """Known before it is loaded."""
    if given.reranker is not None:
        return traits_of(given.reranker, RerankerTraits)
    choice = reranking_of(recipe.rerank)
    choice.check(installed=installed)
    return choice.traits


def title_of(recipe: Recipe, given: Given) -> str:
    """What messages call the reranker, and what is known of rerankers is found by: nothing is known of MBR with a
    support of the user's."""
    if given.reranker is not None:
        return given.reranker.signature.partition("|")[0]
    own = recipe.rerank
    return f"{own.name} with {setting('rerank.support', TEXTS)}" if own.support == TEXTS else own.name


def profile_of(recipe: Recipe, given: Given) -> Profile | None:
    if given.profile is not None or recipe.stop.profile is None:
        return given.profile
    with placed("stop.profile"):
        return profiles.read(recipe.stop.profile, allow_functions=recipe.run.allow_functions)


def _in_flight(model: ModelRecipe, given: Given, *, recorded: bool) -> int:
    if given.generator is not None:
        return RECORDED_IN_FLIGHT if recorded else IN_FLIGHT
    backend, servers = _backend(model), model.options.get("base_url")
    count = len(servers) if isinstance(servers, list | tuple) else 1
    return backend.in_flight * max(1, count) if backend else IN_FLIGHT
