"""From a recipe to a plan: fills in every default, chooses the rule, and finds mistakes. Loads no model.

Each name is parsed once, and each mistake is reported once, together with all others (``Mistakes``). Functions of the
user's are imported, because only so it is known whether they exist, and a profile is read.
"""

from __future__ import annotations

from quitmt import generate
from quitmt.defaults import IN_FLIGHT, KEEP, LANGUAGES, RECORDED_IN_FLIGHT
from quitmt.engine.deadlines import Deadlines
from quitmt.errors import UsageError, setting
from quitmt.generate import Model
from quitmt.generate import anchors as anchor_names
from quitmt.generate.anchors import NONE, Anchor
from quitmt.metrics.devices import DTYPES, Hardware
from quitmt.metrics.registry import MetricEntry
from quitmt.plan.draft import PlanDraft
from quitmt.plan.plan import NO_PARTS, Parts, Plan
from quitmt.plan.recipe import Origin, Recipe
from quitmt.plan.sections import ModelRecipe, RerankRecipe
from quitmt.plan.stopping import resolve_stop
from quitmt.protocols import RerankerTraits, traits_of
from quitmt.rerank import Reranking, specs
from quitmt.rerank.anchors import TEXTS
from quitmt.sampling import Sampling

SAMPLING = ("temperature", "top_k", "top_p", "epsilon", "min_p")


def resolve(recipe: Recipe, parts: Parts = NO_PARTS, *, installed: bool = True) -> Plan:
    """Resolve a recipe, or raise everything that is wrong with it. ``installed`` is False for a recipe that runs on
    another machine: extras that are missing here are then allowed."""
    draft = PlanDraft(recipe, parts, installed=installed)
    _check_run(draft)
    reranking, hardware = _reranking(draft)
    traits, metric = _scores(draft, reranking)
    model = _model(draft, traits)
    sampling = _sampling(draft, model)
    anchors = _anchors(draft, model, traits)
    counted = 0 if parts.generator is not None else sum(anchor.count for anchor in anchors)
    scored, rule, choice, profile = resolve_stop(draft, traits, metric, counted)
    draft.raise_mistakes()
    assert sampling is not None and rule is not None
    in_flight = _in_flight(draft, model)
    draft.name_objects(choice.spec if choice else None)
    whole = draft.complete()
    return Plan(
        whole, parts, model, sampling, anchors, reranking, hardware, scored, rule, choice, profile, in_flight
    )  # fmt: skip


def _check_run(draft: PlanDraft) -> None:
    run = draft.recipe.run
    with draft.collected("run.deadline"):
        Deadlines(run.deadline)
    with draft.collected("run.run_deadline"):
        Deadlines(None, run.run_deadline)
    with draft.collected():
        if run.nbest is not None and run.nbest < 1:
            raise UsageError(f"{setting('run.nbest')} must be a whole number of at least 1, not {run.nbest}")
    with draft.collected():
        if run.in_flight is not None and run.in_flight < 1:
            raise UsageError(f"at least 1 segment must be in flight, not {run.in_flight}", field="run.in_flight")


def _reranking(draft: PlanDraft) -> tuple[Reranking | None, Hardware | None]:
    """The reranker by name; None if it is an object, or wrong."""
    if draft.recipe.rerank.filter is not None:
        draft.fill("rerank.keep", KEEP, Origin("default"))
    own = draft.recipe.rerank
    if draft.parts.reranker is not None:
        return None, None
    with draft.collected():
        draft.refuse_object(own.name, "rerank.name")
        named = Reranking(own.name, own.variant, own.filter, own.keep, own.support)
        named.check(installed=draft.installed)
        draft.fill("rerank.support", named.usual_support, Origin("default", f"for {own.name}"))
        return named.supported_by(draft.recipe.rerank.support), hardware_of(own, neural=named.neural)
    return None, None


def _scores(draft: PlanDraft, named: Reranking | None) -> tuple[RerankerTraits | None, MetricEntry | None]:
    """The traits, None if the reranker's name is wrong, and the entry of its only metric, from which the scale of the
    scores is known; with pseudo-references it is unknown."""
    if draft.parts.reranker is not None:
        return traits_of(draft.parts.reranker, RerankerTraits), specs.entry_of(draft.title)
    if named is None:
        return None, None
    return named.traits, None if named.support == TEXTS else named.metric.entry


def _model(draft: PlanDraft, traits: RerankerTraits | None) -> Model | None:
    """The model by name, None if it is an object or wrong; fills in what the engine declares."""
    own, model = draft.recipe.model, None
    with draft.collected():
        if own.context < 0:
            raise UsageError(f"{setting('model.context')} must be 0 or more, not {own.context}")
    if draft.recorded:  # the languages of the embedded model, for metrics that must know them
        for field, language in zip(("source_language", "target_language"), LANGUAGES, strict=True):
            draft.fill(f"model.{field}", language, Origin("default"))
    if draft.parts.generator is None:
        with draft.collected("model.name"):
            draft.refuse_object(own.name, "model.name")
            model = _look_up(draft)
    if model is not None and model.backend is not None:
        takes = traits is None or (traits.takes_anchors and draft.recipe.rerank.support != "all")
        origin = Origin("engine", model.kind)
        usual = model.backend.anchors if takes and own.temperature != 0 else NONE
        draft.fill("model.temperature", model.backend.temperature, origin)
        draft.fill("model.anchors", usual, origin if takes else Origin("default", "for this reranker"))
    if own.context and model is not None and not (model.backend and model.backend.prompted):
        with draft.collected():
            raise UsageError(f"{setting('model.context')} goes with chat models, not with {model.spec}")
    return model


def _look_up(draft: PlanDraft) -> Model:
    """Look the model up, and fill in its name and languages."""
    own = draft.recipe.model
    name, *languages = generate.resolve(own.name, *own.languages)
    reason = "for the languages" if own.source_language or own.target_language else ""
    draft.fill("model.name", name, Origin("default", reason))
    origin = Origin("default", f"for {name}" if own.name else "")
    for field, language in zip(("source_language", "target_language"), languages, strict=True):
        draft.fill(f"model.{field}", language, origin)
        if getattr(draft.recipe.model, field) != language:  # an embedded model has no region
            draft.recipe = draft.recipe.changed({f"model.{field}": language}, draft.recipe.origins.get)
    return generate.find(name)


def _sampling(draft: PlanDraft, model: Model | None) -> Sampling | None:
    """The sampling, if every setting of it is right; checks the engine's settings too."""
    own, mistakes = draft.recipe.model, draft.mistakes
    for name in SAMPLING:
        with draft.collected():
            if getattr(own, name) is not None:
                Sampling(**{name: getattr(own, name)})
    sampling = sampling_of(own) if draft.mistakes == mistakes else None
    if model is not None:
        with draft.collected("model.name"):
            model.check(sampling or Sampling(), own.languages, own.options, installed=draft.installed)
    return sampling


def _anchors(draft: PlanDraft, model: Model | None, traits: RerankerTraits | None) -> tuple[Anchor, ...]:
    named = draft.recipe.model.anchors
    if named is None or draft.recorded:  # recorded anchors have the names that they were recorded with
        return ()
    with draft.collected():
        anchors = anchor_names.parse(named)
        if anchors and traits is not None and not traits.takes_anchors:
            hint = f"give {setting('model.anchors', NONE)}"
            raise UsageError(f"{draft.title} scores samples only, no anchors", hint=hint)
        if model is not None:
            model.check_anchors(anchors)
        return anchors
    return ()


def _in_flight(draft: PlanDraft, model: Model | None) -> int:
    servers = draft.recipe.model.options.get("base_url")
    count = max(1, len(servers)) if isinstance(servers, list | tuple) else 1
    usual, origin = RECORDED_IN_FLIGHT if draft.recorded else IN_FLIGHT, Origin("default")
    if model is not None and model.backend is not None:
        usual, origin = model.backend.in_flight * count, Origin("engine", model.kind)
    draft.fill("run.in_flight", usual, origin)
    return draft.recipe.run.in_flight or usual


def sampling_of(own: ModelRecipe) -> Sampling:
    """The sampling of a model's settings, with the paper's temperature if none is set."""
    said = {name: value for name in SAMPLING if (value := getattr(own, name)) is not None}
    return Sampling(**said, seed=own.seed)


def hardware_of(own: RerankRecipe, *, neural: bool) -> Hardware | None:
    """Where scoring models run; None if there is none."""
    fields = {"rerank.device": own.device, "rerank.dtype": own.dtype, "rerank.batch_tokens": own.batch_tokens}
    if not neural and (extra := next((name for name, value in fields.items() if value is not None), None)):
        raise UsageError(f"{setting(extra)} goes with scoring models such as mbr:comet, not with {own.name}")
    if own.dtype is not None and own.dtype not in DTYPES:
        raise UsageError(f"{setting('rerank.dtype')} must be one of {', '.join(DTYPES)}, not {own.dtype!r}")
    hardware = Hardware(own.device, own.dtype, own.batch_tokens)
    return hardware if neural else None
