"""Stopping rules: one file each, and the names they go by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quitmt.errors import UsageError, unknown
from quitmt.protocols import Reranker, StoppingRule
from quitmt.stop.fixed import Fixed
from quitmt.stop.headroom import Headroom
from quitmt.stop.loss import Loss
from quitmt.stop.race import Race
from quitmt.stop.threshold import Threshold
from quitmt.stop.window import Quit

RULES = {
    "quit": "stop when the best score has stayed within alpha over a window of w steps of k candidates",
    "full": "use the whole budget of n candidates: reranking without early stopping",
    "fixed:N": "use the first N candidates",
    "loss": "with exact mbr: stop when no more than this much of the score is expected to be lost, on average; "
    "loss:most=0.0005,minimum=32,looks=2",
    "race": "with exact mbr: stop when no candidate can be better than the best one by more than epsilon; "
    "race:z=2.5,epsilon=0.003,minimum=32,looks=2",
    "headroom": "with qe: stop when (top - best score) / candidates is at most share; "
    "headroom:share=0.002,top=1,minimum=16,looks=2",
}
THRESHOLDS: dict[str, type[Threshold]] = {"loss": Loss, "race": Race, "headroom": Headroom}
"""Rules with a threshold, by name."""
OPTIONS: dict[str, dict[str, Callable[[str], Any]]] = {
    "loss": {"most": float, "new": float, "minimum": int, "looks": int},
    "race": {"z": float, "epsilon": float, "minimum": int, "looks": int},
    "headroom": {"share": float, "top": float, "minimum": int, "looks": int},
}


def load(spec: str, *, k: int = 8, w: int = 8, alpha: float = 1e-3, n: int = 512, single: bool = False) -> StoppingRule:
    """The rule a text like ``quit``, ``full`` or ``fixed:64`` names."""
    name, _, argument = spec.partition(":")
    if name == "fixed":
        return Fixed(_fixed_budget(spec, argument, n), k)
    if name in OPTIONS:
        make: Any = THRESHOLDS[name]
        return make(step=k, budget=n, **_options(name, argument, spec))  # type: ignore[no-any-return]
    if argument and name in ("quit", "full"):
        raise UsageError(f"the stopping rule {name!r} takes no argument, in {spec!r}")
    if spec == "quit":
        return Quit(k, w, alpha, n, single)
    if spec == "full":
        return Fixed(n, k, name="full")
    raise unknown("stopping rule", spec, RULES)


def check_fits(rule: StoppingRule, reranker: Reranker[Any]) -> None:
    """Raise if a rule asks for what a reranker cannot tell."""
    if getattr(rule, "needs_rivals", False) and not getattr(reranker, "gives_rivals", False):
        raise UsageError(
            f"the rule {rule.signature.partition('|')[0]} needs exact MBR, not {reranker.signature.partition('|')[0]}",
            hint="take --rerank mbr:… with --mbr exact, or another rule",
        )


def _options(name: str, argument: str, spec: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in argument.split(",") if argument else []:
        option, _, value = part.partition("=")
        if option not in OPTIONS[name]:
            raise unknown(f"option of --stop {name}", option, OPTIONS[name])
        try:
            found[option] = OPTIONS[name][option](value)
        except ValueError:
            raise UsageError(f"{part!r} in {spec!r} is not a setting", hint=f"write {option}=NUMBER") from None
    return found


def _fixed_budget(spec: str, argument: str, n: int) -> int:
    if not (argument.isascii() and argument.isdigit() and len(argument) < 10 and int(argument) > 0):
        raise UsageError(f"{spec!r} must be fixed:N with a whole number N of at least 1, such as fixed:64")
    if int(argument) > n:
        raise UsageError(f"{spec!r} is more than the budget of {n} candidates", hint=f"raise it with -n {argument}")
    return int(argument)
