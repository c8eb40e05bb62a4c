"""COMET with a reference (``regression_metric`` checkpoints such as COMET-22), as a metric and as an MBR utility.

Each distinct text is encoded once; the head then computes a score from the vectors of translation, reference and
source. In the utility, texts of all segments go through the encoder together, and the head scores both directions of a
pair at once (see ``quitmt.metrics.neural.head``). It works in blocks of a fixed size, however large the pool is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quitmt.errors import UsageError
from quitmt.metrics.devices import Hardware
from quitmt.metrics.neural import checkpoint
from quitmt.metrics.neural.encoder import Encoder
from quitmt.metrics.neural.head import PairHead, feed_forward
from quitmt.metrics.scorer import Example, Floats, Progress, scaled
from quitmt.protocols import Matrix, UtilityTraits
from quitmt.types import Segment

Ints = npt.NDArray[np.int64]

PAIRS_PER_TILE, ROWS_PER_TILE = 1024, 8
"""Pairs that go through the head at once, and rows per tile of a square: about 60 MB with COMET-22."""


class Comet:
    """A regression checkpoint, ready to score."""

    def __init__(self, model: str, hardware: Hardware) -> None:
        loaded = checkpoint.load(model, "regression_metric")
        settings = loaded.settings
        self.encoder = Encoder(loaded, hardware, pool=settings["pool"], layer=settings["layer"])
        width = self.encoder.width
        network = feed_forward(loaded.part("estimator.ff."), settings, 6 * width, model)
        self.head = PairHead(network.to(self.encoder.device), width)
        self.cuts = self.encoder.cuts
        self.signature = f"comet|{model}|w:{loaded.fingerprint(self.encoder.files)}|{hardware.dtype or 'float32'}"

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> Tensor:
        """A vector for each text."""
        ids = self.encoder.tokenize(texts)
        found = torch.empty((len(texts), self.encoder.width), device=self.encoder.device)
        for batch, (vectors, _) in self.encoder.encode(ids, progress):
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
        numbers_of, scores = torch.tensor(list(rows), device=vectors.device), np.empty(len(rows))
        for part in _parts(len(rows), PAIRS_PER_TILE):
            translations, references, sources = (vectors[numbers_of[part, column]] for column in range(3))
            scores[part] = self.head.direct(translations, references, sources).cpu().numpy()
        texts_of = ((example.translation, example.reference or "", example.source) for example in examples)
        return np.asarray(scores[[rows[number[t], number[r], number[s]] for t, r, s in texts_of]])


class CometArena:
    """The vectors of one segment's texts, and their contributions to the head's first layer."""

    __slots__ = ("parts", "segment", "source", "vectors")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.source: Tensor | None = None
        self.vectors: Tensor | None = None
        self.parts: tuple[Tensor, Tensor] | None = None

    def with_more(self, vectors: Tensor, parts: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Returns the vectors and parts with those of more texts appended, without changing the arena."""
        if self.vectors is None or self.parts is None:
            return vectors, parts
        more = torch.cat((self.parts[0], parts[0])), torch.cat((self.parts[1], parts[1]))
        return torch.cat((self.vectors, vectors)), more


class CometUtility:
    """COMET as the utility ``mbr:comet``."""

    traits = UtilityTraits(needs_source=True, encodes_whole=True)

    def __init__(self, comet: Comet) -> None:
        self._comet = comet
        self.scores_with = (comet,)
        self.signature = comet.signature

    def open(self, segment: Segment) -> CometArena:
        return CometArena(segment)

    def encode(self, batch: Sequence[tuple[CometArena, Sequence[str]]]) -> None:
        number: dict[str, int] = {}
        wanted: dict[CometArena, list[str]] = {}
        for arena, texts in batch:
            wanted.setdefault(arena, []).extend(texts)
            for text in [*texts, *([arena.segment.source] if arena.source is None else [])]:
                number.setdefault(text, len(number))
        vectors = self._comet.embed(list(number))
        made = []
        for arena, texts in wanted.items():
            source = vectors[number[arena.segment.source]].clone() if arena.source is None else arena.source
            new = vectors[[number[text] for text in texts]]
            made.append((arena, source, arena.with_more(new, self._comet.head.parts(new, source))))
        for arena, source, (together, parts) in made:  # nothing can fail from here on
            arena.source, arena.vectors, arena.parts = source, together, parts

    def compare(self, arena: CometArena, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        assert arena.vectors is not None and arena.parts is not None
        vectors, parts = arena.vectors, arena.parts
        forward, backward = np.empty((len(rows), len(columns))), np.empty((len(rows), len(columns)))
        for group, spans in _tiles(rows, columns):
            for span in spans:
                one, other = self._comet.head.both(vectors, parts, group, span)
                down, across = _places(group, rows), _places(span, columns)
                forward[down, across], backward[down, across] = one.cpu().numpy(), other.cpu().numpy()
        _mirror(forward, backward, rows, columns)
        return forward, backward

    def block(self, arena: CometArena, rows: Ints, columns: range) -> Matrix:
        """u(row as hypothesis, column as reference), in this direction only."""
        assert arena.vectors is not None and arena.parts is not None
        across = slice(columns.start, columns.stop)
        return self._grid(arena, rows, arena.vectors[across], arena.parts[1][across])

    def pairs(self, arena: CometArena, rows: Ints, columns: Ints) -> Matrix:
        """The utilities of pairs: the first row with the first column, the second with the second, …"""
        assert arena.vectors is not None and arena.parts is not None
        vectors, (theirs, others) = arena.vectors, arena.parts
        scores = np.empty(len(rows))
        for part in _parts(len(rows), PAIRS_PER_TILE):
            down, across = torch.from_numpy(rows[part]), torch.from_numpy(columns[part])
            found = self._comet.head.rows(vectors[down], theirs[down], vectors[across], others[across])
            scores[part] = found.cpu().numpy()
        return scores

    def against(self, arena: CometArena, rows: range, weights: Matrix) -> Matrix:
        """The utilities of texts against weighted means of the arena's vectors, one row of weights per mean."""
        assert arena.vectors is not None
        means = torch.from_numpy(weights).to(arena.vectors) @ arena.vectors[: weights.shape[1]]
        return self._grid(arena, np.array(rows), means, self._comet.head.reference_part(means))

    def vectors(self, arena: CometArena) -> npt.NDArray[np.float32]:
        assert arena.vectors is not None
        return arena.vectors.cpu().numpy()

    def _grid(self, arena: CometArena, rows: Ints, references: Tensor, others: Tensor) -> Matrix:
        assert arena.vectors is not None and arena.parts is not None
        vectors, parts = arena.vectors, arena.parts
        scores = np.empty((len(rows), len(references)))
        for down in _parts(len(rows), max(1, PAIRS_PER_TILE // max(1, len(references)))):
            chosen = torch.from_numpy(rows[down])
            for across in _parts(len(references), PAIRS_PER_TILE):
                tile = self._comet.head.grid(vectors[chosen], parts[0][chosen], references[across], others[across])
                scores[down, across] = tile.cpu().numpy()
        return scores


def _parts(length: int, size: int) -> Iterator[slice]:
    """Slices of at most ``size``."""
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


def _places(part: range, whole: range) -> slice:
    """The position of a part within a whole range."""
    return slice(part.start - whole.start, part.stop - whole.start)


def _tiles(rows: range, columns: range) -> Iterator[tuple[range, list[range]]]:
    """Groups of rows, each with the spans of columns to compare it with. If ``rows`` × ``columns`` contains both
    directions of a pair, only one is yielded, except within a group."""
    for start in range(rows.start, rows.stop, ROWS_PER_TILE):
        group = range(start, min(start + ROWS_PER_TILE, rows.stop))
        needed = [columns]
        if columns.start <= group.start and group.stop <= columns.stop:
            needed = [range(columns.start, group.stop), range(min(rows.stop, columns.stop), columns.stop)]
        size = max(1, PAIRS_PER_TILE // ROWS_PER_TILE)
        yield group, [part[at : at + size] for part in needed for at in range(0, len(part), size)]


def _mirror(forward: Matrix, backward: Matrix, rows: range, columns: range) -> None:
    """Fill in the pairs that ``_tiles`` left out, using the scores of their opposite direction."""
    for start in range(rows.start, rows.stop, ROWS_PER_TILE):
        stop = min(start + ROWS_PER_TILE, rows.stop)
        last = min(rows.stop, columns.stop)
        if not (columns.start <= start and stop <= columns.stop) or stop >= last:
            continue
        group, later = range(start, stop), range(stop, last)
        missing = _places(group, rows), _places(later, columns)
        known = _places(later, rows), _places(group, columns)
        forward[missing], backward[missing] = backward[known].T, forward[known].T
