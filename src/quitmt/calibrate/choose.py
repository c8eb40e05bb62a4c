"""From observed pools to a profile: replay every rule, test which ones keep the guarantee, and take the cheapest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

from quitmt import stop
from quitmt.calibrate import families, risk
from quitmt.calibrate.families import Family
from quitmt.calibrate.observe import Floats, Observed
from quitmt.calibrate.profile import Guarantee, Point, Profile, QualityGuarantee, seedless
from quitmt.defaults import BUDGET, STEP
from quitmt.errors import UsageError, setting
from quitmt.stop.learned import LEAST
from quitmt.stop.threshold import Threshold

MBR_RULES, QE_RULES = ("loss", "fixed"), ("headroom:reach=16", "fixed")
"""The rules that won our comparisons (docs/rules.md), and the same number for every segment."""
STEPS_PER_DOUBLING = 8
HELD_OUT = 5
"""One in so many segments sets the top of ``headroom`` and counts for nothing else."""
Asked = TypeVar("Asked", bound="RulesRequest")


def default_rules(reranker: str) -> tuple[str, ...]:
    """The default rules for a reranker as ``--rerank`` names it."""
    if reranker.startswith("mbr:"):
        return MBR_RULES
    return QE_RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesRequest:
    """The rules to try, for either kind of guarantee."""

    step: int = STEP
    budget: int = BUDGET
    rules: tuple[str, ...] = MBR_RULES

    def __post_init__(self) -> None:
        for spec in self.rules:
            if spec != "fixed":
                self.rule(spec)

    def rule(self, spec: str) -> Threshold:
        """A rule of a kind with thresholds, at its default threshold."""
        found = stop.load_threshold(spec, k=self.step, n=self.budget)
        if f"{found.limit}=" in spec:
            raise UsageError(f"{spec} has a threshold, but calibration chooses it")
        return found

    def thresholds(self, rule: Threshold) -> Floats:
        """The thresholds to try, ascending. They must not depend on the pools."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class LossRequest(RulesRequest):
    """A requested guarantee about losses; ``max_loss`` is in units of the score."""

    max_loss: float
    risk: float
    confidence: float | None

    def __post_init__(self) -> None:
        RulesRequest.__post_init__(self)
        if not (math.isfinite(self.max_loss) and self.max_loss > 0):
            raise UsageError(f"{setting('max_loss')} must be a number above 0, not {self.max_loss}")
        for name, share in (("risk", self.risk), ("confidence", self.confidence)):
            if share is not None:
                check_share(name, share)

    def thresholds(self, rule: Threshold) -> Floats:
        """Thresholds around the allowed loss, or from its share of the budget on. The gap to a perfect score may be
        many times that loss, divided by few candidates, so shares go further up."""
        unit, up = (self.max_loss / rule.budget, 16) if rule.limit == "share" else (self.max_loss, 6)
        return doublings(unit, -12, up)


def check_share(name: str, share: float) -> None:
    if not 0 < share < 1:
        raise UsageError(f"{setting(name)} must be between 0 and 1, not {share}")


def doublings(unit: float, low: int, high: int) -> Floats:
    """Numbers around a unit, evenly spaced on a logarithmic scale."""
    powers = np.arange(low * STEPS_PER_DOUBLING, high * STEPS_PER_DOUBLING + 1) / STEPS_PER_DOUBLING
    return np.asarray(unit * 2.0**powers)


@dataclass(frozen=True, slots=True)
class PoolOrigin:
    """The origin of the pools."""

    generator: str
    reranker: str
    source_language: str | None = None
    target_language: str | None = None
    recipe: dict[str, Any] | None = None


class TooSmall(UsageError):
    """Too few segments to prove the guarantee for any rule."""


def calibrate(observed: Sequence[Observed], request: LossRequest, source: PoolOrigin) -> Profile:
    """The cheapest rule that keeps the guarantee, or ``TooSmall``. Segments that set a top do not count for it."""
    held_out, request, _ = with_tops(observed, request)
    observed = observed[held_out:]
    found = replayed(observed, request)
    losses = families.losses(observed)
    accepted, curve = tested(found, losses, request)
    if not accepted:
        raise _too_small(found, losses, request)
    guarantee = Guarantee(request.max_loss, request.risk, request.confidence, len(observed))
    return profile_of(accepted, curve, guarantee, observed, request, source)


def profile_of(
    accepted: Sequence[Point],
    curve: Sequence[Point],
    guarantee: Guarantee | QualityGuarantee,
    observed: Sequence[Observed],
    request: RulesRequest,
    source: PoolOrigin,
) -> Profile:
    """The profile with the cheapest accepted rule."""
    return Profile(
        rule=min(accepted, key=lambda point: point.mean_size).rule,
        step=request.step,
        budget=request.budget,
        generator=seedless(source.generator),
        reranker=source.reranker,
        source_language=source.source_language,
        target_language=source.target_language,
        guarantee=guarantee,
        spread=spread(observed),
        curve=tuple(curve),
        recipe=source.recipe,
    )


def with_tops(observed: Sequence[Observed], request: Asked) -> tuple[int, Asked, float | None]:
    """A rule that learns its top gets it as a number from the first fifth of the segments, which then may not be used
    for the guarantee: their number, the request with that number in its rules, and the top."""
    learning = [spec for spec in request.rules if spec != "fixed" and request.rule(spec).learns]
    if not learning:
        return 0, request, None
    count = max(LEAST, len(observed) // HELD_OUT)
    if len(observed) < 2 * LEAST:
        hint = f"give more pools, or {setting('rule', f'{learning[0]},top=NUMBER')}"
        raise UsageError(f"{len(observed)} pools are too few to learn the top of {learning[0]} from", hint=hint)
    # The highest one: no threshold is careful enough for a segment whose best candidate is above the top.
    top, own = max(float(one.final[one.best[-1]]) for one in observed[:count]), cast(Any, request)
    rules = tuple(request.rule(spec).with_top(top, spec) if spec in learning else spec for spec in request.rules)
    return count, replace(own, rules=rules), top


def spread(observed: Sequence[Observed]) -> float:
    """The standard deviation of the whole pool's best score over segments; 0 for one segment."""
    best = np.array([one.final[one.best[-1]] for one in observed])
    best = best[np.isfinite(best)]  # a single sample has no judge and so no score
    return float(best.std(ddof=1)) if len(best) > 1 else 0.0


def replayed(observed: Sequence[Observed], request: RulesRequest) -> list[Family]:
    """All rules of a request on all pools."""
    pools = np.array([len(one.best) for one in observed], np.int64)
    found = []
    for spec in request.rules:
        if spec == "fixed":
            found.append(families.fixed(request.step, request.budget, pools))
            continue
        rule = request.rule(spec)
        signals = [one.signals(rule) for one in observed]
        found.append(families.threshold(spec, rule, request.thresholds(rule), signals, pools))
    return found


def tested(found: Sequence[Family], losses: Floats, request: LossRequest) -> tuple[list[Point], list[Point]]:
    accepted, curve = list[Point](), list[Point]()
    for place, family in enumerate(found):
        lost = families.lost(losses, family.sizes)
        exceeds = lost > request.max_loss
        if request.confidence is not None:
            passed = risk.learn_then_test(exceeds, request.risk, (1 - request.confidence) / len(found))
        else:  # only the first family: the guarantee would not survive a choice among several
            passed = risk.conformal(exceeds, request.risk) if place == 0 else 0
        rows = zip(family.specs, family.sizes.mean(axis=1), lost.mean(axis=1), exceeds.mean(axis=1), strict=True)
        points = [
            Point(spec, float(size), float(loss), float(share), number < passed)
            for number, (spec, size, loss, share) in enumerate(rows)
        ]
        accepted += points[:passed]
        curve += points
    return accepted, curve


def _too_small(found: Sequence[Family], losses: Floats, request: LossRequest) -> TooSmall:
    segments = len(losses)
    if request.confidence is None:
        needed = math.ceil(1 / request.risk) - 1
    else:
        needed = risk.least_segments(request.risk, (1 - request.confidence) / len(found))
    if segments < needed:
        return TooSmall(
            f"{segments} segments are too few for this guarantee: even a rule that never loses would need {needed}",
            hint=f"give more pools, a larger {setting('risk')}, or a smaller {setting('confidence')}",
        )
    return TooSmall(
        f"no rule keeps this guarantee on these {segments} segments",
        hint=f"allow a larger {setting('max_loss')} or {setting('risk')}, or give more pools",
    )
