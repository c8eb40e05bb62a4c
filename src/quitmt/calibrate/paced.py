"""``--max-cost`` where no curve of threshold and cost is known: which rule is steered, and from where on it looks.

Where no rule is known to be better than a fixed number of candidates (accelerated and filtered MBR, whatever a user's
own reranker is), and where there is no room for a rule to look, every segment gets the same number.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

from quitmt import stop
from quitmt.errors import UsageError, said, setting
from quitmt.protocols import RerankerTraits, StoppingRule
from quitmt.stop.fixed import Fixed
from quitmt.stop.steering import Steered
from quitmt.stop.threshold import Threshold

log = logging.getLogger(__name__)

TOKENS = "tokens"
REACH = "headroom:reach=16,top=auto"
"""The rule for QE whose perfect score is not known."""


def price(cost: float | str) -> tuple[float, bool]:
    """How much may be spent on a segment, and whether it is in tokens: 60, ``3000tokens``."""
    number = cost.strip().removesuffix(TOKENS) if isinstance(cost, str) else cost
    try:
        found = float(number)
    except (TypeError, ValueError):
        text = f"{setting('stop.max_cost')} must be a number of candidates, as 60, or of tokens, as 3000tokens"
        raise UsageError(f"{text}, not {cost!r}") from None
    tokens = isinstance(cost, str) and number != cost.strip()
    if not (math.isfinite(found) and found >= 1):
        unit = "token" if tokens else "candidate"
        raise UsageError(f"{setting('stop.max_cost')} must be at least 1 {unit} a segment, not {found:g}")
    return found, tokens


def kind(traits: RerankerTraits, plain: str, perfect: str | None) -> tuple[str, bool] | None:
    """The rule that is steered, and whether its perfect score has to be learned. ``plain`` is the rule of exact MBR,
    ``perfect`` that of a QE whose perfect score is known."""
    if traits.gives_rivals:
        return plain, False
    if traits.running_best:
        return perfect or REACH, perfect is None
    return None


def steered(spec: str, cost: float, *, tokens: bool, learns_top: bool, k: int, n: int) -> Steered | None:
    """None if there is no room for it between the first look and the budget."""
    rule: Any = stop.load_threshold(spec, k=k, n=n)
    first = 2 * k if tokens else max(k, int(cost / 2) // k * k)
    rule = replace(rule, minimum=min(rule.minimum, first))
    assert isinstance(rule, Threshold)
    if next(rule.sizes()) >= n or (not tokens and not 2 * k <= cost < n):
        return None
    return Steered(rule, cost, tokens)


def fixed(cost: float, *, tokens: bool, k: int, n: int) -> Fixed:
    if tokens:
        hint = f"give {setting('stop.max_cost', 64)}, a number of candidates"
        raise UsageError("a price in tokens is for runs over many segments, by exact mbr: or qe:", hint=hint)
    return Fixed(min(n, int(cost)), k)


def unsteered(rule: StoppingRule) -> StoppingRule:
    """The rule for segments that come in no order, as requests do."""
    if not isinstance(rule, Steered):
        return rule
    found = fixed(rule.cost, tokens=rule.tokens, k=rule.step, n=rule.budget)
    log.warning(said(f"{setting('stop.max_cost')}: requests are not paced: every segment gets {found.budget}"))
    return found
