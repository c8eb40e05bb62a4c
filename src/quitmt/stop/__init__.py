"""Stopping rules: one file each, and the names they go by."""

from __future__ import annotations

from quitmt.errors import UsageError, unknown
from quitmt.protocols import StoppingRule
from quitmt.stop.fixed import Fixed
from quitmt.stop.window import Quit

RULES = {
    "quit": "stop when the best score has stayed within alpha over a window of w steps of k candidates",
    "full": "use the whole budget of n candidates: reranking without early stopping",
    "fixed:N": "use the first N candidates",
}


def load(spec: str, *, k: int = 8, w: int = 8, alpha: float = 1e-3, n: int = 512, single: bool = False) -> StoppingRule:
    """The rule a text like ``quit``, ``full`` or ``fixed:64`` names."""
    name, _, argument = spec.partition(":")
    if name == "fixed":
        return Fixed(_fixed_budget(spec, argument, n), k)
    if argument:
        raise UsageError(f"the stopping rule {name!r} takes no argument, in {spec!r}")
    if name == "quit":
        return Quit(k, w, alpha, n, single)
    if name == "full":
        return Fixed(n, k, name="full")
    raise unknown("stopping rule", spec, RULES)


def _fixed_budget(spec: str, argument: str, n: int) -> int:
    if not (argument.isascii() and argument.isdigit() and len(argument) < 10 and int(argument) > 0):
        raise UsageError(f"{spec!r} must be fixed:N with a whole number N of at least 1, such as fixed:64")
    if int(argument) > n:
        raise UsageError(f"{spec!r} is more than the budget of {n} candidates", hint=f"raise it with -n {argument}")
    return int(argument)
