"""``--stop auto``: the rule for what a user wants to lose or to pay at most, by a profile or by what is known here.

Exact MBR needs no profile for a loss: the threshold of the ``loss`` rule is the expected loss itself, in units of the
score. QE has no such rule, so without a profile only the rerankers measured here (``known/``) can be asked for a loss.
A cost of which no curve is known is met by steering (``paced``).
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from quitmt import stop
from quitmt.calibrate import paced
from quitmt.calibrate import profile as profiles
from quitmt.calibrate.profile import Point, Profile
from quitmt.errors import UsageError, said, setting
from quitmt.protocols import RerankerTraits, StoppingRule
from quitmt.rerank import specs

log = logging.getLogger(__name__)

KNOWN = {"mbr:chrf": "mbr-chrf.json", "qe:likelihood": "qe-likelihood.json"}
"""Profiles of our own: the embedded English-Portuguese model on news (docs/rules.md)."""
PLAIN, PLAIN_MOST, MOST = "loss:new=0.1,scale=1,minimum=32", 0.0005, 0.005
"""The loss rule for pools in which samples judge themselves, and the losses to aim at where nothing is said."""
QE_CAP = 128
"""Candidates that a segment gets with QE at most, where nothing is said: what is bad after so many stays bad, and at
equal cost a cap loses nothing (docs/findings/rules.md)."""
MEASURED = ("mbr:chrf", "mbr:embedding")
"""Rerankers with which the losses of the ``loss`` rule were measured, on the candidates of the first known profile."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for; at most one of the two."""

    max_loss: str | None = None
    """A number in units of the score, or of standard deviations: ``0.0005``, ``0.02sd``."""
    max_cost: float | str | None = None
    """Candidates a segment, on average, or tokens: ``60``, ``3000tokens``."""

    def __post_init__(self) -> None:
        if self.max_loss is not None and self.max_cost is not None:
            both = f"{setting('stop.max_loss')} and {setting('stop.max_cost')}"
            raise UsageError(f"{both} are two different wishes", hint="give one of them")
        if self.max_cost is not None:
            paced.price(self.max_cost)


def loss_in(text: str, spread: float | None) -> float:
    """What ``--max-loss`` means in units of the score; ``spread`` is its standard deviation over segments, None if it
    is not known and 0 if there is none."""
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


@dataclass(frozen=True, slots=True)
class Granted:
    rule: StoppingRule
    spec: str
    """As ``--stop`` has it."""
    profile: Profile | None = None
    """Whose figures it was chosen by."""
    guarantee: bool = False
    """Whether the profile's guarantee is kept by it."""
    warning: str | None = None
    """What whoever uses it should know."""

    def __str__(self) -> str:
        guarantee = f": {self.profile.guarantee}" if self.profile and self.guarantee else ""
        return f"{self.spec}{guarantee}"


def rule(
    reranker: str,
    traits: RerankerTraits,
    wish: Wish,
    profile: Profile | None = None,
    *,
    k: int = 8,
    n: int = 512,
    anchors: int = 0,
    steer: bool = True,
) -> Granted:
    """``reranker`` is the name it goes by, or of an object the beginning of its signature. ``anchors`` are candidates
    that every segment has beside its samples, and count as cost. Unless ``steer``, no rule is given that makes segments
    depend on each other."""

    def granted(spec: str, by: Profile | None = None, *, guarantee: bool = False) -> Granted:
        return Granted(stop.load(spec, k=k, n=n), spec, by, guarantee)

    _check_scale(reranker, wish)
    if profile is not None:
        return granted(_of_profile(profile, wish, anchors), profile, guarantee=wish == Wish())
    known = _known(reranker) if traits.gives_rivals or traits.running_best else None
    if known and (known.step, known.budget) != (k, n):
        known = replace(known, curve=())  # its spread holds all the same
    if wish.max_cost is not None:
        cost, tokens = paced.price(wish.max_cost)
        point = known.within_cost(cost - anchors) if known and not tokens else None
        if point is not None:
            return granted(point.rule, known)
        return _paced(reranker, traits, cost, tokens=tokens, k=k, n=n, anchors=anchors, steer=steer)
    if traits.gives_rivals:
        plain, most = (f"{PLAIN},", PLAIN_MOST) if traits.judges_itself else ("loss:", MOST)
        if wish.max_loss is None:
            return granted(f"{plain}most={most:g}")
        limit = loss_in(wish.max_loss, known.spread if known else None)
        return granted(f"{plain}most={limit:.6g}", known if wish.max_loss.endswith("sd") else None)
    if traits.running_best and wish.max_loss is None:
        return granted(f"{_headroom(reranker)},cap={QE_CAP}")
    if known and known.curve and wish.max_loss is not None:
        limit = loss_in(wish.max_loss, known.spread)
        return granted(_found(known.within_loss(limit), f"a mean loss of {limit:g}").rule, known)
    raise _unknown_loss(reranker, traits, k, n)


def _paced(
    reranker: str, traits: RerankerTraits, cost: float, *, tokens: bool, k: int, n: int, anchors: int, steer: bool
) -> Granted:
    kind = paced.kind(traits, PLAIN if traits.judges_itself else "loss", headroom(reranker))
    rule = None
    if kind is not None and steer:
        rule = paced.steered(kind[0], cost, tokens=tokens, learns_top=kind[1], k=k, n=n)
    if rule is None:
        fixed = paced.fixed(max(1.0, cost - anchors), tokens=tokens, k=k, n=n)
        why = f"no rule is known that does better with {reranker} at this cost"
        warning = f"{setting('stop.max_cost', f'{cost:g}')}: every segment gets the same number, since {why}"
        return Granted(fixed, f"fixed:{fixed.budget}", warning=warning if fixed.budget < n else None)
    name = kind[0].partition(":")[0] if kind else ""
    return Granted(rule, f"{name}, paced to {cost:g} {'tokens' if tokens else 'candidates'} per segment on average")


def tell_basis(reranker: str, generator: str | None) -> None:
    """Say what a wished loss rests on, if it was measured with another reranker or with another model than these.

    ``generator`` is a signature, None for recorded pools, of which nobody knows what they came from.
    """
    known = _known(MEASURED[0])
    assert known is not None
    if reranker in MEASURED and (generator is None or known.is_of(generator)):
        return
    wish, command = setting("stop.max_loss"), "quitmt calibrate"
    log.warning(
        said(
            f"{wish} is aimed at and not guaranteed: it was measured with anchored pools of the embedded model and of "
            f"OPUS-MT, by chrF, where the loss was 0.4 to 1.6 times what was asked for ({command} measures it on your "
            "model)"
        )
    )


def _unknown_loss(reranker: str, traits: RerankerTraits, k: int, n: int) -> UsageError:
    auto, shape = setting("stop.rule", "auto"), f"{setting('stop.k', k)} {setting('stop.n', n)}"
    if traits.kind == "mbr" and not traits.running_best:
        told = f"{reranker}, which is not exact MBR, loses"
        hint = (
            f"give {setting('stop.max_cost')}, or leave out {setting('rerank.variant')} and {setting('rerank.filter')}"
        )
    else:
        told = f"{reranker} loses with {shape}"
        hint = (
            f"calibrate first (quitmt calibrate) and give {setting('stop.profile')}; or give {setting('stop.max_cost')}"
        )
    return UsageError(f"{auto} does not know what {told}", hint=hint)


def _headroom(reranker: str) -> str:
    spec = headroom(reranker)
    if spec is None:
        hint = f"say it: {setting('stop.rule', 'headroom:top=1')}; or give {setting('stop.max_cost')}"
        raise UsageError(
            f"{setting('stop.rule', 'auto')} does not know the highest score that {reranker} can give", hint=hint
        )
    return spec


def headroom(reranker: str) -> str | None:
    """The headroom rule for a QE reranker whose perfect score is known, with a share in proportion to its scale."""
    entry = _entry(reranker)
    return entry.perfect if entry else None


def _entry(reranker: str) -> specs.MetricName | None:
    """What is known about the metric behind a reranker; None for a combination, a function or an object."""
    if "+" in reranker or "*" in reranker or "|" in reranker:
        return None
    try:
        entry, _ = specs.find(reranker)
    except UsageError:  # an object's signature, or no name at all
        return None
    return entry


def _check_scale(reranker: str, wish: Wish) -> None:
    """Refuse a loss that no choice of a candidate could exceed."""
    entry = _entry(reranker)
    if wish.max_loss is None or wish.max_loss.endswith("sd") or entry is None or entry.scale is None:
        return
    if (limit := loss_in(wish.max_loss, None)) >= entry.scale:
        raise UsageError(
            f"{setting('stop.max_loss', f'{limit:g}')} exceeds the range of {reranker}, whose scores differ by at most "
            f"{entry.scale:g}",
            hint=f"such as {setting('stop.max_loss', f'{0.005 * entry.scale:g}')}",
        )


def _of_profile(profile: Profile, wish: Wish, anchors: int) -> str:
    if wish.max_cost is not None:
        cost, tokens = paced.price(wish.max_cost)
        if tokens:
            hint = f"give a number of candidates, or leave out {setting('stop.profile')}"
            raise UsageError(f"{setting('stop.max_cost')}: the curve of a profile is in candidates", hint=hint)
        return _found(profile.within_cost(cost - anchors), f"{cost:g} candidates a segment").rule
    if wish.max_loss is not None:
        limit = loss_in(wish.max_loss, profile.spread)
        return _found(profile.within_loss(limit), f"a mean loss of {limit:g}").rule
    return profile.rule


def _found(point: Point | None, wish: str) -> Point:
    if point is None:
        raise UsageError(f"no rule of the profile keeps to {wish}", hint="ask for more")
    return point


@cache  # every run without a wish of its own asks for it, more than once
def _known(reranker: str) -> Profile | None:
    name = KNOWN.get(reranker)
    if name is None:
        return None
    return profiles.parse((files("quitmt.calibrate") / "known" / name).read_text(encoding="utf-8"))
