"""From a recipe to a plan: fills in every default, chooses the rule, and finds mistakes. Loads no model.

Each name is parsed once, and each mistake is reported once, together with all others (``Mistakes``). Functions of the
user's are imported, because only so it is known whether they exist, and a profile is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from quitmt import generate, stop
from quitmt.calibrate import profile as profiles
from quitmt.calibrate.profile import Profile
from quitmt.defaults import AUTO_BUDGET, AUTO_STEP, BUDGET, IN_FLIGHT, KEEP, LANGUAGES, RECORDED_IN_FLIGHT, STEP
from quitmt.engine.deadlines import Deadlines
from quitmt.errors import Mistakes, QuitmtError, UsageError, place, placed, setting
from quitmt.generate import Model
from quitmt.generate import anchors as anchor_names
from quitmt.generate.anchors import NONE, Anchor
from quitmt.metrics.devices import DTYPES, Hardware
from quitmt.metrics.registry import MetricEntry
from quitmt.plan.choose import Choice, Scored, Target, choose, usual_rule
from quitmt.plan.recipe import OBJECT, Origin, Recipe
from quitmt.plan.sections import ModelRecipe, RerankRecipe, StopRecipe
from quitmt.protocols import Generator, GeneratorTraits, Reranker, RerankerTraits, StoppingRule, traits_of
from quitmt.rerank import Reranking, specs
from quitmt.rerank.anchors import TEXTS
from quitmt.sampling import Sampling
from quitmt.stop import NamedRule
from quitmt.stop.steering import Steered
from quitmt.stop.window import Quit

log = logging.getLogger(__name__)

SAMPLING = ("temperature", "top_k", "top_p", "epsilon", "min_p")
OF_PROFILES = ("name", "variant", "support", "filter", "keep")
"""Fields of a reranker that a profile is made for: its thresholds are in the units of the scores."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts that the caller has as objects, which replace those that the recipe names."""

    generator: Generator | None = None
    reranker: Reranker[Any] | None = None
    rule: StoppingRule | None = None
    profile: Profile | None = None


NO_PARTS = Parts()


@dataclass(frozen=True)
class Plan:
    """What runs: every default filled in, every name parsed, the rule chosen. ``quitmt.plan.build`` loads it."""

    recipe: Recipe
    """With every field that was left open, and the origin of each value."""
    parts: Parts
    model: Model | None
    """None for a generator that is an object."""
    sampling: Sampling
    anchors: tuple[Anchor, ...]
    reranking: Reranking | None
    """None for a reranker that is an object."""
    hardware: Hardware | None
    """Where scoring models run; None if there is none."""
    scored: Scored
    """The reranker's title and traits, k, n, and the number of anchors."""
    rule: StoppingRule
    choice: Choice | None
    """How the rule was chosen; None for a rule that the recipe names."""
    profile: Profile | None
    in_flight: int

    @property
    def step(self) -> int:
        return self.scored.k

    @property
    def budget(self) -> int:
        return self.scored.n

    @property
    def traits(self) -> RerankerTraits:
        return self.scored.traits

    def rule_for(self, *, max_loss: float | str | None = None, max_cost: float | str | None = None) -> StoppingRule:
        """The rule for another target, for a segment that belongs to no run."""
        wanted = self.recipe.changed({"stop.max_loss": max_loss, "stop.max_cost": max_cost}).stop
        rule = choose(self.scored, _target(wanted), self.profile, steer=False).rule
        stop.check_fits(rule, self.traits, self.recipe.rerank.name)
        return rule

    def require(self) -> None:
        """Raise if an extra that the plan needs isn't installed here."""
        if self.reranking is not None:
            self.reranking.require()
        if self.model is not None and self.model.backend is not None:
            self.model.backend.require(f"{self.model.kind}:")

    def refuse_texts(self, whose: str) -> None:
        """Refuse pseudo-references in a place that has none for its segments."""
        refuse_texts(self.recipe, whose)

    def refuse_pacing(self, why: str = "workers of a batch have none") -> None:
        """Refuse a rule by which segments depend on each other, where segments have no order."""
        if isinstance(self.rule, Steered):
            rule = setting("stop.rule", f"fixed:{self.rule.alone()}")
            hint = f"calibrate and give {setting('stop.profile')}, or take {rule}"
            raise UsageError(f"{setting('stop.max_cost')} paces segments in their order, and {why}", hint=hint)


def refuse_texts(recipe: Recipe, whose: str) -> None:
    if recipe.rerank.support == TEXTS:
        hint = "take quitmt translate or quitmt rerank with --support-from FILE"
        texts = setting("rerank.support", TEXTS)
        raise UsageError(f"{texts} needs texts for each segment, and {whose} has none", hint=hint)


def resolve(recipe: Recipe, parts: Parts = NO_PARTS, *, installed: bool = True) -> Plan:
    """Resolve a recipe, or raise everything that is wrong with it. ``installed`` is False for a recipe that runs on
    another machine: extras that are missing here are then allowed."""
    return _Resolver(recipe, parts, installed=installed).plan()


class _Resolver:
    """One resolution. Each step fills in fields; a step that depends on a failed one does what it can without it."""

    def __init__(self, recipe: Recipe, parts: Parts, *, installed: bool) -> None:
        self._said, self._recipe, self._parts, self._installed = recipe, recipe, parts, installed
        self._errors: dict[str, QuitmtError] = {}
        recorded = parts.generator is not None and traits_of(parts.generator, GeneratorTraits).recorded
        self._recorded = recorded

    @contextmanager
    def _collected(self, field: str | None = None) -> Iterator[None]:
        """Collect the mistake that the block raises; ``field`` is the setting that it is about."""
        try:
            if field is None:
                yield
            else:
                with placed(field):
                    yield
        except QuitmtError as error:
            self._errors.setdefault(str(error), error)

    def _fill(self, field: str, value: Any, origin: Origin) -> None:
        """Set a field that the user left open."""
        section, _, name = field.partition(".")
        if value is not None and getattr(getattr(self._recipe, section), name) is None:
            self._recipe = self._recipe.changed({field: value}, lambda _: origin)

    def plan(self) -> Plan:
        self._check_run()
        reranking, hardware = self._reranking()
        traits, metric = self._scores(reranking)
        sampling = self._sampling()
        model, anchors = self._model(traits)
        if model is not None and sampling is not None:
            with self._collected("model.name"):
                own = self._recipe.model
                sampling = replace(sampling, temperature=self._temperature())
                model.check(sampling, own.languages, own.options, installed=self._installed)
        named, known = self._rule_name(traits), self._profile()
        counted = () if self._parts.generator is not None else anchors
        k, n = self._numbers(named, known, traits)
        scored = Scored(self._title, traits or RerankerTraits(), metric, k, n, sum(one.count for one in counted))
        rule, choice = self._rule(named, known, scored, broken=traits is None)
        if self._errors:
            raise next(iter(self._errors.values())) if len(self._errors) == 1 else Mistakes([*self._errors.values()])
        assert sampling is not None and rule is not None
        in_flight = self._in_flight(model)
        self._name_objects(choice)
        return Plan(
            self._with_defaults(),
            self._parts,
            model,
            sampling,
            anchors,
            reranking,
            hardware,
            scored,
            rule,
            choice,
            known,
            in_flight,
        )

    def _check_run(self) -> None:
        run = self._recipe.run
        with self._collected("run.deadline"):
            Deadlines(run.deadline)
        with self._collected():
            if run.nbest is not None and run.nbest < 1:
                raise UsageError(f"{setting('run.nbest')} must be a whole number of at least 1, not {run.nbest}")
        with self._collected("run.run_deadline"):
            Deadlines(None, run.run_deadline)
        with self._collected():
            if run.in_flight is not None and run.in_flight < 1:
                where = place("run.in_flight")
                raise UsageError(f"{where}at least 1 segment must be in flight, not {run.in_flight}")

    def _reranking(self) -> tuple[Reranking | None, Hardware | None]:
        """The reranker by name; None if it is an object, or wrong."""
        own = self._recipe.rerank
        if own.filter is not None:
            self._fill("rerank.keep", KEEP, Origin("default"))
        if self._parts.reranker is not None:
            return None, None
        with self._collected():
            _refuse_object(own.name, "rerank.name")
            named = Reranking(own.name, own.variant, own.filter, own.keep, own.support)
            named.check(installed=self._installed)
            self._fill("rerank.support", named.usual_support, Origin("default", f"for {own.name}"))
            named = named.supported_by(self._recipe.rerank.support)
            return named, hardware_of(own, neural=named.neural)
        return None, None

    def _scores(self, named: Reranking | None) -> tuple[RerankerTraits | None, MetricEntry | None]:
        """The title, the traits, and the entry of the only metric. Traits are None if the name is wrong. Nothing is
        known about scores by pseudo-references."""
        given, own = self._parts.reranker, self._recipe.rerank
        if given is not None:
            return traits_of(given, RerankerTraits), specs.entry_of(self._title)
        if named is None:
            return None, None
        return named.traits, None if own.support == TEXTS else named.metric.entry

    @property
    def _title(self) -> str:
        """What messages call the reranker, and the key to what is known about it."""
        given, own = self._parts.reranker, self._recipe.rerank
        if given is not None:
            return given.signature.partition("|")[0]
        return f"{own.name} with {setting('rerank.support', TEXTS)}" if own.support == TEXTS else own.name

    def _sampling(self) -> Sampling | None:
        own, count = self._recipe.model, len(self._errors)
        for name in SAMPLING:
            if getattr(own, name) is not None:
                with self._collected():
                    Sampling(**{name: getattr(own, name)})
        if len(self._errors) > count:
            return None
        return sampling_of(own)

    def _temperature(self) -> float:
        found = self._recipe.model.temperature
        return Sampling().temperature if found is None else found

    def _model(self, traits: RerankerTraits | None) -> tuple[Model | None, tuple[Anchor, ...]]:
        """The model by name, None if it is an object or wrong, and the anchors."""
        own, model = self._recipe.model, None
        with self._collected():
            if own.context < 0:
                raise UsageError(f"{setting('model.context')} must be 0 or more, not {own.context}")
        if self._recorded:  # the languages of the embedded model, for metrics that must know them
            for field, language in zip(("source_language", "target_language"), LANGUAGES, strict=True):
                self._fill(f"model.{field}", language, Origin("default"))
        if self._parts.generator is None:
            with self._collected("model.name"):
                _refuse_object(own.name, "model.name")
                model = self._found()
        if model is not None and model.backend is not None:
            takes = traits is None or (traits.takes_anchors and self._recipe.rerank.support != "all")
            origin = Origin("engine", model.kind)
            usual = model.backend.anchors if takes and own.temperature != 0 else NONE
            self._fill("model.temperature", model.backend.temperature, origin)
            self._fill("model.anchors", usual, origin if takes else Origin("default", "for this reranker"))
        if own.context and model is not None and not (model.backend and model.backend.prompted):
            with self._collected():
                raise UsageError(f"{setting('model.context')} goes with chat models, not with {model.spec}")
        return model, self._anchors(model, traits)

    def _found(self) -> Model:
        """Look the model up, and fill in its name and languages."""
        own = self._recipe.model
        name, source, target = generate.resolve(own.name, *own.languages)
        languages = {"model.source_language": source, "model.target_language": target}
        origin = Origin("default", f"for {name}") if own.name else Origin("default")
        by_languages = own.source_language or own.target_language
        self._fill("model.name", name, Origin("default", "for the languages" if by_languages else ""))
        for field, language in languages.items():
            if language is not None:
                self._fill(field, language, origin)
                if getattr(self._recipe.model, field.partition(".")[2]) != language:  # without its region
                    self._recipe = self._recipe.changed({field: language}, self._recipe.origins.get)
        return generate.find(name)

    def _anchors(self, model: Model | None, traits: RerankerTraits | None) -> tuple[Anchor, ...]:
        named = self._recipe.model.anchors
        if named is None or self._recorded:  # recorded anchors have the names that they were recorded with
            return ()
        with self._collected():
            anchors = anchor_names.parse(named)
            if anchors and traits is not None and not traits.takes_anchors:
                hint = f"give {setting('model.anchors', NONE)}"
                raise UsageError(f"{self._title} scores samples only, no anchors", hint=hint)
            if model is not None:
                model.check_anchors(anchors)
            return anchors
        return ()

    def _in_flight(self, model: Model | None) -> int:
        servers = self._recipe.model.options.get("base_url")
        count = max(1, len(servers)) if isinstance(servers, list | tuple) else 1
        usual, origin = RECORDED_IN_FLIGHT if self._recorded else IN_FLIGHT, Origin("default")
        if model is not None and model.backend is not None:
            usual, origin = model.backend.in_flight * count, Origin("engine", model.kind)
        self._fill("run.in_flight", usual, origin)
        return self._recipe.run.in_flight or usual

    def _profile(self) -> Profile | None:
        if self._parts.profile is not None:
            return self._parts.profile
        path = self._recipe.stop.profile
        if path is None or self._parts.rule is not None:
            return None
        with self._collected("stop.profile"):
            return profiles.read(path, allow_functions=self._recipe.run.allow_functions)
        return None

    def _rule_name(self, traits: RerankerTraits | None) -> NamedRule | None:
        """The rule by name; None for an object, for ``auto``, and for a wrong name."""
        own = self._recipe.stop
        with self._collected("stop.max_loss" if own.max_cost is None else "stop.max_cost"):
            _target(own)
        if own.rule not in (None, "auto") and (own.targets or self._parts.profile):
            with self._collected():
                both = f"{setting('stop.max_loss')}, {setting('stop.max_cost')}"
                auto = setting("stop.rule", "auto")
                raise UsageError(f"{both} and {setting('stop.profile')} go with {auto}, not with {own.rule}")
        if self._parts.rule is not None:
            return None
        targets = own.targets or self._parts.profile is not None
        n = own.n if own.n is not None and own.n > 0 else None
        rule, why = usual_rule(traits or RerankerTraits(), n=n, targets=targets, quit_settings=own.of_quit)
        self._fill("stop.rule", rule, Origin("default", why))
        if self._recipe.stop.rule != "auto":
            with self._collected("stop.rule"):
                _refuse_object(self._recipe.stop.rule, "stop.rule")
                return stop.find(str(self._recipe.stop.rule))
        return None

    def _numbers(
        self, named: NamedRule | None, known: Profile | None, traits: RerankerTraits | None
    ) -> tuple[int, int]:
        """k and n, after all numbers of the rule are checked; a wrong one counts as its default."""
        own = self._recipe.stop
        for name, value in (("k", own.k), ("n", own.n)):
            if value is not None and value < 1:
                with self._collected():
                    raise UsageError(f"{setting(f'stop.{name}')} must be a whole number of at least 1, not {value}")
        checks: dict[str, Callable[[], object]] = {}
        if own.w is not None:
            checks["stop.w"] = lambda: Quit(window=own.w or 0, single=own.single_step_window)
        if own.alpha is not None:
            checks["stop.alpha"] = lambda: Quit(alpha=own.alpha or 0.0)
        for field, check in checks.items():
            with self._collected(field):
                check()
        if self._parts.rule is not None:
            return self._parts.rule.step, self._parts.rule.budget
        step, budget, origin = STEP, BUDGET, Origin("default")
        if known is not None:
            step, budget, origin = known.step, known.budget, Origin("profile", own.profile or "")
        elif named is not None:
            step, budget = named.default("step"), named.default("budget")
        elif own.rule == "auto" and traits is not None and traits.gives_rivals and not traits.judges_itself:
            step, budget, origin = AUTO_STEP, AUTO_BUDGET, Origin("default", "for auto with exact MBR")
        self._fill("stop.k", step, origin)
        self._fill("stop.n", budget, origin)
        if named is not None:
            for field, name in (("w", "window"), ("alpha", "alpha")):
                if name in named.takes:
                    self._fill(f"stop.{field}", named.default(name), Origin("default"))
        k, n = own.k if own.k and own.k > 0 else step, own.n if own.n and own.n > 0 else budget
        if own.k == k and k > n:
            with self._collected():
                hint = f"give at most {n}, or a larger {setting('stop.n')}"
                raise UsageError(f"{setting('stop.k', k)} is more than the budget of {n} candidates", hint=hint)
        return k, n

    def _rule(
        self, named: NamedRule | None, known: Profile | None, scored: Scored, *, broken: bool
    ) -> tuple[StoppingRule | None, Choice | None]:
        """The rule, and how it was chosen. A ``broken`` reranker has no traits that a rule could fit."""
        own, choice, rule = self._recipe.stop, None, self._parts.rule
        if rule is not None:
            return rule, None
        if named is None and own.rule != "auto":  # a wrong name
            return None, None
        self._check_taken(named, str(own.rule))
        if known and known.recipe and self._parts.reranker is None:
            with self._collected():
                _check_profile(known.recipe, self._recipe)
        with self._collected("stop.rule"):
            if named is not None:
                single = own.single_step_window or None
                rule = named.make(k=scored.k, w=own.w, alpha=own.alpha, n=scored.n, single=single)
            elif not broken:
                choice = choose(scored, _target(own), known)
                rule = choice.rule
            if rule is not None and not broken:
                stop.check_fits(rule, scored.traits, scored.reranker)
        return rule, choice

    def _check_taken(self, named: NamedRule | None, rule: str) -> None:
        """Warn of settings that do nothing with the rule, and refuse those that a finished rule contradicts."""
        said, takes = self._said.stop, named.takes if named is not None else frozenset()
        for taken in ("window", "alpha", "single"):
            field = stop.SHARED[taken]
            if getattr(said, field) not in (None, False) and taken not in takes:
                usual = setting("stop.rule", "quit")
                log.warning(f"{setting(f'stop.{field}')} does nothing with {rule}: it goes with {usual}")
        if named is None or not named.is_made:
            return
        for field, value, made in (("k", said.k, named.default("step")), ("n", said.n, named.default("budget"))):
            if value not in (None, made):
                with self._collected():
                    hint = f"leave {setting(f'stop.{field}')} out, or name the class"
                    raise UsageError(f"{rule} is made already, with {setting(f'stop.{field}', made)}", hint=hint)

    def _name_objects(self, choice: Choice | None) -> None:
        """Give names to the parts that are objects."""
        parts, changes = self._parts, dict[str, Any]()
        named = (("model.name", parts.generator), ("rerank.name", parts.reranker), ("stop.rule", parts.rule))
        for field, part in named:
            if part is not None:
                changes[field] = f"{OBJECT}{part.signature.partition('|')[0]}"
        if parts.rule is not None:
            changes |= {"stop.k": parts.rule.step, "stop.n": parts.rule.budget}
        if parts.profile is not None and choice is not None:
            changes |= {"stop.rule": choice.spec, "stop.max_loss": None, "stop.max_cost": None}
        self._recipe = self._recipe.changed(changes, lambda _: Origin("keyword"))

    def _with_defaults(self) -> Recipe:
        """The recipe with an origin for every value that a Python program or a field's default gave."""
        origins, default = dict(self._recipe.origins), Recipe().to_fields()
        for section, fields in self._recipe.to_fields().items():
            for name, value in fields.items():
                if default.get(section, {}).get(name) == value:
                    origins.setdefault(f"{section}.{name}", Origin("default"))
        return replace(self._recipe, origins=origins)


def _target(own: StopRecipe) -> Target:
    return Target(None if own.max_loss is None else str(own.max_loss), own.max_cost)


def sampling_of(own: ModelRecipe) -> Sampling:
    """The sampling of a model's settings, with the paper's temperature where none is set."""
    said = {name: value for name in SAMPLING if (value := getattr(own, name)) is not None}
    return Sampling(**said, seed=own.seed)


def hardware_of(own: RerankRecipe, *, neural: bool) -> Hardware | None:
    """Where scoring models run."""
    fields = {"rerank.device": own.device, "rerank.dtype": own.dtype, "rerank.batch_tokens": own.batch_tokens}
    if not neural and (extra := next((name for name, value in fields.items() if value is not None), None)):
        raise UsageError(f"{setting(extra)} goes with scoring models such as mbr:comet, not with {own.name}")
    if own.dtype is not None and own.dtype not in DTYPES:
        raise UsageError(f"{setting('rerank.dtype')} must be one of {', '.join(DTYPES)}, not {own.dtype!r}")
    hardware = Hardware(own.device, own.dtype, own.batch_tokens)
    return hardware if neural else None


def _check_profile(calibrated: Mapping[str, Any], recipe: Recipe) -> None:
    """Refuse a profile that was made for another reranker."""
    theirs, own = calibrated.get("rerank", {}), recipe.of_results().get("rerank", {})
    for name in OF_PROFILES:
        if theirs.get(name) != own.get(name):
            hint = "rerank as it was calibrated, or calibrate again"
            requested = f"{setting(f'rerank.{name}')} is {own.get(name)}"
            raise UsageError(f"{requested}, and {setting('stop.profile')} was made for {theirs.get(name)}", hint=hint)


def _refuse_object(name: str | None, field: str) -> None:
    if name is not None and name.startswith(OBJECT):
        hint = "give the recipe a name for it: module:attribute"
        was = f"{setting(field)} {name!r} was an object of a Python program"
        raise UsageError(f"{was} and cannot be made again", hint=hint)
