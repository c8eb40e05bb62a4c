"""The stopping rule of a plan: by its name, or chosen for a target, with k, n and the rule's other numbers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from quitmt import stop
from quitmt.calibrate import profile as profiles
from quitmt.calibrate.profile import Profile
from quitmt.defaults import AUTO_BUDGET, AUTO_STEP, BUDGET, STEP
from quitmt.errors import UsageError, setting
from quitmt.metrics.registry import MetricEntry
from quitmt.plan.choose import KNOWN, Choice, Scored, Target, choose, usual_rule
from quitmt.plan.draft import PlanDraft
from quitmt.plan.recipe import Origin, Recipe
from quitmt.protocols import RerankerTraits, StoppingRule
from quitmt.stop import NamedRule
from quitmt.stop.window import Quit

log = logging.getLogger(__name__)

OF_PROFILES = ("name", "variant", "support", "filter", "keep")
"""Fields of a reranker that a profile is made for: its thresholds are in the units of the scores."""


def resolve_stop(
    draft: PlanDraft, traits: RerankerTraits | None, metric: MetricEntry | None, anchors: int
) -> tuple[Scored, StoppingRule | None, Choice | None, Profile | None]:
    """The rule, what it depends on, how it was chosen, and the profile. Without ``traits``, for a reranker with a
    mistake, only the names and numbers are checked. ``anchors`` are counted as cost."""
    named, known = _named(draft, traits), _profile(draft)
    k, n = _numbers(draft, named, known, traits)
    scored = Scored(draft.title, traits or RerankerTraits(), metric, k, n, anchors)
    if draft.parts.rule is not None:
        return scored, draft.parts.rule, None, None
    own, rule, choice = draft.recipe.stop, None, None
    if named is not None or own.rule == "auto":
        _check_taken(draft, named, str(own.rule))
        if known and known.recipe and draft.parts.reranker is None:
            with draft.collected():
                _check_profile(known.recipe, draft.recipe)
        with draft.collected("stop.rule"):
            if named is not None:
                rule = named.make(k=k, w=own.w, alpha=own.alpha, n=n, single=own.single_step_window or None)
            elif traits is not None:
                choice = choose(scored, Target.of(own), known)
                rule = choice.rule
            if rule is not None and traits is not None:
                stop.check_fits(rule, traits, draft.title)
    return scored, rule, choice, known


def _named(draft: PlanDraft, traits: RerankerTraits | None) -> NamedRule | None:
    """The rule by name; None for an object, for ``auto``, and for a wrong name."""
    own, profile = draft.recipe.stop, draft.parts.profile
    with draft.collected("stop.max_loss" if own.max_cost is None else "stop.max_cost"):
        Target.of(own)
    with draft.collected():
        if own.rule not in (None, "auto") and (own.targets or profile):
            fields = f"{setting('stop.max_loss')}, {setting('stop.max_cost')} and {setting('stop.profile')}"
            raise UsageError(f"{fields} go with {setting('stop.rule', 'auto')}, not with {own.rule}")
    if draft.parts.rule is not None:
        return None
    n = own.n if own.n is not None and own.n > 0 else BUDGET
    targets = own.targets or profile is not None
    usual, reason = usual_rule(traits or RerankerTraits(), n=n, targets=targets, quit_settings=own.of_quit)
    draft.fill("stop.rule", usual, Origin("default", reason))
    rule = str(draft.recipe.stop.rule)
    if rule != "auto":
        with draft.collected("stop.rule"):
            draft.refuse_object(rule, "stop.rule")
            return stop.find(rule)
    return None


def _profile(draft: PlanDraft) -> Profile | None:
    path = draft.recipe.stop.profile
    if draft.parts.profile is not None or path is None or draft.parts.rule is not None:
        return draft.parts.profile
    with draft.collected("stop.profile"):
        return profiles.read(path, allow_functions=draft.recipe.run.allow_functions)
    return None


def _numbers(
    draft: PlanDraft, named: NamedRule | None, known: Profile | None, traits: RerankerTraits | None
) -> tuple[int, int]:
    """k and n, after all numbers are checked; a wrong one counts as its default."""
    own = draft.recipe.stop
    for name, value in (("k", own.k), ("n", own.n)):
        with draft.collected():
            if value is not None and value < 1:
                raise UsageError(f"{setting(f'stop.{name}')} must be a whole number of at least 1, not {value}")
    with draft.collected("stop.w"):
        if own.w is not None:
            Quit(window=own.w, single=own.single_step_window)
    with draft.collected("stop.alpha"):
        if own.alpha is not None:
            Quit(alpha=own.alpha)
    if draft.parts.rule is not None:
        return draft.parts.rule.step, draft.parts.rule.budget
    step, budget, origin = STEP, BUDGET, Origin("default")
    if known is not None:
        step, budget, origin = known.step, known.budget, Origin("profile", own.profile or "")
    elif named is not None:
        step, budget = named.default("step"), named.default("budget")
    elif own.rule == "auto" and traits is not None and traits.gives_rivals and not traits.judges_itself:
        step, budget, origin = AUTO_STEP, AUTO_BUDGET, Origin("default", "for auto with exact mbr")
    elif own.rule == "auto" and traits is not None and traits.running_best and not _by_known_curve(draft):
        step, origin = stop.find("headroom").default("step"), Origin("default", "for auto with qe")
    draft.fill("stop.k", step, origin)
    draft.fill("stop.n", budget, origin)
    for field, name in (("w", "window"), ("alpha", "alpha")):
        if named is not None and name in named.takes:
            draft.fill(f"stop.{field}", named.default(name), Origin("default"))
    k, n = own.k if own.k and own.k > 0 else step, own.n if own.n and own.n > 0 else budget
    with draft.collected():
        if own.k == k and k > n:
            hint = f"give at most {n}, or a larger {setting('stop.n')}"
            raise UsageError(f"{setting('stop.k', k)} is more than the budget of {n} candidates", hint=hint)
    return k, n


def _by_known_curve(draft: PlanDraft) -> bool:
    """Whether a target loss goes by a curve that comes with quitmt, which holds for the package's k."""
    return draft.recipe.stop.max_loss is not None and draft.title in KNOWN


def _check_taken(draft: PlanDraft, named: NamedRule | None, rule: str) -> None:
    """Warn of settings that do nothing with the rule, and refuse those that contradict a rule that is an object."""
    said, takes = draft.said.stop, named.takes if named is not None else frozenset()
    for taken in ("window", "alpha", "single"):
        field = stop.SHARED[taken]
        if getattr(said, field) not in (None, False) and taken not in takes:
            usual = setting("stop.rule", "quit")
            log.warning(f"{setting(f'stop.{field}')} does nothing with {rule}: it goes with {usual}")
    if named is None or not named.is_made:
        return
    for field, value, made in (("k", said.k, named.default("step")), ("n", said.n, named.default("budget"))):
        with draft.collected():
            if value not in (None, made):
                hint = f"leave {setting(f'stop.{field}')} out, or name the class"
                raise UsageError(f"{rule} is made already, with {setting(f'stop.{field}', made)}", hint=hint)


def _check_profile(calibrated: Mapping[str, Any], recipe: Recipe) -> None:
    """Refuse a profile that was made for another reranker."""
    theirs, own = calibrated.get("rerank", {}), recipe.of_results().get("rerank", {})
    for name in OF_PROFILES:
        if theirs.get(name) != own.get(name):
            hint = "rerank as it was calibrated, or calibrate again"
            requested = f"{setting(f'rerank.{name}')} is {own.get(name)}"
            raise UsageError(f"{requested}, and {setting('stop.profile')} was made for {theirs.get(name)}", hint=hint)
