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
from typing import Any, NoReturn

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
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, InputError) else "it is not JSON"
        raise InputError(f"the scores in {path} cannot be read: {reason}", hint=HOW) from None
    metrics, systems = (_object(found, name, path) for name in ("metrics", "systems"))
    report = Report(tuple(systems))
    for name in metrics:
        facts = _object(metrics, name, path)
        scores = {
            system: _scores(_object(systems, system, path).get(name), f"{path}, {system}, {name}") for system in systems
        }
        report.columns[name] = MetricScores(
            str(facts.get("signature", "")), facts.get("lower_is_better") is True, scores
        )
    _check_sizes(report, path)
    return report


def _object(found: Any, name: str, path: str) -> dict[str, Any]:
    inner = found.get(name) if isinstance(found, dict) else None
    if not isinstance(inner, dict) or not inner:
        raise InputError(f"{path} is not a file of scores: it has no {name!r}", hint=HOW)
    return inner


def _scores(found: Any, where: str) -> Scores:
    system, segments = (found.get("system"), found.get("segments")) if isinstance(found, dict) else (None, None)
    if not _number(system):
        raise InputError(f"{where}: there is no score of the system", hint=HOW)
    if not isinstance(segments, list) or not segments:
        raise InputError(f"{where}: there are no scores of segments", hint=HOW)
    for number, score in enumerate(segments, start=1):
        if score is not None and not _number(score):
            raise InputError(
                f"{where}: the score of segment {number} is {json.dumps(score)[:40]}, not a number within ±{LARGEST:g}"
            )
    if all(score is None for score in segments):
        raise InputError(f"{where}: no segment has a score")
    return Scores(np.array(segments, np.float64), float(system))  # type: ignore[arg-type]  # None becomes NaN


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= LARGEST


def _check_sizes(report: Report, path: str) -> None:
    first: tuple[str, int] | None = None
    for name, column in report.columns.items():
        for system, scores in column.scores.items():
            here, size = f"{system} by {name}", len(scores.segments)
            first = first or (here, size)
            if size != first[1]:
                raise InputError(f"{path}: {here} has {size} segments, but {first[0]} has {first[1]}")


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"a score is {name}, not a finite number")
