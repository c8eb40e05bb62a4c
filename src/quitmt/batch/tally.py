"""Counts of a part or a whole job: segments, candidates, the candidates of full budgets, and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from quitmt.batch.columns import is_failed
from quitmt.warnings import kind

USED = ("source", "size", "budget", "stop", "anchors", "warnings", "signature", "error")
"""The columns that a tally is counted from."""


@dataclass(slots=True)
class PartTally:
    rows: int = 0
    segments: int = 0
    """Rows that were begun or failed. Blank rows and copies cost nothing, so they don't count here."""
    candidates: int = 0
    possible: int = 0
    """Candidates that full budgets would have taken."""
    failed: int = 0
    stops: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    signatures: Counter[str] = field(default_factory=Counter)
    error: str | None = None
    """The first error that was added."""

    def add(self, fields: Mapping[str, Any], budget: int, *, copied: bool = False) -> None:
        """Adds a row of the output. ``budget`` is used for segments that don't have their own."""
        self.rows += 1
        self.warnings.update(map(kind, fields.get("warnings") or ()))
        cost = 0 if copied else fields["size"] + (fields.get("anchors") or 0)
        if not cost and not fields.get("error"):
            return
        self.segments += 1
        self.candidates += cost
        failed = is_failed(fields)  # a failed segment saves nothing
        self.possible += cost if failed else (fields.get("budget") or budget) + (fields.get("anchors") or 0)
        self.failed += failed
        self.stops[fields["stop"]] += 1
        self.signatures[fields["signature"]] += 1
        self.error = self.error or fields.get("error")

    def merge(self, other: PartTally) -> None:
        for name in ("rows", "segments", "candidates", "possible", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.stops.update(other.stops)
        self.warnings.update(other.warnings)
        self.signatures.update(other.signatures)
        self.error = self.error or other.error

    @property
    def saved(self) -> float:
        """The share of full budgets that wasn't needed."""
        return 1 - self.candidates / self.possible if self.possible else 0.0

    def to_fields(self) -> dict[str, Any]:
        return {name: dict(one) if isinstance(one := getattr(self, name), Counter) else one for name in self.__slots__}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> PartTally:
        values: dict[str, Any] = {name: Counter(one) if isinstance(one, dict) else one for name, one in fields.items()}
        return cls(**values)

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], budget: int) -> PartTally:
        tally = cls()
        for one in records:
            tally.add(one, budget)
        return tally
