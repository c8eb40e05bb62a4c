"""Reports the failed segments of a run, so that users needn't search the outcomes for them."""

from __future__ import annotations

import logging

from quitmt.errors import AllFailed
from quitmt.types import Finished, Outcome

log = logging.getLogger(__name__)

ENOUGH = 16
"""If this many first segments fail because of the same mistake in user code, the others will too."""


class Failures:
    """Counts failures among the segments that were tried; blank ones need no translation."""

    def __init__(self) -> None:
        self.tried = self.failed = 0
        self._first: str | None = None

    def add(self, outcome: Outcome) -> None:
        self.tried += bool(outcome.cost or outcome.error)
        if outcome.error:
            self.failed += 1
            self._first = self._first or outcome.error

    def __str__(self) -> str:
        if self.tried == 1:
            return str(self._first)
        many = "all" if self.failed == self.tried else f"{self.failed} of"
        return f"{many} {self.tried} segments failed, the first with: {self._first}"

    def warn(self) -> None:
        if self.failed:
            log.warning("%s (see outcome.error of each)", self)


def succeeded(outcomes: list[Outcome]) -> list[Outcome]:
    """Return the outcomes unless all failed; failures are logged."""
    failures = Failures()
    for outcome in outcomes:
        failures.add(outcome)
    if failures.failed and failures.failed == failures.tried:
        raise AllFailed(str(failures), outcomes)
    failures.warn()
    return outcomes


class OneMistake:
    """Detects whether all segments tried so far have failed because of the same mistake."""

    def __init__(self) -> None:
        self._fault: str | None = None
        self._count = 0
        self._may_be = True

    def add(self, finished: Finished) -> None:
        if not (finished.outcome.cost or finished.outcome.error):  # a blank segment
            return
        self._fault = self._fault or finished.fault
        self._may_be = self._may_be and finished.fault is not None and finished.fault == self._fault
        self._count += 1

    def __str__(self) -> str:
        return f"the first {self._count} segments failed because of the same mistake"

    def __bool__(self) -> bool:
        return self._may_be and self._count >= ENOUGH
