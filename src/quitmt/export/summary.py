"""What became of the sources: how many gave how many rows, and why the others gave none."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Summary:
    sources: int = 0
    gave: int = 0
    """Sources that gave at least one row."""
    rows: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why the others gave none, as the end of a sentence: "have no scored candidate"."""

    def add(self, rows: int, reason: str | None = None) -> None:
        self.sources += 1
        self.rows += rows
        if rows:
            self.gave += 1
        else:
            self.reasons[reason or "gave nothing"] += 1

    def told(self, what: str) -> list[str]:
        """As lines for people.

        >>> summary = Summary(3, 2, 4, Counter({"failed": 1}))
        >>> summary.told("pairs")
        ['2 of 3 sources gave 4 pairs', '1 gave none: 1 failed']
        """
        lines = [f"{self.gave} of {self.sources} sources gave {self.rows} {what}"]
        if self.reasons:
            lines.append(f"{self.sources - self.gave} gave none: {self.why()}")
        return lines

    def why(self) -> str:
        return ", ".join(f"{count} {reason}" for reason, count in self.reasons.most_common())
