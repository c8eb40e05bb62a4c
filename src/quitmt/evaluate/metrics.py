"""Metrics of whole systems: one score per segment and one per system.

Invariants:
- Scores have the metric's published direction and scale; ``lower_is_better`` gives the direction.
- A segment's score is finite, except that a judge's unreadable answer gives NaN, which the system's score leaves out. A
  system always has a score.
- All systems are scored in one call, and equal examples (source, translation, reference) once: equal translations have
  equal scores at no additional cost.
- The registry says what a metric needs, before it is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from quitmt.errors import InputError, RerankError, UsageError, unknown
from quitmt.metrics import scorer as scorers
from quitmt.metrics.function import code, takes_source
from quitmt.metrics.registry import EVALUATORS, SCORING_MODELS, MetricEntry, located
from quitmt.metrics.registry import Setup as Setup
from quitmt.metrics.scorer import Example, Scorer
from quitmt.names import attribute
from quitmt.protocols import cut

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
LARGEST = 1e100
"""Largest absolute score, so that sums and squares of scores stay finite."""
FORM = "a function of (translation, reference) or (source, translation, reference)"
Progress = Callable[[int], object]
"""Called with the number of segments scored since the last call; a whole call adds up to systems × segments."""


@dataclass(frozen=True, slots=True)
class TestSet:
    """Sources and references. Each reference is one tuple with a translation of every segment."""

    __test__: ClassVar[bool] = False  # not a pytest class

    sources: tuple[str, ...] | None = None
    references: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        sizes = {len(texts) for texts in (*self.references, *([] if self.sources is None else [self.sources]))}
        if len(sizes) > 1:
            raise InputError(f"sources and references have {' and '.join(map(str, sorted(sizes)))} segments")


@dataclass(frozen=True, slots=True)
class Scores:
    """One system's scores by one metric; NaN marks segments without a score, which the system's score leaves out."""

    segments: Floats
    system: float

    @property
    def left_out(self) -> int:
        return int(np.isnan(self.segments).sum())


class Metric(Protocol):
    @property
    def name(self) -> str:
        """The column heading: chrF++, COMET."""
        ...

    def signature_for(self, references: int) -> str:
        """Names everything that the scores depend on, including the number of references per segment."""
        ...

    @property
    def needs_source(self) -> bool: ...

    @property
    def needs_reference(self) -> bool: ...

    @property
    def lower_is_better(self) -> bool: ...

    def evaluate(
        self, test_set: TestSet, systems: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[Scores]:
        """The scores of each system; all have as many segments as the test set."""
        ...


class ScorerMetric:
    """Uses a scoring model as a metric. With several references, a segment's score is the mean over them.

    ``gaps`` allows NaN for examples without a score.
    """

    def __init__(
        self,
        scorer: Scorer,
        *,
        name: str,
        needs_reference: bool,
        needs_source: bool = True,
        lower_is_better: bool = False,
        gaps: bool = False,
    ) -> None:
        self._scorer = scorer
        self.name = name
        self.needs_source = needs_source
        self.needs_reference = needs_reference
        self.lower_is_better = lower_is_better
        self._signed = scorer.signature
        self._gaps = gaps

    def evaluate(
        self, test_set: TestSet, systems: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[Scores]:
        # An unused source must not make equal examples different.
        sources = (test_set.sources or ()) if self.needs_source else ("",) * len(test_set.references[0])
        references = test_set.references if self.needs_reference else ((None,) * len(sources),)
        places: dict[Example, int] = {}
        order = [
            places.setdefault(Example(source, translation, reference), len(places))
            for system in systems
            for texts in references
            for source, translation, reference in zip(sources, system, texts, strict=True)
        ]
        report = scorers.scaled(progress, len(places), len(systems) * len(sources))
        scores = self._checked(list(places), report)[order]
        scores = scores.reshape(len(systems), len(references), len(sources)).mean(axis=1)
        return [self._averaged(segments) for segments in (-scores if self.lower_is_better else scores)]

    def signature_for(self, references: int) -> str:
        return self._signed + (several(references) if self.needs_reference else "")

    def _checked(self, examples: list[Example], progress: Progress | None) -> Floats:
        scores = np.asarray(self._scorer.score(examples, progress), np.float64)
        self._tell_cuts(examples)
        if scores.shape != (len(examples),):
            raise RerankError(f"{self.name} gave {scores.size} scores for {len(examples)} examples")
        bad = np.isinf(scores) if self._gaps else ~np.isfinite(scores)
        for index in np.flatnonzero(bad):
            raise RerankError(f"{self.name}: the score of {examples[index].translation!r} is {scores[index]}")
        return scores

    def _tell_cuts(self, examples: list[Example]) -> None:
        """Warn about texts that are longer than the model's limit."""
        texts = {text for one in examples for text in (one.source, one.translation, one.reference or "")}
        if cuts := cut(self._scorer, texts):
            read = f"read {len(cuts)} of {len(texts)} texts only in part, and left out up to {max(cuts)} tokens of one"
            log.warning(f"{self.name} {read} (split them into sentences)")

    def _averaged(self, segments: Floats) -> Scores:
        there = segments[~np.isnan(segments)]
        if not there.size:
            hint = "the model may be too small for a judge, or its answers cut off by max_tokens"
            raise RerankError(f"{self.name}: none of the {segments.size} answers about a system can be read", hint=hint)
        return Scores(segments, float(there.mean()))


class FunctionMetric:
    """A user's function as a metric; higher is better, unless it has a true attribute ``lower_is_better``. With several
    references, a segment's score is the mean over them; a system's score is the mean of its segments' scores."""

    needs_reference = True

    def __init__(self, spec: str, known: Iterable[str] = ()) -> None:
        """``spec`` is module:attribute; ``known`` are names to suggest for a misspelt one."""
        self._function: Callable[..., Any] = attribute(spec, known)
        if not callable(self._function):
            raise UsageError(f"{spec} is a {type(self._function).__name__}", hint=f"it must be {FORM}")
        self.name = spec.partition(":")[2]
        self.needs_source = takes_source(self._function, FORM)
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
                scores = [score(number, source, system[number], reference) for reference in references]
                row[number] = sum(scores) / len(scores)
            if progress:
                progress(len(systems))
        return [Scores(row, float(row.mean())) for row in segments]

    def signature_for(self, references: int) -> str:
        return f"{self._signed}{several(references)}"

    def _score(self, number: int, example: Sequence[str]) -> float:
        try:
            score = float(self._function(*example))
        except (Exception, SystemExit) as error:  # sys.exit in a function would end the run without a message
            reason = " ".join(str(error).split())
            message = f"{self._spec} failed at segment {number + 1}: {type(error).__name__}: {reason}"
            raise RerankError(message) from error
        if not abs(score) <= LARGEST:  # true of NaN as well
            raise RerankError(f"{self._spec} gave {score} for segment {number + 1}, not a number within ±{LARGEST:g}")
        return score


def several(references: int) -> str:
    """The signature's part about several references, for metrics that compare with one reference at a time."""
    return f"|refs:{references},mean" if references > 1 else ""


def _scored(name: str, model: str, setup: Setup) -> Metric:
    """A scoring model of ``SCORING_MODELS``."""
    entry = SCORING_MODELS[name]
    return ScorerMetric(
        scorers.load(f"{name}:{model}" if model else name, setup.hardware),
        name=entry.titled(model),
        needs_reference=entry.needs_reference,
        needs_source=entry.needs_source,
        lower_is_better=entry.lower_is_better,
    )


def judge(model: str, setup: Setup) -> Metric:
    """GEMBA-MQM with ENGINE:MODEL. Hardware settings that its engine doesn't take are for the run's other metrics."""
    from quitmt.evaluate.judge.engines import gemba
    from quitmt.generate import BACKENDS

    engine, _, name = model.partition(":")
    takes = BACKENDS[engine].takes if engine in BACKENDS else ()
    shared = {"device": setup.hardware.device, "dtype": setup.hardware.dtype}
    options = {option: value for option, value in shared.items() if option in takes} | dict(setup.engine)
    made = gemba(f"gemba:{model}", setup.languages, options, setup.cache)
    return ScorerMetric(made, name=EVALUATORS["gemba"].titled(name), needs_reference=False, gaps=True)


METRICS = {name: entry.evaluation for name, entry in EVALUATORS.items()} | {
    "module:attribute": "your own function (translation, reference) or (source, translation, reference)",
}
"""Names and their meanings, for help texts."""


def find(spec: str) -> tuple[MetricEntry, str]:
    """The entry of a name like ``chrf++``, ``comet:MODEL`` or ``my_module:my_function``, and its argument.

    Loads no model, but imports a user's function: its parameters say what it needs.
    """
    name, colon, argument = spec.partition(":")
    if name in EVALUATORS:
        return EVALUATORS[name], argument
    if not colon:
        raise unknown("metric", spec, METRICS)
    metric = FunctionMetric(spec, EVALUATORS)
    entry = MetricEntry("", "", evaluator=lambda *_: metric, needs_source=metric.needs_source, needs_reference=True)
    return entry, argument


def load(spec: str, setup: Setup | None = None) -> Metric:
    entry, argument = find(spec)
    setup = setup or Setup()
    if entry.neural:
        return _scored(entry.name, argument, setup)
    return located(entry.evaluator)(argument, setup)  # type: ignore[no-any-return]
