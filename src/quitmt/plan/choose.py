"""The stopping rule for a user's target: by a profile, by what quitmt knows of the reranker, or by pacing.

Exact MBR needs no profile for a target loss: the threshold of the ``loss`` rule is the expected loss itself, in units
of the score. QE has no such rule, so without a profile only the rerankers measured here (``calibrate/known/``) can meet
a target loss. Where no curve of threshold and cost is known, a rule is steered to meet a target cost
(``stop.steering``), and where no rule is known to beat a fixed number, every segment gets the same number.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from quitmt import defaults, stop
from quitmt.calibrate import profile as profiles
from quitmt.calibrate.profile import Point, Profile
from quitmt.errors import UsageError, setting
from quitmt.metrics.registry import MetricEntry
from quitmt.plan.sections import StopRecipe
from quitmt.protocols import RerankerTraits, StoppingRule
from quitmt.rerank import specs
from quitmt.stop.fixed import Fixed
from quitmt.stop.steering import Steered
from quitmt.stop.threshold import Threshold

log = logging.getLogger(__name__)

KNOWN = {"mbr:chrf": "mbr-chrf.json", "qe:likelihood": "qe-likelihood.json"}
"""Profiles that come with quitmt: the embedded English-Portuguese model on news (docs/rules.md)."""
PLAIN, PLAIN_MOST, MOST = "loss:new=0.1,scale=1,minimum=32", 0.0005, 0.005
"""The loss rule for pools in which samples judge themselves, and the default target losses there and elsewhere."""
MEASURED = ("mbr:chrf", "mbr:embedding")
"""Rerankers whose losses with the ``loss`` rule were measured, on the candidates of the first known profile."""
HEADROOM = "headroom:top=auto,reach=16"
"""The rule for QE. It learns the scale of the scores, so it fits every QE reranker."""
LEVELS = "qe-levels.json"
TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Target:
    """What the user wants to lose or to pay; at most one of the two. Neither means the default target loss."""

    max_loss: str | None = None
    """A number in units of the score, or of its standard deviations: ``0.0005``, ``0.02sd``."""
    max_cost: float | str | None = None
    """Candidates per segment, on average, or tokens: ``60``, ``3000tokens``."""

    def __post_init__(self) -> None:
        if self.max_loss is not None and self.max_cost is not None:
            both = f"{setting('stop.max_loss')} and {setting('stop.max_cost')}"
            raise UsageError(f"{both} are two different targets", hint="give one of them")
        if self.max_cost is not None:
            price(self.max_cost)

    @classmethod
    def of(cls, recipe: StopRecipe) -> Target:
        return cls(None if recipe.max_loss is None else str(recipe.max_loss), recipe.max_cost)


@dataclass(frozen=True, slots=True)
class Scored:
    """What the choice of a rule depends on: the reranker, and the numbers of the run."""

    reranker: str
    """The reranker's name; for an object the beginning of its signature."""
    traits: RerankerTraits
    metric: MetricEntry | None = None
    """The entry of the only metric; None for a combination, a function or an unknown object."""
    k: int = defaults.STEP
    n: int = defaults.BUDGET
    anchors: int = 0
    """Candidates per segment besides the samples; they count as cost."""

    @property
    def _combines(self) -> bool:
        return any(mark in self.reranker for mark in "*+")

    @property
    def headroom(self) -> str:
        """The headroom rule for QE, with the level to start from if the checkpoint's is known."""
        models = specs.models_of(self.reranker)
        level = _levels().get(models[0]) if len(models) == 1 and not self._combines else None
        known = f",prior_top={level['top']:g},prior_room={level['room']:g}" if level else ""
        return f"{HEADROOM}{known}"


@dataclass(frozen=True, slots=True)
class Choice:
    """A rule that was chosen, and why."""

    rule: StoppingRule
    spec: str
    """As ``--stop`` takes it."""
    profile: Profile | None = None
    """The profile whose figures decided."""
    guarantee: bool = False
    """Whether the rule keeps the profile's guarantee."""
    warning: str | None = None

    def __str__(self) -> str:
        guarantee = f": {self.profile.guarantee}" if self.profile and self.guarantee else ""
        return f"{self.spec}{guarantee}"


def usual_rule(traits: RerankerTraits, *, n: int, targets: bool, quit_settings: bool) -> tuple[str, str]:
    """The name of the rule if the user named none, and why: a target needs ``auto``, w or alpha need ``quit``, and
    otherwise the reranker's scores decide."""
    if targets:
        return "auto", "for the target"
    if quit_settings:
        return "quit", "for w and alpha"
    if traits.gives_rivals:
        kind = "rivals"
    elif traits.running_best:
        kind = "running best"
    else:
        kind = "comparable" if traits.comparable else "incomparable"
    rule = defaults.RULES[kind]
    if rule.startswith("fixed:"):
        rule = f"fixed:{min(int(rule.removeprefix('fixed:')), n)}"
    return rule, f"for a reranker with {kind} scores" if kind.endswith("comparable") else f"for a reranker with {kind}"


def choose(scored: Scored, target: Target, profile: Profile | None = None, *, steer: bool = True) -> Choice:
    """Choose the rule for a target. Unless ``steer``, no rule makes segments depend on each other."""

    def chosen(spec: str, by: Profile | None = None, *, guarantee: bool = False) -> Choice:
        return Choice(stop.load(spec, k=scored.k, n=scored.n), spec, by, guarantee)

    traits = scored.traits
    _check_scale(scored, target)
    if profile is not None:
        return chosen(_of_profile(profile, target, scored.anchors), profile, guarantee=target == Target())
    known = _known(scored.reranker) if traits.gives_rivals or traits.running_best else None
    if known and (known.step, known.budget) != (scored.k, scored.n):
        known = replace(known, curve=())  # its spread holds all the same
    if target.max_cost is not None:
        cost, tokens = price(target.max_cost)
        point = known.within_cost(cost - scored.anchors) if known and not tokens else None
        return chosen(point.rule, known) if point is not None else _paced(scored, cost, tokens=tokens, steer=steer)
    if traits.gives_rivals:
        plain, most = (f"{PLAIN},", PLAIN_MOST) if traits.judges_itself else ("loss:", MOST)
        if target.max_loss is None:
            return chosen(f"{plain}most={most:g}")
        limit = loss_in(target.max_loss, known.spread if known else None)
        return chosen(f"{plain}most={limit:.6g}", known if target.max_loss.endswith("sd") else None)
    if traits.running_best and target.max_loss is None:
        return chosen(scored.headroom)
    if known and known.curve and target.max_loss is not None:
        limit = loss_in(target.max_loss, known.spread)
        return chosen(_kept(known.within_loss(limit), f"a mean loss of {limit:g}").rule, known)
    raise _unknown_loss(scored)


def _of_profile(profile: Profile, target: Target, anchors: int) -> str:
    if target.max_cost is not None:
        cost, tokens = price(target.max_cost)
        if tokens:
            hint = f"give a number of candidates, or leave out {setting('stop.profile')}"
            raise UsageError(f"{setting('stop.max_cost')}: the curve of a profile is in candidates", hint=hint)
        return _kept(profile.within_cost(cost - anchors), f"{cost:g} candidates per segment").rule
    if target.max_loss is not None:
        limit = loss_in(target.max_loss, profile.spread)
        return _kept(profile.within_loss(limit), f"a mean loss of {limit:g}").rule
    return profile.rule


def _kept(point: Point | None, target: str) -> Point:
    if point is None:
        raise UsageError(f"no rule of the profile keeps to {target}", hint="allow more")
    return point


def _paced(scored: Scored, cost: float, *, tokens: bool, steer: bool) -> Choice:
    """A steered rule, or the same number of candidates for every segment."""
    traits, spec = scored.traits, None
    if traits.gives_rivals:
        spec = PLAIN if traits.judges_itself else "loss"
    elif traits.running_best:
        spec = scored.headroom
    if spec is not None and steer:
        rule = steered(spec, cost, tokens=tokens, k=scored.k, n=scored.n)
        if rule is not None:
            unit = TOKENS if tokens else "candidates"
            return Choice(rule, f"{spec.partition(':')[0]}, paced to {cost:g} {unit} per segment on average")
    fixed = even(max(1.0, cost - scored.anchors), tokens=tokens, k=scored.k, n=scored.n)
    reason = f"no rule is known that does better with {scored.reranker} at this cost"
    warning = f"{setting('stop.max_cost', f'{cost:g}')}: every segment gets the same number, since {reason}"
    return Choice(fixed, f"fixed:{fixed.budget}", warning=warning if fixed.budget < scored.n else None)


def steered(spec: str, cost: float, *, tokens: bool, k: int, n: int) -> Steered | None:
    """The steered rule; None if there is no room for it between the first look and the budget."""
    rule: Any = stop.load_threshold(spec, k=k, n=n)
    first = 2 * k if tokens else max(k, int(cost / 2) // k * k)
    rule = replace(rule, minimum=min(rule.minimum, first))
    assert isinstance(rule, Threshold)
    if next(rule.sizes()) >= n or (not tokens and not 2 * k <= cost < n):
        return None
    return Steered(rule, cost, tokens)


def even(cost: float, *, tokens: bool, k: int, n: int) -> Fixed:
    """The rule that gives every segment the same number of candidates."""
    if tokens:
        hint = f"give {setting('stop.max_cost', 64)}, a number of candidates"
        raise UsageError("a price in tokens is for runs over many segments, by exact mbr: or qe:", hint=hint)
    return Fixed(min(n, int(cost)), k)


def unsteered(rule: StoppingRule) -> StoppingRule:
    """The rule for segments without an order, such as those of a batch's workers."""
    if isinstance(rule, Threshold) and rule.learns:
        if rule.prior is not None:
            return rule.learned(rule.prior)
        even_rule = Fixed(min(rule.budget, rule.unknown), rule.step)
        usual, top = f"every segment gets {even_rule.budget} candidates", setting("stop.rule", "headroom:top=NUMBER")
        log.warning(f"the top of headroom can't be learned without an order of segments: {usual} (give {top})")
        return even_rule
    if not isinstance(rule, Steered):
        return rule
    fixed = even(rule.cost, tokens=rule.tokens, k=rule.step, n=rule.budget)
    log.warning(f"{setting('stop.max_cost')}: requests are not paced: every segment gets {fixed.budget}")
    return fixed


def price(cost: float | str) -> tuple[float, bool]:
    """The cost per segment, and whether it is in tokens: 60, ``3000tokens``."""
    number = cost.strip().removesuffix(TOKENS) if isinstance(cost, str) else cost
    try:
        value = float(number)
    except (TypeError, ValueError):
        text = f"{setting('stop.max_cost')} must be a number of candidates, as 60, or of tokens, as 3000tokens"
        raise UsageError(f"{text}, not {cost!r}") from None
    tokens = isinstance(cost, str) and number != cost.strip()
    if not (math.isfinite(value) and value >= 1):
        unit = "token" if tokens else "candidate"
        raise UsageError(f"{setting('stop.max_cost')} must be at least 1 {unit} per segment, not {value:g}")
    return value, tokens


def loss_in(text: str, spread: float | None) -> float:
    """A target loss in units of the score. ``spread`` is the standard deviation of the score over segments: None if it
    is unknown, 0 if all scores are the same."""
    number = text.removesuffix("sd")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{setting('stop.max_loss')} must be a number above 0, as 0.0005 or 0.02sd, not {text!r}")
    if number == text:
        return value
    if spread is None:
        raise UsageError(
            f"{setting('stop.max_loss', text)}: how much the scores of this reranker vary is not known",
            hint="calibrate first (quitmt calibrate), or give the loss in units of the score",
        )
    if not spread:
        raise UsageError(
            f"{setting('stop.max_loss', text)}: the best scores of these pools are all the same",
            hint="take more pools, or give the loss in units of the score",
        )
    return value * spread


def warn_of_basis(reranker: str, generator: str | None) -> None:
    """Warn that a target loss isn't guaranteed, if it was measured with another reranker or model than these.

    ``generator`` is a signature; None for recorded pools, whose model is unknown.
    """
    known = _known(MEASURED[0])
    assert known is not None
    if reranker in MEASURED and (generator is None or known.is_of(generator)):
        return
    log.warning(
        f"{setting('stop.max_loss')} is aimed at and not guaranteed: it was measured with anchored pools of the "
        "embedded model and of OPUS-MT, by chrF, where the loss was 0.4 to 1.6 times the target "
        "(quitmt calibrate measures it on your model)"
    )


def _check_scale(scored: Scored, target: Target) -> None:
    """Refuse a target loss larger than the range of the scores."""
    metric = scored.metric
    if target.max_loss is None or target.max_loss.endswith("sd") or metric is None or metric.scale is None:
        return
    if (limit := loss_in(target.max_loss, None)) >= metric.scale:
        raise UsageError(
            f"{setting('stop.max_loss', f'{limit:g}')} exceeds the range of {scored.reranker}, whose scores differ by "
            f"at most {metric.scale:g}",
            hint=f"such as {setting('stop.max_loss', f'{0.005 * metric.scale:g}')}",
        )


def _unknown_loss(scored: Scored) -> UsageError:
    if scored.traits.kind == "mbr" and not scored.traits.running_best:
        subject = f"{scored.reranker}, which is not exact MBR, loses"
        other = f"leave out {setting('rerank.variant')} and {setting('rerank.filter')}"
        hint = f"give {setting('stop.max_cost')}, or {other}"
    else:
        subject = f"{scored.reranker} loses with {setting('stop.k', scored.k)} {setting('stop.n', scored.n)}"
        calibrated = f"calibrate first (quitmt calibrate) and give {setting('stop.profile')}"
        hint = f"{calibrated}; or give {setting('stop.max_cost')}"
    return UsageError(f"{setting('stop.rule', 'auto')} does not know what {subject}", hint=hint)


@cache  # every run without a profile reads it
def _known(reranker: str) -> Profile | None:
    name = KNOWN.get(reranker)
    if name is None:
        return None
    return profiles.parse((files("quitmt.calibrate") / "known" / name).read_text(encoding="utf-8"))


@cache
def _levels() -> dict[str, dict[str, Any]]:
    found = json.loads((files("quitmt.calibrate") / "known" / LEVELS).read_text(encoding="utf-8"))
    return found["levels"]  # type: ignore[no-any-return]
