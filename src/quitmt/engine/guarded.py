"""Guards against mistakes in stopping rules, which may be user code.

Invariants: once a rule is wrapped, only KeyboardInterrupt gets through. A mistake becomes the ``fault`` of the rule's
watch, which then never calls the rule again, and the engine fails the segment with it. A rule that never stops is
stopped at its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from quitmt import stop
from quitmt.errors import QuitmtError, UsageError
from quitmt.loops.faults import FAULTS, blamed
from quitmt.protocols import StoppingRule, Watch
from quitmt.types import Snapshot, StopReason

ALLOWED = (StopReason.STABLE, StopReason.DECIDED, StopReason.BUDGET)
"""The stop reasons that a rule may return. The others are about generators, clocks and failures."""


class GuardedRule:
    def __init__(self, rule: StoppingRule) -> None:
        self.signature = rule.signature
        self.name = rule.signature.partition("|")[0]
        for what, value in (("step", rule.step), ("budget", rule.budget)):
            if not _is_whole(value) or value < 1:
                raise UsageError(f"the {what} of the rule {self.name} must be a whole number above 0, not {value!r}")
        self.step, self.budget = rule.step, rule.budget
        self._rule = rule

    def within(self, available: int) -> GuardedRule:
        """The same rule for a segment with so few candidates in total; unchanged if the rule can't be adapted."""
        if not 0 < available < self.budget:
            return self
        try:
            return GuardedRule(stop.within(self._rule, available))
        except FAULTS:
            return self

    def open(self) -> GuardedWatch:
        return GuardedWatch(self, self._rule.open)


class GuardedWatch:
    """A rule at work on one segment."""

    def __init__(self, rule: GuardedRule, make: Callable[[], Watch]) -> None:
        self.rule = rule
        self.fault: str | None = None
        """The mistake, as a sentence that begins with the rule's name."""
        self._watch: Any = self._call("open", make)

    def observe(self, snapshot: Snapshot) -> StopReason | None:
        """Returns None if there is a fault, too."""
        stop_reason = self._call("observe", lambda: self._watch.observe(snapshot))
        if self.fault:
            return None
        if stop_reason is None:
            return StopReason.BUDGET if snapshot.size >= self.rule.budget else None
        if isinstance(stop_reason, StopReason) and stop_reason in ALLOWED:
            return stop_reason
        allowed = ", ".join(f"StopReason.{one.name}" for one in ALLOWED)
        self._blame(f"gave {_shown(stop_reason)} as its stop reason, which must be None or one of {allowed}")
        return None

    @property
    def kept_signals(self) -> tuple[float, ...] | None:
        """The signals that a steered rule keeps for later segments; None for all others."""
        signals = self._call("kept_signals", lambda: getattr(self._watch, "kept_signals", None))
        return None if signals is None else tuple(signals)

    def horizon(self, size: int) -> int:
        """A horizon only says how much may be requested at once, so any whole number is harmless: it is rounded up to a
        step above ``size``, within the budget. Anything else is a fault."""
        step, budget = self.rule.step, self.rule.budget
        horizon = self._call("horizon", lambda: self._watch.horizon(size))
        if self.fault:
            return budget
        if not _is_whole(horizon):
            self._blame(f"gave {_shown(horizon)} as its horizon, which must be a whole number")
            return budget
        wanted = max(int(horizon), size + 1)
        return min(budget, -(-wanted // step) * step)

    def _call(self, method: str, call: Callable[[], Any]) -> Any:
        if self.fault:
            return None
        try:
            return call()
        except FAULTS as error:
            self._blame(str(blamed(QuitmtError, f"failed in {method}", error)))
            return None

    def _blame(self, mistake: str) -> None:
        self.fault = f"the rule {self.rule.name} {mistake}"


def _is_whole(value: object) -> bool:
    """This includes numpy's integers."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _shown(value: object) -> str:
    if isinstance(value, Coroutine):
        value.close()  # otherwise Python warns that it was never awaited
    return f"StopReason.{value.name}" if isinstance(value, StopReason) else repr(value)[:80]
