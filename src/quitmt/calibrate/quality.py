"""Guarantees about quality: the cheapest rule whose translations are as good as the whole pool's by every named metric.

Rules of a kind form a chain, from the most careful to the cheapest, in an order that is fixed before any data are seen.
They are tested one after the other until one fails (a fixed sequence). To choose a rule that breaks the guarantee, the
first such rule of its chain must pass its own test, which happens with probability e at most. So each chain errs with
probability e, and several chains share the error: e = (1 − confidence) / chains. The guarantee then holds with the
requested confidence for any rule that passed, if the test's assumption holds (``tost``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quitmt.calibrate import choose, families, tost
from quitmt.calibrate.choose import PoolOrigin, RulesRequest, TooSmall
from quitmt.calibrate.families import Family
from quitmt.calibrate.observe import Floats, Observed
from quitmt.calibrate.profile import Point, Profile, QualityGuarantee
from quitmt.calibrate.risk import Flags
from quitmt.calibrate.tost import QualityMargin
from quitmt.calibrate.winners import JudgedRules
from quitmt.errors import InputError, UsageError, setting
from quitmt.evaluate.equivalence import LEAST
from quitmt.stop.threshold import Threshold

UNIT = "sd"
SAVES = 0.99
"""A rule that uses more than this share of the whole pools counts as saving nothing."""


@dataclass(frozen=True, slots=True)
class QualityRequest(RulesRequest):
    """A requested guarantee about quality."""

    margin: float
    """In standard deviations of the whole pool's quality."""
    not_worse: bool = False
    """Whether the rule may be better than the margin; otherwise it must be equivalent."""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        RulesRequest.__post_init__(self)
        choose.check_share("confidence", self.confidence)

    @property
    def error(self) -> float:
        """The error of each chain."""
        return (1 - self.confidence) / len(self.rules)

    def thresholds(self, rule: Threshold) -> Floats:
        """Around the rule's default; a share of a perfect score may be of any scale."""
        return choose.doublings(rule.threshold, -8, 16 if rule.limit == "share" else 8)


def margin_in(text: str, name: str) -> float:
    """The margin of ``--equivalent`` or ``--not-worse``, in standard deviations."""
    number = text.removesuffix(UNIT)
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{setting(name)} must be a number above 0 with its unit, as 0.02sd, not {text!r}")
    if number == text:
        hint = f"{setting(name, text + UNIT)} is {text} standard deviations of the whole pool's quality over segments"
        raise UsageError(f"{setting(name, text)} has no unit", hint=hint)
    return value


@dataclass(frozen=True, slots=True)
class Tested:
    """The test of all rules of a family."""

    passed: int
    """How many rules passed, from the first."""
    differences: dict[str, Floats]
    """By metric, [rules]: rule − whole pool in σ, positive where the rule is better."""
    needed: Floats
    """[rules]: about how many segments like these the chain needs to reach the rule; infinite if these segments break
    the guarantee."""


def tested(judged: Sequence[JudgedRules], request: QualityRequest) -> list[Tested]:
    """The tests of every family's rules by every metric together."""
    found, margin = [], QualityMargin(request.margin, both=not request.not_worse)
    for place in range(len(judged[0].chosen)):
        p_values, needed, by_metric = list[Floats](), list[Floats](), dict[str, Floats]()
        for one in judged:
            differences = one.chosen[place] - one.whole
            p_values.append(tost.p_values(differences, one.whole, margin))
            needed.append(tost.segments_needed(differences, one.whole, margin, request.error))
            by_metric[one.metric] = differences.mean(axis=1) / one.whole.std(ddof=0)
        fails = np.flatnonzero(np.maximum.reduce(p_values) > request.error)
        passed = int(fails[0]) if len(fails) else len(p_values[0])
        reached = np.maximum.accumulate(np.maximum.reduce(needed))
        found.append(Tested(passed, by_metric, reached))
    return found


def calibrate(
    observed: Sequence[Observed],
    found: Sequence[Family],
    judged: Sequence[JudgedRules],
    request: QualityRequest,
    source: PoolOrigin,
) -> Profile:
    """The cheapest rule that keeps the guarantee, or ``TooSmall``. Segments that some metric could not score are left
    out."""
    scored = ~np.logical_or.reduce([np.isnan(one.whole) | _unknown(one) for one in judged])
    found = [Family(one.name, one.specs, one.sizes[:, scored]) for one in found]
    judged = [one.of_segments(scored) for one in judged]
    _check(judged)
    if scored.sum() < LEAST:
        problem = (
            f"{scored.sum()} segments are too few: at least {LEAST} are needed, and 100 to 300 for most guarantees"
        )
        raise TooSmall(problem, hint="give more pools")
    losses = families.losses(observed)[scored]
    curve = list[Point]()
    for family, one in zip(found, tested(judged, request), strict=True):
        lost = families.lost(losses, family.sizes).mean(axis=1)
        curve += [
            Point(
                spec,
                float(family.sizes[rule].mean()),
                float(lost[rule]),
                None,
                rule < one.passed,
                {metric: float(values[rule]) for metric, values in one.differences.items()},
                int(one.needed[rule]) if math.isfinite(one.needed[rule]) else None,
            )
            for rule, spec in enumerate(family.specs)
        ]
    whole = float(np.mean([len(one.best) for one, kept in zip(observed, scored, strict=True) if kept]))
    accepted = [point for point in curve if point.proven and point.mean_size <= SAVES * whole]
    if not accepted:
        raise _too_small(curve, int(scored.sum()), whole, request)
    guarantee = QualityGuarantee(
        request.margin,
        request.not_worse,
        request.confidence,
        int(scored.sum()),
        {one.metric: float(one.whole.std(ddof=0)) for one in judged},
        {one.metric: one.signature for one in judged},
    )
    return choose.profile_of(accepted, curve, guarantee, observed, request, source)


def within_reach(curve: Sequence[Point], share: float, whole: float) -> Point | None:
    """The rule that needs the fewest segments, among those that use no more than this share of the whole pools."""
    known = [point for point in curve if point.segments is not None and point.mean_size <= share * whole]
    return min(known, key=lambda point: (point.segments or 0, point.mean_size), default=None)


def _too_small(curve: Sequence[Point], segments: int, whole: float, request: QualityRequest) -> TooSmall:
    requested = setting("not_worse" if request.not_worse else "equivalent")
    problem = f"{segments} segments are too few to prove this for any rule that saves something"
    for share in (0.5, SAVES):
        point = within_reach(curve, share, whole)
        if point is not None:
            needed = f"{point.rule}, with {point.mean_size:.0f} of {whole:.0f} candidates, would need about"
            more = f"give more pools, or a larger {requested}"
            return TooSmall(f"{problem}: {needed} {point.segments:,}", hint=more)
    hint = f"give a larger {requested}, or other rules with {setting('rule')}"
    return TooSmall(f"no rule that saves something keeps this guarantee on these {segments} segments", hint=hint)


def _unknown(one: JudgedRules) -> Flags:
    return np.asarray(np.logical_or.reduce([np.isnan(values).any(axis=0) for values in one.chosen]))


def _check(judged: Sequence[JudgedRules]) -> None:
    for one in judged:
        if not len(one.whole):
            raise InputError(f"{one.metric} has no score for any segment")
        if one.whole.std(ddof=0) == 0:
            raise InputError(f"{one.metric} gives all segments the same score, so sd is 0 and there is no margin")
