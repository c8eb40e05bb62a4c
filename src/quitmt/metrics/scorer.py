"""Scoring models: one number for a translation of a source, with a reference or without.

A *scorer* is a published model: COMET, CometKiwi, xCOMET, MetricX. The same scorer serves evaluation (with real
references), MBR (with other candidates as references) and quality estimation (without), through the adapters here.
Better translations always have higher scores: a metric published the other way round is negated, and its registry entry
says ``lower_is_better`` so that evaluation prints the published direction.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from quitmt.errors import ModelError, QuitmtError
from quitmt.metrics.devices import Hardware as Hardware
from quitmt.metrics.registry import SCORING_MODELS, MetricEntry, located
from quitmt.protocols import EstimatorTraits, Matrix, UtilityTraits
from quitmt.types import Candidate, Segment

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
Progress = Callable[[int], object]
"""Called with the number of examples that have been scored since the last call."""


def scaled(progress: Progress | None, steps: int, examples: int) -> Progress | None:
    """Convert progress in ``steps`` into progress in ``examples``."""
    done = reported = 0

    def report(count: int) -> None:
        nonlocal done, reported
        done += count
        reached = examples * done // steps
        if progress and reached > reported:
            progress(reached - reported)
        reported = reached

    return report if progress else None


def score_once(
    keys: Sequence[Hashable], score: Callable[[list[Any]], Floats], progress: Progress | None = None
) -> Floats:
    """Score each distinct key once, in the order of first appearance, and return one score per key."""
    place: dict[Hashable, int] = {}
    places = [place.setdefault(key, len(place)) for key in keys]
    if progress:
        progress(len(keys) - len(place))
    return np.asarray(score(list(place)))[places]


@dataclass(frozen=True, slots=True)
class Example:
    """One translation to be scored. The reference may be a real one or another candidate."""

    source: str
    translation: str
    reference: str | None = None


class Scorer(Protocol):
    """Scores examples in batches that it chooses; equal examples are scored once."""

    @property
    def signature(self) -> str: ...

    def score(self, examples: Sequence[Example], progress: Progress | None = None) -> Floats:
        """One score per example, in their order; higher is better."""
        ...


_loaded: weakref.WeakValueDictionary[tuple[str, str, Hardware], Scorer] = weakref.WeakValueDictionary()
"""Models in use: loading one again returns the same object. Memory is freed with the last user."""


def load(spec: str, hardware: Hardware | None = None) -> Scorer:
    """The scorer with a name like ``comet`` or ``kiwi:Unbabel/wmt23-cometkiwi-da-xl``; a process loads it once."""
    name, _, model = spec.partition(":")
    entry, hardware = SCORING_MODELS[name], hardware or Hardware()
    key = entry.scorer, model or entry.model, hardware
    scorer = _loaded.get(key)
    if scorer is None:
        scorer = _loaded[key] = _load(entry, model or entry.model, hardware)
    return scorer


def _load(entry: MetricEntry, model: str, hardware: Hardware) -> Scorer:
    entry.require(entry.title)
    make: Any = located(entry.scorer)
    try:
        return make(model, hardware)  # type: ignore[no-any-return]
    except QuitmtError:
        raise
    except Exception as error:  # a checkpoint can be damaged in many ways
        log.debug("loading %s failed", model, exc_info=error)
        line = next(iter(str(error).strip().splitlines()), "")
        raise ModelError(f"{model} cannot be loaded: {type(error).__name__}: {line}".rstrip(": ")) from None


class ScorerEstimator:
    """Uses a scorer without references as a quality estimator."""

    traits = EstimatorTraits(needs_source=True)

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self.scores_with = (scorer,)
        self.signature = scorer.signature

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> Floats:
        return self._scorer.score([Example(segment.source, candidate.text) for segment, candidate in pairs])


class TextArena:
    """A segment's distinct texts, for utilities that read two texts together."""

    __slots__ = ("segment", "texts")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.texts: list[str] = []


class PairwiseUtility:
    """Uses a scorer that reads translation and reference together as a utility: each ordered pair is an example."""

    traits = UtilityTraits(needs_source=True, encodes_whole=True)

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self.scores_with = (scorer,)
        self.signature = scorer.signature

    def open(self, segment: Segment) -> TextArena:
        return TextArena(segment)

    def encode(self, batch: Sequence[tuple[TextArena, Sequence[str]]]) -> None:
        for arena, texts in batch:
            arena.texts.extend(texts)

    def compare(self, arena: TextArena, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        source, texts = arena.segment.source, arena.texts
        forward = [Example(source, texts[row], texts[column]) for row in rows for column in columns]
        backward = [Example(source, texts[column], texts[row]) for row in rows for column in columns]
        scores = self._scorer.score(forward + backward).reshape(2, len(rows), len(columns))
        return scores[0], scores[1]

    def pairs(self, arena: TextArena, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]) -> Floats:
        source, texts = arena.segment.source, arena.texts
        numbers = zip(rows.tolist(), columns.tolist(), strict=True)
        return self._scorer.score([Example(source, texts[row], texts[column]) for row, column in numbers])
