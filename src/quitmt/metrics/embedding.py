"""The cosine of sentence embeddings, as an MBR utility (``mbr:embedding:MODEL``) and as a metric with references.

A text goes through the encoder once; after that a pair costs one product of two vectors. The cosine is linear in the
reference's vector, so that the mean of a text's cosines with a support is its product with the support's mean vector:
reference aggregation is exact here.

Invariants:
- Vectors lie on a grid (``GRID``) that makes sums of their products exact: a pair's cosine is bitwise the same in
  either direction, in a block of any shape and in any order of summation.
- Texts of the same tokens have the same vector, bit for bit: to an uncased model "The cat" and "the cat" are a tie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from quitmt.errors import UsageError
from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural.sentence import Ids, SentenceEncoder
from quitmt.metrics.scorer import Example, Floats, Progress, scaled
from quitmt.protocols import Matrix, UtilityTraits
from quitmt.types import Segment

Ints = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]

GRID = 2.0**24
"""Steps from 0 to 1 in a coordinate. Products are multiples of 2⁻⁴⁸, and no part of a sum of them is above 1 by more
than rounding, so float64 has each without an error. Float32 holds the coordinates themselves exactly."""
MEAN_GRID = 2.0**28
"""The same for means of vectors, as fine as 53 bits allow."""
PAIRS_AT_ONCE = 4096


class Embedding:
    """A model of sentence embeddings, ready to compare a translation with a reference; the source does not count."""

    def __init__(self, model: str, hardware: Hardware) -> None:
        self.encoder = SentenceEncoder(model, hardware)
        self.cuts = self.encoder.cuts
        pooling, longest = "+".join(self.encoder.pooling), self.encoder.longest or "any"
        weights, dtype = self.encoder.fingerprint, hardware.dtype or "float32"
        self.signature = f"embedding|{model}|w:{weights}|pool:{pooling}|tokens:{longest}|{dtype}"

    def embed(self, sequences: Sequence[Ids], progress: Progress | None = None) -> Vectors:
        """A vector on the grid for each sequence of tokens."""
        return _on_grid(self.encoder.embed(sequences, progress), GRID).astype(np.float32)

    def score(self, examples: Sequence[Example], progress: Progress | None = None) -> Floats:
        texts: dict[str, int] = {}
        pairs: list[tuple[int, int]] = []
        for example in examples:
            if example.reference is None:
                raise UsageError("an embedding is compared with a reference's, and there is none")
            both = example.translation, example.reference
            pairs.append((texts.setdefault(both[0], len(texts)), texts.setdefault(both[1], len(texts))))
        number: dict[Ids, int] = {}
        rows = np.array([number.setdefault(ids, len(number)) for ids in self.encoder.tokenize(list(texts))], np.int64)
        vectors = self.embed(list(number), scaled(progress, len(number), len(examples)))
        if not pairs:
            return np.zeros(0)
        numbers = rows[np.array(pairs)]
        return _cosines(vectors, numbers[:, 0], numbers[:, 1])


class EmbeddingArena:
    """One segment's texts: a row of ``vectors`` each."""

    __slots__ = ("known", "vectors")

    def __init__(self) -> None:
        self.known: dict[Ids, int] = {}
        """The tokens of a text → its first row."""
        self.vectors: Vectors = np.empty((0, 0), np.float32)

    def add(self, sequences: Sequence[Ids], vectors: Mapping[Ids, Vectors]) -> None:
        """Append texts by their tokens; those that are not known yet have a vector."""
        if not sequences:
            return
        new = [self.vectors[self.known[ids]] if ids in self.known else vectors[ids] for ids in sequences]
        size = len(self.vectors)
        self.vectors = np.concatenate((self.vectors, new)) if size else np.array(new)
        for row, ids in enumerate(sequences, start=size):
            self.known.setdefault(ids, row)


class EmbeddingUtility:
    """The utility ``mbr:embedding``; the same in both directions."""

    traits = UtilityTraits(encodes_whole=True)

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self.scores_with = (embedding,)
        self.signature = embedding.signature

    def open(self, segment: Segment) -> EmbeddingArena:
        return EmbeddingArena()

    def encode(self, batch: Sequence[tuple[EmbeddingArena, Sequence[str]]]) -> None:
        tokenized = [(arena, self._embedding.encoder.tokenize(texts)) for arena, texts in batch]
        new = list(dict.fromkeys(ids for arena, own in tokenized for ids in own if ids not in arena.known))
        vectors = dict(zip(new, self._embedding.embed(new), strict=True))
        for arena, own in tokenized:  # only now that nothing can fail any more
            arena.add(own, vectors)

    def compare(self, arena: EmbeddingArena, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        found = self.block(arena, np.array(rows, np.int64), columns)
        return found, found

    def block(self, arena: EmbeddingArena, rows: Ints, columns: range) -> Matrix:
        """The cosines of some texts with a range of them."""
        across = arena.vectors[columns.start : columns.stop]
        return arena.vectors[rows].astype(np.float64) @ across.T.astype(np.float64)

    def pairs(self, arena: EmbeddingArena, rows: Ints, columns: Ints) -> Matrix:
        """The same for pairs: the first row with the first column, the second with the second, …"""
        return _cosines(arena.vectors, rows, columns)

    def against(self, arena: EmbeddingArena, rows: range, weights: Matrix) -> Matrix:
        """The products of texts with weighted means of vectors, which are not brought back to length 1: with weights
        that add up to 1, the weighted means of a text's cosines, which is what MBR asks for."""
        vectors = arena.vectors.astype(np.float64)
        means = _on_grid(weights @ vectors[: weights.shape[1]], MEAN_GRID)
        return vectors[rows.start : rows.stop] @ means.T

    def vectors(self, arena: EmbeddingArena) -> Vectors:
        return arena.vectors


def _on_grid(values: Floats, steps: float) -> Floats:
    return np.rint(values * steps) / steps


def _cosines(vectors: Vectors, rows: Ints, columns: Ints) -> Floats:
    """Of pairs of vectors, some at a time to bound the memory."""
    found = np.empty(len(rows))
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        one, other = (vectors[numbers[part]].astype(np.float64) for numbers in (rows, columns))
        found[part] = np.einsum("ij,ij->i", one, other)
    return found
