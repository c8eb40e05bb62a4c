"""Quality estimation by translating back: how probable the source is, given the candidate, under the reverse model.

The score is exp(mean log P(source token | candidate)), including the end-of-sentence mark. This is the geometric mean
of the tokens' probabilities, between 0 and 1. They come from forced decoding of the source, at temperature 1 and
without cutting off unlikely tokens.

A candidate that only copies the source scores 0, below everything else, because copies are easiest to translate back
(docs/decisions/0011-copies.md). Names, numbers, code and single words don't count as copies
(``quitmt.warnings.is_copy``).

Invariant: a pair's score does not depend on the other pairs, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from quitmt.bergamot.models import load
from quitmt.bergamot.network import START, Bounds
from quitmt.bergamot.output import log_normalisers
from quitmt.errors import UsageError, setting
from quitmt.metrics.registry import Setup
from quitmt.protocols import EstimatorTraits
from quitmt.types import Candidate, Segment
from quitmt.warnings import is_copy

ROWS_PER_BATCH = 1024
"""Tokens of both sides that go through the network at once; bounds the memory."""

Pair = tuple[list[int], list[int]]


class Likelihood:
    """``model`` translates from the candidates' language into the sources': ``embedded:pt-en`` for English sources."""

    traits = EstimatorTraits(needs_source=True)

    def __init__(self, model: str = "embedded:pt-en") -> None:
        # A source may have characters that the model doesn't know; then the model's P(unknown) counts.
        self._model = load(model, unknowns=True)
        self.signature = f"likelihood|{model}|w:{self._model.fingerprint}"

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> npt.NDArray[np.float64]:
        """One score per pair; higher is better."""
        encoded = [
            (self._model.source.encode(candidate.text), self._model.target.encode(segment.source))
            for segment, candidate in pairs
        ]
        scores = [self._batch(batch) for batch in _batches(encoded)]
        copied = [is_copy(segment.source, candidate.text) for segment, candidate in pairs]
        return np.where(copied, 0.0, np.concatenate(scores)) if scores else np.zeros(0)

    def _batch(self, batch: Sequence[Pair]) -> npt.NDArray[np.float64]:
        network, output = self._model.network, self._model.output
        memories = network.encode([candidate for candidate, _ in batch])
        lengths = np.array([len(source) for _, source in batch])
        stops = np.cumsum(lengths)
        starts = stops - lengths
        targets = np.concatenate([np.array(source) for _, source in batch])
        before = np.concatenate([[START], targets[:-1]])
        before[starts] = START
        chained = np.ones(len(targets), np.bool_)
        chained[starts] = False
        positions = np.concatenate([np.arange(length) for length in lengths])
        architecture = network.architecture
        cells = np.zeros((architecture.decoder_layers, len(targets), architecture.width), np.float32)
        bounds: list[Bounds] = list(zip(starts.tolist(), stops.tolist(), strict=True))
        vectors = network.decode(before, positions, cells, chained, list(zip(bounds, memories, strict=True)))
        vectors = output.prepare(vectors)
        sums, _ = output.summarise(vectors, 1.0)
        log_probabilities = output.logits(vectors, targets) - log_normalisers(sums)
        return np.asarray(np.exp(np.add.reduceat(log_probabilities, starts) / lengths))


def _batches(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """The pairs in order, in batches of at most ROWS_PER_BATCH tokens, but at least one pair."""
    batch: list[Pair] = []
    rows = 0
    for pair in pairs:
        size = len(pair[0]) + len(pair[1])
        if batch and rows + size > ROWS_PER_BATCH:
            yield batch
            batch, rows = [], 0
        batch.append(pair)
        rows += size
    if batch:
        yield batch


def check_model(model: str) -> None:
    if model.partition(":")[0] not in ("embedded", "bergamot"):
        hint = "name one, as in qe:likelihood:bergamot:PATH or qe:likelihood:embedded:pt-en"
        raise UsageError(f"qe:likelihood takes Bergamot models and the embedded ones, not {model!r}", hint=hint)


def reverse(model: str, setup: Setup) -> Likelihood:
    """The estimator with the named model, or without a name, with the embedded model of the reverse direction."""
    source, target = setup.languages
    if not (model or (source and target)):
        languages = f"{setting('model.source_language')} and {setting('model.target_language')}"
        hint = f"name one, as in qe:likelihood:bergamot:PATH, or give {languages} for an embedded one"
        raise UsageError("qe:likelihood needs a model of the reverse direction", hint=hint)
    return Likelihood(model or f"embedded:{target}-{source}")
