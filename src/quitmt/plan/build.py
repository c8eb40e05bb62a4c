"""From a recipe to its parts: the only code that puts generators, rerankers and rules together.

Objects of the caller's may stand in for what the recipe names (``Given``).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from quitmt import generate, rerank, stop
from quitmt.calibrate import auto, paced
from quitmt.calibrate.auto import Granted
from quitmt.engine.deadlines import Clock, Deadlines
from quitmt.engine.driver import Driver
from quitmt.engine.session import Session
from quitmt.engine.slots import Observer
from quitmt.errors import said
from quitmt.generate import anchors as anchor_names
from quitmt.generate.anchors import Anchored
from quitmt.generate.beams import GrowingBeams
from quitmt.protocols import Generator, GeneratorTraits, Reranker, RerankerTraits, StoppingRule, traits_of
from quitmt.recipe.check import check
from quitmt.recipe.effective import (
    BUDGET,
    IN_FLIGHT,
    NOTHING,
    STEP,
    Given,
    build_rule,
    effective,
    granted_of,
    hardware_of,
    profile_of,
    reranking_of,
    sampling_of,
    title_of,
)
from quitmt.recipe.recipe import OBJECT, ModelRecipe, Recipe, RerankRecipe

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Built:
    """The parts of a recipe, and the recipe with everything filled in."""

    recipe: Recipe
    generator: Generator
    reranker: Reranker[Any]
    rule: StoppingRule
    granted: Granted | None = None
    """How a wish was granted, if there was one."""

    def driver(self, observer: Observer | None = None, clock: Clock | None = None, *, ranked: bool = False) -> Driver:
        """With ``ranked``, segments come with the scores of all their candidates."""
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
            nbest=run.nbest or 0,
            ranked=ranked,
        )

    def session(self, clock: Clock | None = None) -> Session:
        """The same for a server, which has deadlines of its own, and no order of segments by which to pace them."""
        run = self.recipe.run
        return Session(
            self.generator,
            self.reranker,
            paced.unsteered(self.rule),
            in_flight=run.in_flight or IN_FLIGHT,
            speculate=run.speculate,
            clock=clock,
        )

    def rule_for(self, *, max_loss: float | str | None = None, max_cost: float | None = None) -> StoppingRule:
        """The rule for a wish in place of the recipe's own rule and wishes, for a segment that belongs to no run."""
        if max_loss is None and max_cost is None:
            return paced.unsteered(self.rule)
        wish = {"stop.rule": "auto", "stop.max_loss": max_loss, "stop.max_cost": max_cost}
        recipe = self.recipe.changed(wish)
        granted = granted_of(recipe, NOTHING, profile_of(recipe, NOTHING), steer=False)
        assert granted is not None
        stop.check_fits(granted.rule, traits_of(self.reranker, RerankerTraits), recipe.rerank.name)
        return granted.rule


def build(recipe: Recipe, given: Given = NOTHING) -> Built:
    check(recipe, given)
    known = profile_of(recipe, given)
    whole = effective(recipe, given)
    granted = None if given.rule else granted_of(whole, given, known)
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
        auto.tell_basis(title_of(recipe, given), sampled)
    if granted and granted.warning:
        log.warning(said(granted.warning))
    return Built(_named(whole, given, granted), generator, reranker, rule, granted)


def build_generator(model: ModelRecipe) -> Generator:
    """With its anchors, if it has any; ``effective`` comes first."""
    name, *_ = generate.resolve(model.name, *model.languages)
    sampling = sampling_of(model)
    generator = generate.load(name, sampling, languages=model.languages, options=model.options)
    if model.beams is not None:
        return GrowingBeams(generator, model.beams)
    anchors = anchor_names.parse(model.anchors) if model.anchors is not None else ()
    return Anchored(generator, anchors, sampling) if anchors else generator


def build_reranker(recipe: RerankRecipe, languages: tuple[str | None, str | None]) -> Reranker[Any]:
    choice = reranking_of(recipe)
    settings: dict[str, Any] = {
        "variant": choice.variant, "filter": choice.filter, "keep": choice.keep, "support": choice.support
    }  # fmt: skip
    return rerank.load(choice.name, languages=languages, hardware=hardware_of(recipe), **settings)


def _named(recipe: Recipe, given: Given, granted: Granted | None) -> Recipe:
    """With names for the parts that were given as objects."""
    changes: dict[str, Any] = {}
    for field, part in (("model.name", given.generator), ("rerank.name", given.reranker), ("stop.rule", given.rule)):
        if part is not None:
            changes[field] = f"{OBJECT}{part.signature.partition('|')[0]}"
    if given.rule is not None:
        changes |= {"stop.k": given.rule.step, "stop.n": given.rule.budget}
    if given.profile is not None and granted is not None:
        changes |= {"stop.rule": granted.spec, "stop.max_loss": None, "stop.max_cost": None}
    return recipe.changed(changes)
