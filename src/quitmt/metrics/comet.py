"""COMET with a reference (``regression_metric`` checkpoints, COMET-22 among them), as a metric and as an MBR utility.

Each distinct text is encoded once; a score is the head over the vectors of translation, reference and source. As a
utility, texts of all segments go through the encoder together, and the head does each unordered pair once (see
``quitmt.neural.head``), in blocks whose size does not depend on the pool's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quitmt.devices import Hardware
from quitmt.errors import UsageError
from quitmt.metrics.scorer import Example, Floats, Progress, scaled
from quitmt.neural import checkpoint
from quitmt.neural.encoder import Encoder
from quitmt.neural.head import PairHead, feed_forward
from quitmt.protocols import Matrix
from quitmt.types import Segment

Ints = npt.NDArray[np.int64]

PAIRS_A_TILE, ROWS_A_TILE = 1024, 8
"""Pairs that go through the head at once: some 60 MB at COMET-22's sizes, whatever the size of the pool."""


class Comet:
    """A regression checkpoint, ready to score."""

    def __init__(self, model: str, hardware: Hardware) -> None:
        loaded = checkpoint.load(model, "regression_metric")
        settings = loaded.settings
        self.encoder = Encoder(loaded, hardware, pool=settings["pool"], layer=settings["layer"])
        width = self.encoder.width
        network = feed_forward(loaded.part("estimator.ff."), settings, 6 * width, model)
        self.head = PairHead(network.to(self.encoder.device), width)
        self.signature = f"comet|{model}|w:{loaded.fingerprint}|{hardware.dtype or 'float32'}"

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> Tensor:
        """A vector for each text."""
        ids = self.encoder.tokenize(texts)
        found = torch.empty((len(texts), self.encoder.width), device=self.encoder.device)
        for batch, vectors, _ in self.encoder.encode(ids, progress):
            found[torch.tensor(batch, device=found.device)] = vectors
        return found

    def score(self, examples: Sequence[Example], progress: Progress | None = None) -> Floats:
        number: dict[str, int] = {}
        rows: dict[tuple[int, int, int], int] = {}
        for example in examples:
            if example.reference is None:
                raise UsageError("COMET needs a reference")
            texts = example.translation, example.reference, example.source
            numbers = [number.setdefault(text, len(number)) for text in texts]
            rows.setdefault((numbers[0], numbers[1], numbers[2]), len(rows))
        if not examples:
            return np.zeros(0)
        share = scaled(progress, len(number), len(examples))
        vectors = self.embed(list(number), share)
        scores = []
        for block in torch.split(torch.tensor(list(rows), device=vectors.device), PAIRS_A_TILE):
            translations, references, sources = (vectors[block[:, column]] for column in range(3))
            scores.append(self.head.direct(translations, references, sources).cpu())
        found = torch.cat(scores).double().numpy()
        texts_of = ((example.translation, example.reference or "", example.source) for example in examples)
        return np.asarray(found[[rows[number[t], number[r], number[s]] for t, r, s in texts_of]])


class CometArena:
    """One segment's texts: their vectors, and what the head's first layer makes of them."""

    __slots__ = ("parts", "segment", "source", "vectors")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.source: Tensor | None = None
        self.vectors: Tensor | None = None
        self.parts: tuple[Tensor, Tensor] | None = None

    def add(self, vectors: Tensor, parts: tuple[Tensor, Tensor]) -> None:
        if self.vectors is None or self.parts is None:
            self.vectors, self.parts = vectors, parts
        else:
            self.vectors = torch.cat((self.vectors, vectors))
            self.parts = torch.cat((self.parts[0], parts[0])), torch.cat((self.parts[1], parts[1]))


class CometUtility:
    """COMET as the utility ``mbr:comet``."""

    def __init__(self, comet: Comet) -> None:
        self._comet = comet
        self.signature = comet.signature

    def open(self, segment: Segment) -> CometArena:
        return CometArena(segment)

    def encode(self, batch: Sequence[tuple[CometArena, Sequence[str]]]) -> None:
        number: dict[str, int] = {}
        for arena, texts in batch:
            for text in [*texts, *([arena.segment.source] if arena.source is None else [])]:
                number.setdefault(text, len(number))
        vectors = self._comet.embed(list(number))
        for arena, texts in batch:
            if arena.source is None:
                arena.source = vectors[number[arena.segment.source]].clone()
            own = vectors[[number[text] for text in texts]]
            arena.add(own, self._comet.head.parts(own, arena.source))

    def compare(self, arena: CometArena, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        assert arena.vectors is not None and arena.parts is not None
        forward, backward = np.empty((len(rows), len(columns))), np.empty((len(rows), len(columns)))
        for group, spans in _tiles(rows, columns):
            down = slice(group.start - rows.start, group.stop - rows.start)
            for span in spans:
                across = slice(span.start - columns.start, span.stop - columns.start)
                one, other = self._comet.head.both(arena.vectors, arena.parts, group, span)
                forward[down, across], backward[down, across] = one.cpu().numpy(), other.cpu().numpy()
        _mirror(forward, backward, rows, columns)
        return forward, backward

    def block(self, arena: CometArena, rows: Ints, columns: range) -> Matrix:
        """u(row as hypothesis, column as reference), and not the other way round."""
        assert arena.vectors is not None and arena.parts is not None
        across = slice(columns.start, columns.stop)
        return self._grid(arena, rows, arena.vectors[across], arena.parts[1][across])

    def pairs(self, arena: CometArena, rows: Ints, columns: Ints) -> Matrix:
        """The same for pairs: the first row with the first column, the second with the second, …"""
        assert arena.vectors is not None and arena.parts is not None
        found = np.empty(len(rows))
        for start in range(0, len(rows), PAIRS_A_TILE):
            stop = start + PAIRS_A_TILE
            down, across = torch.from_numpy(rows[start:stop]), torch.from_numpy(columns[start:stop])
            vectors, (theirs, others) = arena.vectors, arena.parts
            scores = self._comet.head.rows(vectors[down], theirs[down], vectors[across], others[across])
            found[start:stop] = scores.cpu().numpy()
        return found

    def against(self, arena: CometArena, rows: range, weights: Matrix) -> Matrix:
        """The utilities of texts with references that are means of the arena's texts, a row of weights each."""
        assert arena.vectors is not None
        means = torch.from_numpy(weights).to(arena.vectors) @ arena.vectors[: weights.shape[1]]
        return self._grid(arena, np.array(rows), means, self._comet.head.reference_part(means))

    def vectors(self, arena: CometArena) -> npt.NDArray[np.float32]:
        assert arena.vectors is not None
        return arena.vectors.cpu().numpy()

    def _grid(self, arena: CometArena, rows: Ints, references: Tensor, others: Tensor) -> Matrix:
        assert arena.vectors is not None and arena.parts is not None
        found = np.empty((len(rows), len(references)))
        tall = max(1, PAIRS_A_TILE // max(1, len(references)))
        for start in range(0, len(rows), tall):
            down = torch.from_numpy(rows[start : start + tall])
            theirs = arena.vectors[down], arena.parts[0][down]
            for left in range(0, len(references), PAIRS_A_TILE):
                across = slice(left, left + PAIRS_A_TILE)
                scores = self._comet.head.grid(*theirs, references[across], others[across])
                found[start : start + tall, across] = scores.cpu().numpy()
        return found


def _tiles(rows: range, columns: range) -> Iterator[tuple[range, list[range]]]:
    """Groups of rows, and the spans of columns to compare each with: a pair that lies in the square of ``rows`` and
    ``columns`` both ways round comes once, except within a group."""
    for start in range(rows.start, rows.stop, ROWS_A_TILE):
        group = range(start, min(start + ROWS_A_TILE, rows.stop))
        needed = [columns]
        if columns.start <= group.start and group.stop <= columns.stop:
            needed = [range(columns.start, group.stop), range(min(rows.stop, columns.stop), columns.stop)]
        size = PAIRS_A_TILE // ROWS_A_TILE
        yield group, [part[at : at + size] for part in needed for at in range(0, len(part), size)]


def _mirror(forward: Matrix, backward: Matrix, rows: range, columns: range) -> None:
    """Fill in what ``_tiles`` left out, from the same pairs the other way round."""
    for start in range(rows.start, rows.stop, ROWS_A_TILE):
        stop = min(start + ROWS_A_TILE, rows.stop)
        last = min(rows.stop, columns.stop)
        if not (columns.start <= start and stop <= columns.stop) or stop >= last:
            continue
        group, later = slice(start - rows.start, stop - rows.start), slice(stop - columns.start, last - columns.start)
        their_rows, their_columns = (
            slice(stop - rows.start, last - rows.start),
            slice(start - columns.start, stop - columns.start),
        )
        forward[group, later] = backward[their_rows, their_columns].T
        backward[group, later] = forward[their_rows, their_columns].T
