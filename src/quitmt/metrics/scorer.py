"""Scoring models: one number for a translation of a source, with a reference or without.

A *scorer* is what a published metric is: COMET, CometKiwi, xCOMET, MetricX. The same scorer serves evaluation (with
real references), MBR (with other candidates as references) and quality estimation (without), through the adapters
here. Scores are higher for better translations, always; a metric that is published the other way round is negated
inside and says so with ``lower_is_better``, for those who print it.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from quitmt.errors import MissingExtra, ModelError, QuitmtError, UsageError, unknown
from quitmt.metrics.devices import Hardware as Hardware
from quitmt.protocols import EstimatorTraits, Matrix, UtilityTraits
from quitmt.types import Candidate, Segment

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
Progress = Callable[[int], object]
"""Is told of each few examples that are done, by their number."""


def scaled(progress: Progress | None, steps: int, examples: int) -> Progress | None:
    """Progress in steps of some work, told as progress in examples."""
    done = told = 0

    def tell(count: int) -> None:
        nonlocal done, told
        done += count
        reached = examples * done // steps
        if progress and reached > told:
            progress(reached - told)
        told = reached

    return tell if progress else None


@dataclass(frozen=True, slots=True)
class Example:
    """One translation to be scored. The reference may be a real one or another candidate."""

    source: str
    translation: str
    reference: str | None = None


class Scorer(Protocol):
    """Scores examples in batches of its own making; equal examples are scored once."""

    @property
    def signature(self) -> str: ...

    def score(self, examples: Sequence[Example], progress: Progress | None = None) -> Floats:
        """One score an example, higher for better ones, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A published metric: where its class is, the checkpoint it takes by default, and what it needs."""

    title: str
    meaning: str
    location: str
    """module:class, made with ``(model, device=, dtype=, batch_tokens=)``"""
    model: str
    needs_reference: bool
    utility: str = "quitmt.metrics.scorer:PairwiseUtility"
    """module:class that makes an MBR utility of the scorer."""
    lower_is_better: bool = False
    needs_source: bool = True
    extra: str = "comet"
    needs: tuple[str, ...] = ("torch", "transformers")

    @property
    def installed(self) -> bool:
        return all(importlib.util.find_spec(module) is not None for module in self.needs)


KINDS = {
    "comet": Kind(
        "COMET",
        "COMET-22, or another regression checkpoint",
        "quitmt.metrics.comet:Comet",
        "Unbabel/wmt22-comet-da",
        needs_reference=True,
        utility="quitmt.metrics.comet:CometUtility",
    ),
    "kiwi": Kind(
        "CometKiwi",
        "CometKiwi-22, or the XL and XXL ones; needs no reference",
        "quitmt.metrics.kiwi:Kiwi",
        "Unbabel/wmt22-cometkiwi-da",
        needs_reference=False,
    ),
    "xcomet": Kind(
        "xCOMET",
        "xCOMET-XXL, or XL: regression and error spans",
        "quitmt.metrics.xcomet:Xcomet",
        "Unbabel/XCOMET-XXL",
        needs_reference=True,
    ),
    "xcomet-qe": Kind(
        "xCOMET-QE",
        "xCOMET without a reference",
        "quitmt.metrics.xcomet:XcometQe",
        "Unbabel/XCOMET-XXL",
        needs_reference=False,
    ),
    "metricx": Kind(
        "MetricX",
        "MetricX-24 (hybrid), XXL unless named; lower is better",
        "quitmt.metrics.metricx:Metricx",
        "google/metricx-24-hybrid-xxl-v2p6",
        needs_reference=True,
        lower_is_better=True,
    ),
    "metricx-qe": Kind(
        "MetricX-QE",
        "MetricX-24 without a reference; lower is better",
        "quitmt.metrics.metricx:MetricxQe",
        "google/metricx-24-hybrid-xxl-v2p6",
        needs_reference=False,
        lower_is_better=True,
    ),
    "embedding": Kind(
        "Embedding",
        "the cosine of sentence embeddings: a small multilingual model, or any of sentence-transformers",
        "quitmt.metrics.embedding:Embedding",
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        needs_reference=True,
        utility="quitmt.metrics.embedding:EmbeddingUtility",
        needs_source=False,
    ),
}


_loaded: weakref.WeakValueDictionary[tuple[str, str, Hardware], Scorer] = weakref.WeakValueDictionary()
"""Those that somebody holds: whoever asks for the same one gets it, and its memory is free when nobody does."""


def load(spec: str, hardware: Hardware | None = None) -> Scorer:
    """The scorer a text like ``comet`` or ``kiwi:Unbabel/wmt23-cometkiwi-da-xl`` names, one for all of a process."""
    kind, hardware = _kind(spec), hardware or Hardware()
    model = spec.partition(":")[2] or kind.model
    key = kind.location, model, hardware
    found = _loaded.get(key)
    if found is None:
        found = _loaded[key] = _load(kind, model, hardware)
    return found


def _load(kind: Kind, model: str, hardware: Hardware) -> Scorer:
    if not kind.installed:
        raise MissingExtra(f"{kind.title} needs torch and transformers", hint=f"pip install 'quitmt[{kind.extra}]'")
    make: Any = _attribute(kind.location)
    try:
        return make(model, hardware)  # type: ignore[no-any-return]
    except QuitmtError:
        raise
    except Exception as error:  # the many ways in which a checkpoint can be damaged
        log.debug("loading %s failed", model, exc_info=error)
        line = next(iter(str(error).strip().splitlines()), "")
        raise ModelError(f"{model} cannot be loaded: {type(error).__name__}: {line}".rstrip(": ")) from None


def utility(spec: str, hardware: Hardware | None = None) -> Any:
    """The MBR utility of the same."""
    kind = _kind(spec)
    if not kind.needs_reference:
        raise UsageError(f"{kind.title} scores without a reference and compares nothing", hint=f"take qe:{spec}")
    return _attribute(kind.utility)(load(spec, hardware))


def estimator(spec: str, hardware: Hardware | None = None) -> ScorerEstimator:
    """The quality estimator of the same."""
    kind = _kind(spec)
    if kind.needs_reference:
        raise UsageError(f"{kind.title} needs a reference", hint=f"mbr:{spec} has the other candidates for it")
    return ScorerEstimator(load(spec, hardware))


def _kind(spec: str) -> Kind:
    name = spec.partition(":")[0]
    if name not in KINDS:
        raise unknown("metric", name, KINDS)
    return KINDS[name]


def _attribute(location: str) -> Any:
    module, _, name = location.partition(":")
    return getattr(importlib.import_module(module), name)


class ScorerEstimator:
    """A scorer without references, as a quality estimator."""

    traits = EstimatorTraits(needs_source=True)

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self.scores_with = (scorer,)
        self.signature = scorer.signature

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> Floats:
        return self._scorer.score([Example(segment.source, candidate.text) for segment, candidate in pairs])


class TextArena:
    """A segment's distinct texts, for a utility that has no features of single texts."""

    __slots__ = ("segment", "texts")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.texts: list[str] = []


class PairwiseUtility:
    """A scorer that reads translation and reference together, as a utility: each ordered pair is an example."""

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
