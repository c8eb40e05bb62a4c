"""From a plan to its parts: the only code that puts generators, rerankers and rules together."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from quitmt import generate, stop
from quitmt.engine.deadlines import Clock, Deadlines
from quitmt.engine.driver import Driver
from quitmt.engine.session import Session
from quitmt.engine.slots import Observer
from quitmt.generate import anchors as anchor_names
from quitmt.generate.anchors import Anchored
from quitmt.plan.choose import Choice, unsteered, warn_of_basis
from quitmt.plan.plan import Plan
from quitmt.plan.recipe import Recipe
from quitmt.plan.resolve import hardware_of, sampling_of
from quitmt.plan.sections import ModelRecipe, RerankRecipe, StopRecipe
from quitmt.protocols import Generator, GeneratorTraits, Reranker, StoppingRule, traits_of
from quitmt.rerank import Reranking
from quitmt.stop.steering import Steered

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Built:
    """A plan and its parts, loaded."""

    plan: Plan
    generator: Generator
    reranker: Reranker[Any]

    @property
    def recipe(self) -> Recipe:
        return self.plan.recipe

    @property
    def rule(self) -> StoppingRule:
        return self.plan.rule

    @property
    def choice(self) -> Choice | None:
        return self.plan.choice

    def without_order(self) -> Built:
        """The same parts, with a rule under which no segment depends on another."""
        return replace(self, plan=replace(self.plan, rule=unsteered(self.rule)))

    def driver(self, observer: Observer | None = None, clock: Clock | None = None, *, ranked: bool = False) -> Driver:
        """Make the driver of one run. With ``ranked``, segments come with the scores of all their candidates."""
        run = self.recipe.run
        return Driver(
            self.generator,
            self.reranker,
            self.rule,
            in_flight=self.plan.in_flight,
            observer=observer,
            speculate=run.speculate,
            deadlines=Deadlines(run.deadline, run.run_deadline),
            clock=clock,
            recipe=self.recipe.of_results(),
            nbest=run.nbest or 0,
            ranked=ranked,
            share=True,
        )

    def session(self, clock: Clock | None = None, *, learns: bool = False) -> Session:
        """Make the session of a server, which has its own deadlines, and no order of segments to pace them by. With
        ``learns``, a rule that learns does so from all requests; otherwise the result of one depends on no other."""
        return Session(
            self.generator,
            self.reranker,
            self.rule if learns and not isinstance(self.rule, Steered) else unsteered(self.rule),
            in_flight=self.plan.in_flight,
            speculate=self.recipe.run.speculate,
            clock=clock,
            share=True,
        )

    def rule_for(self, *, max_loss: float | str | None = None, max_cost: float | None = None) -> StoppingRule:
        """The rule for a target of one segment that belongs to no run; without a target the plan's rule."""
        if max_loss is None and max_cost is None:
            return unsteered(self.rule)
        return self.plan.rule_for(max_loss=max_loss, max_cost=max_cost)


def build(plan: Plan) -> Built:
    """Load the parts of a plan, and warn where the figures that its rule was chosen by need not hold."""
    recipe, choice, parts = plan.recipe, plan.choice, plan.parts
    generator, reranker = parts.generator or _generator(plan), parts.reranker
    if reranker is None:
        assert plan.reranking is not None
        reranker = plan.reranking.load(recipe.model.languages, plan.hardware)
    sampled = None if traits_of(generator, GeneratorTraits).recorded else generator.signature
    if choice and choice.profile:
        own, shape = plan.profile is not None, (plan.step, plan.budget)
        choice.profile.check_fits(sampled, reranker.signature, recipe.model.languages, shape, own=own)
    elif choice and recipe.stop.max_loss is not None:
        warn_of_basis(plan.scored.reranker, sampled)
    if choice and choice.warning:
        log.warning(choice.warning)
    return Built(plan, generator, reranker)


def build_generator(model: ModelRecipe) -> Generator:
    """Load a generator with its anchors, by complete settings, as the lab has them."""
    name, *_ = generate.resolve(model.name, *model.languages)
    sampling = sampling_of(model)
    generator = generate.load(name, sampling, languages=model.languages, options=model.options)
    anchors = anchor_names.parse(model.anchors) if model.anchors is not None else ()
    return Anchored(generator, anchors, sampling) if anchors else generator


def build_reranker(recipe: RerankRecipe, languages: tuple[str | None, str | None]) -> Reranker[Any]:
    """Load a reranker by complete settings, as the lab has them."""
    named = Reranking(recipe.name, recipe.variant, recipe.filter, recipe.keep, recipe.support)
    named.check()
    return named.load(languages, hardware_of(recipe, neural=named.neural))


def build_rule(own: StopRecipe) -> StoppingRule:
    """Make a stopping rule by its name; what is left open is as the rule has it."""
    single = own.single_step_window or None
    return stop.load(own.rule or "quit", k=own.k, w=own.w, alpha=own.alpha, n=own.n, single=single)


def _generator(plan: Plan) -> Generator:
    own = plan.recipe.model
    assert plan.model is not None
    generator = plan.model.load(plan.sampling, own.languages, own.options)
    return Anchored(generator, plan.anchors, plan.sampling) if plan.anchors else generator
