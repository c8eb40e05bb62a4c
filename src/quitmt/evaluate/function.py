"""Turns any function ``(translation, reference)`` or ``(source, translation, reference)`` into a metric.

Higher is better, unless the function has a true attribute ``lower_is_better``. With several references, a segment's
score is the mean over them; a system's score is the mean of its segments' scores.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from quitmt.errors import RerankError, UsageError
from quitmt.evaluate.metrics import Progress, Scores, TestSet, several
from quitmt.evaluate.report import LARGEST
from quitmt.metrics.function import code
from quitmt.names import attribute

FORM = "it must take (translation, reference) or (source, translation, reference)"


class FunctionMetric:
    needs_reference = True

    def __init__(self, spec: str, known: Iterable[str] = ()) -> None:
        """``spec`` is module:attribute; ``known`` are names to suggest for a misspelt one."""
        self._function: Callable[..., Any] = attribute(spec, known)
        if not callable(self._function):
            raise UsageError(f"{spec} is not a function but a {type(self._function).__name__}", hint=FORM)
        self.name = spec.partition(":")[2]
        self.needs_source = _parameters(self._function, spec) == 3
        self.lower_is_better = bool(getattr(self._function, "lower_is_better", False))
        self._spec = spec
        self._signed = f"function:{spec}{code(self._function)}"

    def evaluate(
        self, test_set: TestSet, systems: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[Scores]:
        sources = (test_set.sources or ()) if self.needs_source else ("",) * len(test_set.references[0])
        known: dict[tuple[str, ...], float] = {}

        def score(number: int, *example: str) -> float:
            if example not in known:
                known[example] = self._score(number, example if self.needs_source else example[1:])
            return known[example]

        segments = np.empty((len(systems), len(sources)))
        for number, (source, *references) in enumerate(zip(sources, *test_set.references, strict=True)):
            for row, system in zip(segments, systems, strict=True):
                found = [score(number, source, system[number], reference) for reference in references]
                row[number] = sum(found) / len(found)
            if progress:
                progress(len(systems))
        return [Scores(row, float(row.mean())) for row in segments]

    def signature_for(self, references: int) -> str:
        return f"{self._signed}{several(references)}"

    def _score(self, number: int, example: Sequence[str]) -> float:
        try:
            score = float(self._function(*example))
        except (Exception, SystemExit) as error:  # sys.exit in a function would end the run without a message
            said = " ".join(str(error).split())
            raise RerankError(f"{self._spec} failed at segment {number + 1}: {type(error).__name__}: {said}") from error
        if not abs(score) <= LARGEST:  # true of NaN as well
            raise RerankError(f"{self._spec} gave {score} for segment {number + 1}, not a number within ±{LARGEST:g}")
        return score


def _parameters(function: Callable[..., Any], spec: str) -> int:
    """The number of texts that it takes: its two or three required parameters."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise UsageError(f"the parameters of {spec} cannot be found out", hint=FORM) from None
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty]
    texts = [
        parameter
        for parameter in needed
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    named = [parameter.name for parameter in needed if parameter.kind is parameter.KEYWORD_ONLY]
    if named:
        raise UsageError(f"{spec} cannot do without {named[0]}=", hint=FORM)
    if len(texts) not in (2, 3):
        raise UsageError(f"{spec} takes {len(texts)} texts", hint=FORM)
    return len(texts)
