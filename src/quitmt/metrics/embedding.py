"""The cosine of sentence embeddings, as an MBR utility (``mbr:embedding:MODEL``) and as a metric with references.

sentence-transformers computes the embeddings. A text goes through the encoder once; after that a pair costs one product
of two vectors. The cosine is linear in the reference's vector, so the mean of a text's cosines with a support is its
product with the support's mean vector: reference aggregation is exact here.

Invariants:
- Vectors lie on a grid (``GRID``) that makes sums of their products exact: a pair's cosine is bitwise the same in
  either direction, in a block of any shape and in any order of summation.
- Texts with the same tokens have the same vector, bit for bit: to an uncased model "The cat" and "the cat" are a tie.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.errors import ModelError, UsageError
from quitmt.metrics import devices
from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural import hub
from quitmt.metrics.neural.batches import Batcher
from quitmt.metrics.neural.checkpoint import fingerprint
from quitmt.metrics.neural.tokenization import Cuts
from quitmt.metrics.scorer import Example, Floats, Progress, scaled
from quitmt.protocols import Matrix, UtilityTraits
from quitmt.types import Segment

Ints = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Tokens = tuple[int, ...]

GRID = 2.0**24
"""Steps from 0 to 1 in a coordinate. Products are multiples of 2⁻⁴⁸, and no part of a sum of them exceeds 1 by more
than rounding, so float64 holds each exactly. Float32 holds the coordinates themselves exactly."""
MEAN_GRID = 2.0**28
"""The same for means of vectors, as fine as 53 bits allow."""
PAIRS_AT_ONCE = 4096


class Embedding:
    """A model of sentence embeddings, ready to compare a translation with a reference; it ignores the source."""

    def __init__(self, model: str, hardware: Hardware) -> None:
        device, dtype = devices.device(hardware.device), hardware.dtype or "float32"
        self._model = _load(model, device, devices.dtype(dtype))
        self._prompt = self._model.prompts.get(self._model.default_prompt_name or "", "")
        self._batcher = Batcher(device, hardware.batch_tokens)
        self.cuts = Cuts(self._model.max_seq_length)
        said = [str(self._model), self._model.tokenizer.backend_tokenizer.to_str(), self._prompt]
        settings = self._model.config.to_json_string() if self._model.config else ""
        weights = fingerprint(self._model.state_dict(), json.dumps([*said, settings]))
        self.signature = f"embedding|{model}|w:{weights}|tokens:{self.cuts.limit or 'any'}|{dtype}"
        self.embed({self.tokenize(["a"])[0]: "a"})  # fails here if the parts don't fit each other

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text, truncated to what the model reads."""
        if not texts:
            return []
        features = self._model.preprocess(list(texts), prompt=self._prompt)
        present = features["attention_mask"].bool()
        found = [tuple(ids[mask].tolist()) for ids, mask in zip(features["input_ids"], present, strict=True)]
        for text, tokens in zip(texts, found, strict=True):
            if self.cuts.limit is not None and len(tokens) >= self.cuts.limit:
                whole = self._model.tokenizer(self._prompt + text, truncation=False, verbose=False)["input_ids"]
                self.cuts.note(text, len(whole) - len(tokens))
        return found

    def embed(self, texts: Mapping[Tokens, str], progress: Progress | None = None) -> Vectors:
        """Vectors of length 1 on the grid, for texts by their tokens."""
        sequences = list(texts)
        batches = self._batcher.run(
            [len(tokens) for tokens in sequences],
            lambda batch: self._vectors([texts[sequences[index]] for index in batch]),
            progress,
        )
        found = {index: row for batch, vectors in batches for index, row in zip(batch, vectors, strict=True)}
        vectors = np.array([found[index] for index in range(len(sequences))])
        if vectors.size:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return _on_grid(vectors, GRID).astype(np.float32)

    def _vectors(self, texts: list[str]) -> Floats:
        found = self._model.encode(texts, batch_size=len(texts), convert_to_tensor=True, show_progress_bar=False)
        if not found.isfinite().all():
            half = str(found.dtype) == "torch.float16"
            hint = "take bfloat16 or float32" if half else "its weights may be damaged"
            raise ModelError(f"the encoder computes numbers that are not finite in {found.dtype}", hint=hint)
        vectors: Floats = found.double().cpu().numpy()
        return vectors

    def score(self, examples: Sequence[Example], progress: Progress | None = None) -> Floats:
        texts: dict[str, int] = {}
        pairs: list[tuple[int, int]] = []
        for example in examples:
            if example.reference is None:
                raise UsageError("the metric embedding needs a reference")
            both = example.translation, example.reference
            pairs.append((texts.setdefault(both[0], len(texts)), texts.setdefault(both[1], len(texts))))
        if not pairs:
            return np.zeros(0)
        tokenized = self.tokenize(list(texts))
        distinct = dict(zip(tokenized, texts, strict=True))
        rows = {tokens: row for row, tokens in enumerate(distinct)}
        vectors = self.embed(distinct, scaled(progress, len(distinct), len(examples)))
        numbers = np.array([rows[tokens] for tokens in tokenized], np.int64)[np.array(pairs)]
        return _cosines(vectors, numbers[:, 0], numbers[:, 1])


def _missing(report: str) -> list[str]:
    """The weights that are missing by the report that transformers logs while it loads them."""
    rows = [line.split("|") for line in report.splitlines()]
    return [row[0].strip() for row in rows if len(row) > 1 and "MISSING" in row[1]]


def _load(model: str, device: Any, dtype: Any) -> Any:
    """The model as sentence-transformers has it, from a folder, the cache or the hub."""
    with hub.quiet(), hub.quiet_loading() as messages:
        from sentence_transformers import SentenceTransformer

        try:
            found = hub.file(model, "modules.json", purpose="embedding")
        except hub.Absent:  # a plain encoder: sentence-transformers averages its tokens
            found = hub.file(model, "config.json", purpose="embedding")
        # A cached model is taken as a folder: nothing asks the hub, so offline and online runs are the same.
        path = str(found.parent) if hub.is_folder(model) or hub.has_weights(model) else model
        loaded: Any = SentenceTransformer(path, device=str(device), model_kwargs={"dtype": dtype})
    for name in _missing("\n".join(messages)):  # transformers would make them up
        if not name.startswith("pooler."):
            raise ModelError(f"{model} lacks weights of its network, such as {name}")
    network = loaded.transformers_model
    if getattr(network, "pooler", None) is not None:  # unused, and random where the published weights lack it
        network.pooler = None
    return loaded.to(dtype).eval()


class EmbeddingArena:
    """One segment's texts: a row of ``vectors`` each."""

    __slots__ = ("known", "vectors")

    def __init__(self) -> None:
        self.known: dict[Tokens, int] = {}
        """The tokens of a text → its first row."""
        self.vectors: Vectors = np.empty((0, 0), np.float32)

    def add(self, sequences: Sequence[Tokens], vectors: Mapping[Tokens, Vectors]) -> None:
        """Append texts by their tokens; ``vectors`` has those that the arena doesn't know yet."""
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
        tokenized = [(arena, texts, self._embedding.tokenize(texts)) for arena, texts in batch]
        new = {
            tokens: text
            for arena, texts, sequences in tokenized
            for tokens, text in zip(sequences, texts, strict=True)
            if tokens not in arena.known
        }
        vectors = dict(zip(new, self._embedding.embed(new), strict=True))
        for arena, _, sequences in tokenized:  # nothing can fail from here on
            arena.add(sequences, vectors)

    def compare(self, arena: EmbeddingArena, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        found = self.block(arena, np.array(rows, np.int64), columns)
        return found, found

    def block(self, arena: EmbeddingArena, rows: Ints, columns: range) -> Matrix:
        """The cosines of some texts with a range of them."""
        across = arena.vectors[columns.start : columns.stop]
        return arena.vectors[rows].astype(np.float64) @ across.T.astype(np.float64)

    def pairs(self, arena: EmbeddingArena, rows: Ints, columns: Ints) -> Matrix:
        """The cosines of pairs: the first row with the first column, the second with the second, …"""
        return _cosines(arena.vectors, rows, columns)

    def against(self, arena: EmbeddingArena, rows: range, weights: Matrix) -> Matrix:
        """The products of texts with weighted means of vectors, which aren't normalized: if the weights add up to 1,
        they are the weighted means of a text's cosines, as MBR needs them."""
        vectors = arena.vectors.astype(np.float64)
        means = _on_grid(weights @ vectors[: weights.shape[1]], MEAN_GRID)
        return vectors[rows.start : rows.stop] @ means.T

    def vectors(self, arena: EmbeddingArena) -> Vectors:
        return arena.vectors


def _on_grid(values: Floats, steps: float) -> Floats:
    return np.rint(values * steps) / steps


def _cosines(vectors: Vectors, rows: Ints, columns: Ints) -> Floats:
    """The cosines of pairs of vectors; batches bound the memory."""
    found = np.empty(len(rows))
    for start in range(0, len(rows), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        one, other = (vectors[numbers[part]].astype(np.float64) for numbers in (rows, columns))
        found[part] = np.einsum("ij,ij->i", one, other)
    return found
