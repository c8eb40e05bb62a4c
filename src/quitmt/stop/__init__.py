"""Stopping rules: one file each, and the names they go by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from quitmt import names
from quitmt.defaults import ALPHA, BUDGET, STEP, WINDOW
from quitmt.errors import UsageError, setting, unknown
from quitmt.names import Name, Names
from quitmt.protocols import RerankerTraits, RuleTraits, StoppingRule, traits_of
from quitmt.stop.fixed import Fixed
from quitmt.stop.threshold import Threshold

Rule = TypeVar("Rule", bound=StoppingRule)

SHARED = {"step": "k", "budget": "n", "window": "w", "alpha": "alpha", "single": "single_step_window"}
"""Parameters of rules that are settings of the run. A rule's other parameters are options of its name."""
HOW = "docs/extending.md has one; quitmt.protocols.StoppingRule says what it needs"
DEFAULTS: Mapping[str, Any] = {"step": STEP, "budget": BUDGET, "window": WINDOW, "alpha": ALPHA, "single": False}
"""The values for a rule that has none of its own."""


def _entry(meaning: str, make: str | Callable[..., Any], **more: Any) -> Name:
    return Name(meaning, make, without=tuple(SHARED), **more)


def _plug_in(found: Any, name: str) -> Name:
    meaning = (inspect.getdoc(found) or f"of an installed package: {name}").splitlines()[0]
    return _entry(meaning, found if callable(found) else lambda: found)


RULES = Names(
    "stopping rule",
    {
        "quit": _entry(
            "stop when the best score has stayed within alpha over a window of w steps of k candidates",
            "quitmt.stop.window:Quit",
        ),
        "full": _entry(
            "use the whole budget of n candidates: reranking without early stopping",
            "quitmt.stop.fixed:Fixed",
            given={"name": "full"},
        ),
        "fixed": _entry("use the first N candidates", "quitmt.stop.fixed:Fixed", argument="N", needs_argument=True),
        "loss": _entry(
            "with exact mbr: stop when no more than this much of the score is expected to be lost, on average",
            "quitmt.stop.loss:Loss",
        ),
        "headroom": _entry(
            "with qe: stop when (top - best score) / candidates is at most share", "quitmt.stop.headroom:Headroom"
        ),
        "consistency": _entry(
            "with mbr:vote: stop when the leading answer will hardly lose (Adaptive-Consistency)",
            "quitmt.stop.consistency:Consistency",
        ),
    },
    group="quitmt.rules",
    plug_in=_plug_in,
)


def thresholds() -> list[str]:
    """The names of our rules with a threshold."""
    makers = {name: entry.factory for name, entry in RULES.own.items()}
    return [name for name, make in makers.items() if isinstance(make, type) and issubclass(make, Threshold)]


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A rule's name, parsed: its factory, or the rule itself, and the options that the name gives to the factory."""

    spec: str
    part: Any
    options: Mapping[str, Any]

    @property
    def is_made(self) -> bool:
        """Whether the name is an object's, whose k and n are fixed."""
        return not callable(self.part)

    @property
    def takes(self) -> frozenset[str]:
        """The settings of ``SHARED`` that the factory takes."""
        return frozenset() if self.is_made else frozenset(SHARED) & frozenset(names.parameters_of(self.part))

    def default(self, name: str) -> Any:
        """The rule's own value of a setting of ``SHARED``, or the package's."""
        if self.is_made:
            return getattr(self.part, name, DEFAULTS[name])
        parameter = names.parameters_of(self.part).get(name)
        found = None if parameter is None or parameter.default is parameter.empty else parameter.default
        return found if type(found) is type(DEFAULTS[name]) else DEFAULTS[name]

    def make(
        self,
        *,
        k: int | None = None,
        w: int | None = None,
        alpha: float | None = None,
        n: int | None = None,
        single: bool | None = None,
    ) -> StoppingRule:
        """Make the rule; settings that are None are as the rule has them."""
        if self.is_made:
            return checked(self.part, self.spec)
        if self.spec.startswith("fixed:") and self.options["budget"] > (n or BUDGET):
            hint = f"raise it with {setting('stop.n', self.options['budget'])}"
            raise UsageError(f"{self.spec!r} is more than the budget of {n or BUDGET} candidates", hint=hint)
        shared = dict(zip(SHARED, (k, n, w, alpha, single), strict=True))
        settings = {
            name: self.default(name) if shared[name] is None else shared[name]
            for name, parameter in names.parameters_of(self.part).items()
            if name in SHARED and (shared[name] is not None or parameter.default is parameter.empty)
        }
        try:
            return checked(self.part(**{**settings, **self.options}), self.spec)
        except UsageError:
            raise
        except Exception as error:  # user code
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise UsageError(f"the stopping rule {self.spec} cannot be made: {reason}") from error


def find(spec: str) -> NamedRule:
    """Parse a text like ``quit``, ``fixed:64``, ``loss:most=0.001`` or ``my_rules:Patience:steps=3``."""
    name, _, rest = spec.partition(":")
    if name == "fixed":
        return NamedRule(spec, Fixed, {"budget": _fixed_budget(spec, rest)})
    if name in RULES:
        entry = RULES[name]
        _refuse_judge(entry.factory, name)
        options = _options(rest, entry.options, f"the stopping rule {name}")
        return NamedRule(name, entry.factory, {**entry.given, **options})
    if ":" not in names.without_options(spec):
        raise unknown("stopping rule", spec, RULES)
    part, text = names.own_part(spec, RULES)
    if not callable(part):
        if text:
            raise UsageError(f"{names.without_options(spec)} is made already and takes no options, such as {text!r}")
        return NamedRule(spec, part, {})
    _refuse_judge(part, spec)
    options = names.options_of(part, without=tuple(SHARED))
    return NamedRule(spec, part, _options(text, options, f"the stopping rule {spec}"))


def load(
    spec: str,
    *,
    k: int | None = None,
    w: int | None = None,
    alpha: float | None = None,
    n: int | None = None,
    single: bool | None = None,
) -> StoppingRule:
    """Make the rule that a text names."""
    return find(spec).make(k=k, w=w, alpha=alpha, n=n, single=single)


def load_threshold(spec: str, *, k: int, n: int) -> Threshold:
    """Make the rule that a text names; raise unless it has a threshold."""
    rule = load(spec, k=k, n=n)
    if not isinstance(rule, Threshold):
        raise UsageError(f"{spec!r} has no threshold", hint=f"there is {', '.join(thresholds())}")
    return rule


def _options(text: str, options: Mapping[str, names.Option], owner: str) -> dict[str, Any]:
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name in SHARED:
            hint = f"give {setting(f'stop.{SHARED[name]}', value)}"
            raise UsageError(f"the {name} of a rule is a setting of the run, not an option of {owner}", hint=hint)
    return names.parsed(text, options, owner)


def _fixed_budget(spec: str, argument: str) -> int:
    if not (argument.isascii() and argument.isdigit() and len(argument) < 10 and int(argument) > 0):
        raise UsageError(f"{spec!r} must be fixed:N with a whole number N of at least 1, such as fixed:64")
    return int(argument)


def _refuse_judge(part: Any, name: str) -> None:
    """Refuse a function that takes snapshots: its author means it as the rule itself, not as what makes the rule."""
    if not inspect.isroutine(part):
        return
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = names.parameters_of(part).values()
    wanted = [one.name for one in parameters if one.default is one.empty and one.kind not in variadic]
    if not SHARED.keys() >= set(wanted):
        known = f"{name} is a function of {', '.join(wanted)}"
        raise UsageError(f"{known}, and a stopping rule is a class, or a function that makes one", hint=HOW)


def checked(rule: Any, name: str) -> StoppingRule:
    """Return an object of the user's, if it is a rule."""
    lacking = [part for part in ("signature", "step", "budget", "open") if not hasattr(rule, part)]
    if inspect.isroutine(rule):
        raise UsageError(f"{name} is a function, and a stopping rule is an object of a class", hint=HOW)
    if lacking or isinstance(rule, type):
        raise UsageError(f"{name} isn't a stopping rule: it has no {' and no '.join(lacking)}", hint=HOW)
    if not isinstance(rule.signature, str):
        raise UsageError(f"the signature of {name} must be a text, not {rule.signature!r:.40}")
    return rule  # type: ignore[no-any-return]


def check_fits(rule: StoppingRule, reranker: RerankerTraits, name: str) -> None:
    """Raise if a rule needs what the reranker of that name doesn't tell."""
    wanted, own = traits_of(rule, RuleTraits), rule.signature.partition("|")[0]
    if wanted.needs_rivals and not reranker.gives_rivals:
        hint = f"take {setting('rerank.name', 'mbr:…')} with {setting('rerank.variant', 'exact')}, or another rule"
        raise UsageError(f"the rule {own} needs exact MBR, not {name}", hint=hint)
    if wanted.needs_running_best and not reranker.running_best:
        hint = "its best score is a running maximum; with MBR take loss, or another rule"
        raise UsageError(f"the rule {own} is for QE, not for {name}", hint=hint)
    if wanted.needs_votes and not reranker.votes:
        votes = f"{setting('rerank.name', 'mbr:vote')} with {setting('rerank.support', 'all')}"
        raise UsageError(f"the rule {own} counts answers, and {name} has none", hint=f"take {votes}, or another rule")
    if wanted.needs_scores and not reranker.gives_scores:
        hint = f"take a qe: or an exact mbr: reranker, or {setting('stop.rule', 'fixed:64')}"
        raise UsageError(f"the rule {own} needs the scores of all candidates, and {name} does not tell them", hint=hint)
    if wanted.compares_scores and not reranker.comparable:
        advantage = reranker.gives_scores and own == "quit"
        hint = f"take {setting('stop.rule', 'quit:watch=advantage' if advantage else 'fixed:64')}, or another rule"
        reason = "its scores are relative to their pool, and their best one moves with the pool's size"
        raise UsageError(f"the rule {own} compares scores of growing pools, which {name} cannot: {reason}", hint=hint)


def fits(rule: StoppingRule, reranker: RerankerTraits) -> bool:
    try:
        check_fits(rule, reranker, "")
    except UsageError:
        return False
    return True


def within(rule: Rule, budget: int) -> Rule:
    """Return the rule for a segment that has at most ``budget`` candidates. A rule that isn't a dataclass with a
    ``budget`` stays as it is."""
    own: Any = rule
    changeable = is_dataclass(own) and any(one.name == "budget" and one.init for one in fields(own))
    return replace(own, budget=budget) if changeable and budget < own.budget else own  # type: ignore[no-any-return]
