"""The scores of several systems by several metrics, and their JSON:

    {"metrics": {METRIC: {"signature": "…", "lower_is_better": false}},
     "systems": {SYSTEM: {METRIC: {"system": 55.3, "segments": [61.2, null, …], "left_out": 1}}}}

``segments`` may be absent. Every system has a score by every metric, for the same segments. A segment without a score
is null; ``left_out``, if present, is their number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quitmt.errors import InputError
from quitmt.evaluate.metrics import LARGEST, Metric, Scores

HOW = "quitmt score --format json --segments -o FILE writes them"


@dataclass(frozen=True, slots=True)
class MetricScores:
    """One metric's scores, by the name of the system."""

    signature: str
    lower_is_better: bool
    scores: Mapping[str, Scores]

    @property
    def arrow(self) -> str:
        return "↓" if self.lower_is_better else "↑"

    @property
    def best(self) -> float:
        values = [scores.system for scores in self.scores.values()]
        return min(values) if self.lower_is_better else max(values)

    @property
    def decimals(self) -> int:
        """Decimals to show: two for scores of 10 and more, otherwise four."""
        return 2 if max(abs(scores.system) for scores in self.scores.values()) >= 10 else 4


@dataclass(slots=True)
class Report:
    systems: tuple[str, ...]
    columns: dict[str, MetricScores] = field(default_factory=dict)

    def add(self, metric: Metric, references: int, scores: list[Scores]) -> None:
        """Add a metric's scores of the systems; ``references`` is the number of references per segment."""
        self.columns[metric.name] = MetricScores(
            metric.signature_for(references), metric.lower_is_better, dict(zip(self.systems, scores, strict=True))
        )

    @property
    def segments(self) -> int:
        return len(next(iter(next(iter(self.columns.values())).scores.values())).segments)

    def warnings(self, metric: str) -> Iterator[str]:
        """A warning for each system that lacks scores by a metric."""
        for system, scores in self.columns[metric].scores.items():
            if scores.left_out:
                answers = f"{scores.left_out} of {len(scores.segments)} answers"
                yield f"{metric}, {system}: {answers} could not be read and are left out"


def to_fields(report: Report, *, segments: bool) -> dict[str, Any]:
    def fields(scores: Scores) -> dict[str, Any]:
        left_out = {"left_out": scores.left_out} if scores.left_out else {}
        return {"system": scores.system} | ({"segments": numbers(scores)} if segments else {}) | left_out

    return {
        "metrics": metric_fields(report),
        "systems": {
            system: {name: fields(column.scores[system]) for name, column in report.columns.items()}
            for system in report.systems
        },
    }


def metric_fields(report: Report) -> dict[str, Any]:
    return {
        name: {"signature": column.signature, "lower_is_better": column.lower_is_better}
        for name, column in report.columns.items()
    }


def numbers(scores: Scores) -> list[float | None]:
    """The scores of segments; None for missing ones."""
    return [None if math.isnan(score) else score for score in scores.segments.tolist()]


def parse(text: str, path: str) -> Report:
    """Read a report with segment scores from JSON; errors mention ``path``."""
    try:
        fields = json.loads(text)
        report = Report(tuple(fields["systems"]))
        for name, facts in fields["metrics"].items():
            scores = {system: _scores(by_metric[name]) for system, by_metric in fields["systems"].items()}
            report.columns[name] = MetricScores(str(facts["signature"]), facts["lower_is_better"] is True, scores)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        raise InputError(f"{path} isn't a file with the scores of systems and their segments", hint=HOW) from None
    sizes = {len(scores.segments) for column in report.columns.values() for scores in column.scores.values()}
    if len(sizes) != 1:
        raise InputError(f"{path}: all systems must have scores for the same number of segments")
    return report


def _scores(fields: Any) -> Scores:
    segments = np.array(fields["segments"], np.float64)  # None becomes NaN
    system = float(fields["system"])
    scored = segments[~np.isnan(segments)]
    if segments.ndim != 1 or not scored.size or not (np.abs([system, *scored]) <= LARGEST).all():
        raise ValueError("no scores, or one beyond the largest")
    return Scores(segments, system)
