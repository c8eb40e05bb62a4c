"""What becomes of a run whose segments fail: each is an outcome, and nobody should have to look for them."""

from __future__ import annotations

import logging

from quitmt.errors import AllFailed
from quitmt.types import Finished, Outcome

log = logging.getLogger(__name__)

ENOUGH = 16
"""Segments: if the first so many fail by one mistake in code of others, the next will too."""


class Failures:
    """Counts them among the segments that were tried: a blank one needs no translation."""

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
            log.warning("%s (outcome.error says why, of each)", self)


def succeeded(outcomes: list[Outcome]) -> list[Outcome]:
    """The same, if any did; that some did not is logged."""
    failures = Failures()
    for outcome in outcomes:
        failures.add(outcome)
    if failures.failed and failures.failed == failures.tried:
        raise AllFailed(str(failures), outcomes)
    failures.warn()
    return outcomes


class OneMistake:
    """Whether all segments of a run that were tried so far have failed, and all by the same mistake."""

    def __init__(self) -> None:
        self._fault: str | None = None
        self._count = 0
        self._may_be = True

    def add(self, finished: Finished) -> None:
        if not (finished.outcome.cost or finished.outcome.error):  # a blank one
            return
        self._fault = self._fault or finished.fault
        self._may_be = self._may_be and finished.fault is not None and finished.fault == self._fault
        self._count += 1

    def __str__(self) -> str:
        return f"the first {self._count} segments all failed by one mistake"

    def __bool__(self) -> bool:
        return self._may_be and self._count >= ENOUGH
