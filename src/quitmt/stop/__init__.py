"""Stopping rules: one file each, and the names they go by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from quitmt import names
from quitmt.errors import UsageError, setting, unknown
from quitmt.names import Name, Names
from quitmt.protocols import RerankerTraits, RuleTraits, StoppingRule, traits_of
from quitmt.stop.fixed import Fixed
from quitmt.stop.threshold import Threshold

Rule = TypeVar("Rule", bound=StoppingRule)

SHARED = {"step": "k", "budget": "n", "window": "w", "alpha": "alpha", "single": "single_step_window"}
"""What a run may say for all rules, and its setting: each is given those that it takes; what else it takes are options
of its name."""
HOW = "docs/extending.md has one; quitmt.protocols.StoppingRule says what it needs"
USUAL: Mapping[str, Any] = {"step": 8, "budget": 512, "window": 8, "alpha": 1e-3, "single": False}
"""Of a rule that must be told, where the run says nothing."""


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
THRESHOLDS = ("loss", "headroom", "consistency")
"""Rules with a threshold."""


def load(
    spec: str,
    *,
    k: int | None = None,
    w: int | None = None,
    alpha: float | None = None,
    n: int | None = None,
    single: bool | None = None,
) -> StoppingRule:
    """The rule a text like ``quit``, ``fixed:64``, ``loss:most=0.001`` or ``my_rules:Patience:steps=3`` names; what is
    not given is as the rule has it."""
    shared = dict(zip(SHARED, (k, n, w, alpha, single), strict=True))
    name, _, rest = spec.partition(":")
    if name == "fixed":
        return Fixed(_fixed_budget(spec, rest, n or USUAL["budget"]), k or USUAL["step"])
    if name in RULES:
        entry = RULES[name]
        options = _options(rest, entry.options, f"the stopping rule {name}")
        return _made(entry.factory, name, shared, {**entry.given, **options})
    found, text = _own(spec)
    if not callable(found):
        if text:
            raise UsageError(f"{names.without_options(spec)} is made already and takes no options, such as {text!r}")
        return checked(found, spec)
    options = _options(text, names.options_of(found, without=tuple(SHARED)), f"the stopping rule {spec}")
    return _made(found, spec, shared, options)


def _own(spec: str) -> tuple[Any, str]:
    if ":" not in names.without_options(spec):
        raise unknown("stopping rule", spec, RULES)
    return names.own_part(spec, RULES)


def _options(text: str, options: Mapping[str, names.Option], of: str) -> dict[str, Any]:
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name in SHARED:
            hint = f"give {setting(f'stop.{SHARED[name]}', value)}"
            raise UsageError(f"the {name} of a rule is a setting of the run, not an option of {of}", hint=hint)
    return names.parsed(text, options, of)


def _made(factory: Callable[..., Any], name: str, shared: dict[str, Any], options: dict[str, Any]) -> StoppingRule:
    given: dict[str, Any] = {}
    _refuse_judge(factory, name)
    for taken, parameter in names.parameters_of(factory).items():
        if shared.get(taken) is not None:
            given[taken] = shared[taken]
        elif taken in USUAL and parameter.default is parameter.empty:
            given[taken] = USUAL[taken]
    try:
        return checked(factory(**given, **options), name)
    except UsageError:
        raise
    except Exception as error:  # somebody else's code
        told = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UsageError(f"the stopping rule {name} cannot be made: {told}") from error


def _refuse_judge(factory: Callable[..., Any], name: str) -> None:
    """A function that wants a snapshot is meant as the rule itself, and not as what makes one."""
    wanted = [one.name for one in names.parameters_of(factory).values() if one.default is one.empty and _is_single(one)]
    if inspect.isroutine(factory) and not SHARED.keys() >= set(wanted):
        told = (
            f"{name} is a function of {', '.join(wanted)}, and a stopping rule is a class, or a function that makes one"
        )
        raise UsageError(told, hint=HOW)


def _is_single(parameter: inspect.Parameter) -> bool:
    return parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Ways:
    """What a rule is by itself, before it is made."""

    step: int = USUAL["step"]
    budget: int = USUAL["budget"]
    takes: frozenset[str] = frozenset()
    """Of ``SHARED``."""
    is_made: bool = False


def ways(spec: str) -> Ways:
    """What a run need not say about a rule: its own numbers, where it has some."""
    try:
        name = spec.partition(":")[0]
        found = RULES[name].factory if name in RULES else _own(spec)[0]
        parameters = names.parameters_of(found) if callable(found) else {}
    except UsageError:  # whoever makes it says what is wrong
        return Ways(takes=frozenset(SHARED))
    own = {
        name: parameters[name].default if name in parameters else getattr(found, name, None)
        for name in ("step", "budget")
    }
    numbers = {name: value for name, value in own.items() if type(value) is int and value > 0}
    return Ways(**numbers, takes=frozenset(SHARED) & frozenset(parameters), is_made=not callable(found))


def checked(rule: Any, name: str) -> StoppingRule:
    """A rule that somebody else made, if it is one."""
    lacking = [part for part in ("signature", "step", "budget", "open") if not hasattr(rule, part)]
    if inspect.isroutine(rule):
        raise UsageError(f"{name} is a function, and a stopping rule is an object of a class", hint=HOW)
    if lacking or isinstance(rule, type):
        raise UsageError(f"{name} is no stopping rule: it has no {' and no '.join(lacking)}", hint=HOW)
    if not isinstance(rule.signature, str):
        raise UsageError(f"the signature of {name} must be a text, not {rule.signature!r:.40}")
    return rule  # type: ignore[no-any-return]


def check_fits(rule: StoppingRule, reranker: RerankerTraits, name: str) -> None:
    """Raise if a rule asks for what a reranker of that name cannot tell."""
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
        hint = f"take {setting('stop.rule', 'fixed:64')}, or another rule"
        if reranker.gives_scores and own == "quit":
            hint = f"take {setting('stop.rule', 'quit:watch=advantage')}, or another rule"
        told = "its scores are relative to their pool, and their best one moves with the pool's size"
        raise UsageError(
            f"the rule {own} compares scores of growing pools, and {name} says that they do not compare: {told}",
            hint=hint,
        )


def fits(rule: StoppingRule, reranker: RerankerTraits) -> bool:
    try:
        check_fits(rule, reranker, "")
    except UsageError:
        return False
    return True


def within(rule: Rule, budget: int) -> Rule:
    """The same rule for a segment that has no more than ``budget`` candidates. A rule that is no dataclass with a
    ``budget`` cannot be changed, and is left as it is."""
    own: Any = rule
    changeable = is_dataclass(own) and any(one.name == "budget" and one.init for one in fields(own))
    return replace(own, budget=budget) if changeable and budget < own.budget else own  # type: ignore[no-any-return]


def load_threshold(spec: str, *, k: int, n: int) -> Threshold:
    """The same, refused if it has no threshold."""
    found = load(spec, k=k, n=n)
    if not isinstance(found, Threshold):
        raise UsageError(f"{spec!r} is no rule with a threshold", hint=f"there is {', '.join(THRESHOLDS)}")
    return found


def _fixed_budget(spec: str, argument: str, n: int) -> int:
    if not (argument.isascii() and argument.isdigit() and len(argument) < 10 and int(argument) > 0):
        raise UsageError(f"{spec!r} must be fixed:N with a whole number N of at least 1, such as fixed:64")
    if int(argument) > n:
        hint = f"raise it with {setting('stop.n', argument)}"
        raise UsageError(f"{spec!r} is more than the budget of {n} candidates", hint=hint)
    return int(argument)
