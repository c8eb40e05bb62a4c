"""What becomes of failed segments in a call from Python: each is an outcome, and nobody should have to look for them."""

from __future__ import annotations

import logging

from quitmt.errors import AllFailed
from quitmt.types import Outcome

log = logging.getLogger(__name__)


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
