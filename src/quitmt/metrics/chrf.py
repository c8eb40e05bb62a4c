"""chrF as a utility for MBR: sacrebleu's sentence chrF on a 0–1 scale, for whole pools and as they grow.

chrF compares character n-grams up to ``order`` without whitespace; the effective order is that of the shorter text.
Numbers equal sacrebleu's up to the last bit of its scaling to 0–100.

Invariants:
- A pair's scores are bitwise the same whatever else is in the arena and whenever its texts were added.
- Each text is encoded once; ``compare`` counts each unordered pair once.
- Opening an arena allocates nothing large, because a run may open a million of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from quitmt.errors import RerankError, UsageError
from quitmt.metrics import chrf_kernels as kernels
from quitmt.metrics import chrf_means
from quitmt.protocols import Matrix, UtilityTraits
from quitmt.types import Segment

Ints = npt.NDArray[np.int64]
Points = npt.NDArray[np.uint32]

SMALL = 1 << 10
"""Code points to allocate n-grams for in advance. The texts of a large pool share most of their n-grams, so memory for
all their code points would be far too much."""
HIGHEST_ORDER = 64
"""Every order takes memory per text, and longer n-grams hardly ever match."""

APART = 0.35
"""Mean chrF of two samples of a full-size model at temperature 1.0, where samples have too little in common for MBR
(docs/anchors.md)."""

MOST_FEATURES = 1 << 24
MOST_WORDS = 1 << 26
"""Limits per segment: half a gigabyte each. A candidate of 2.8 million characters may need that many features."""


class ChrfArena:
    """The distinct texts of one segment, as n-gram features and bits; ``chrf_kernels`` describes the arrays."""

    __slots__ = ("bits", "cursor", "failure", "features", "lengths", "nodes", "orders", "points", "table")

    def __init__(self, order: int) -> None:
        self.lengths = np.zeros(0, np.int64)
        self.table = np.zeros(0, np.int32)
        self.features = np.zeros((0, kernels.FIELDS), np.int32)
        self.bits = np.zeros((0, 0), np.uint64)
        self.orders = np.zeros(0, np.int32)
        self.cursor = np.zeros(kernels.NEXT_COLUMN + order, np.int64)
        self.cursor[kernels.FEATURES_USED] = 1  # node 0 is the empty n-gram
        self.points: list[Points] = []
        """The texts, from which ``ngrams`` looks up their n-grams."""
        self.nodes = np.zeros((0, order), np.int32)
        self.failure: RerankError | None = None
        """The reason why the texts cannot be compared."""

    def __len__(self) -> int:
        return len(self.lengths)

    def add(self, texts: Sequence[str]) -> None:
        stripped = ["".join(text.split()) for text in texts]
        self.add_points([len(text) for text in stripped], lambda: _code_points("".join(stripped)))

    def add_points(self, sizes: Sequence[int], points_of: Callable[[], Points]) -> None:
        """Append texts with these numbers of points; ``points_of`` returns the points of all texts in one array."""
        added = np.array(sizes, np.int64)
        text, start, longest = len(self.lengths), 0, int(added.max())
        self.lengths = np.concatenate((self.lengths, added)) if text else added
        if self.failure or longest > MOST_FEATURES:  # checked before the arrays are allocated
            self._fail(longest)
            return
        points = points_of()
        self.points.append(points)
        nodes = np.zeros((longest + 1, len(self.cursor) - kernels.NEXT_COLUMN + 1), np.int32)
        while text < len(self.lengths) and self._make_room(int(self.lengths[text]), len(points) - start):
            text, start = kernels.add_texts(
                points,
                self.lengths,
                text,
                start,
                self.table,
                self.features,
                self.bits,
                self.orders,
                self.cursor,
                nodes,
            )

    def ngrams(self) -> npt.NDArray[np.int32]:
        """The n-grams of all texts, as ``chrf_means.node_lists`` returns them; looks up those of new texts."""
        known, order = len(self.nodes), len(self.cursor) - kernels.NEXT_COLUMN
        ends = np.cumsum(self.lengths)
        if len(self.lengths) and known < ends[-1]:
            first = int(np.searchsorted(ends, known, side="right"))
            points = np.concatenate(self.points)
            self.points = [points]
            new = np.empty((len(points) - known, order), np.int32)
            scratch = np.zeros((int(self.lengths.max()) + 1, order + 1), np.int32)
            chrf_means.node_lists(
                points[known:], self.lengths, first, self.table, self.features, self.cursor, scratch, new
            )
            self.nodes = np.concatenate((self.nodes, new))
        return self.nodes

    def _fail(self, length: int) -> bool:
        """Refuse to add or compare further texts, so that this segment fails alone; return False."""
        self.failure = self.failure or RerankError(
            f"the candidates of a segment are too long for chrF: one has {length:,} characters",
            hint="remove such candidates",
        )
        return False

    def _make_room(self, length: int, to_come: int) -> bool:
        """Make room for the rows of all texts, and for the features of at least one text of ``length`` code points;
        return whether the segment stays within its limits."""
        order = len(self.cursor) - kernels.NEXT_COLUMN
        features, words = int(self.cursor[kernels.FEATURES_USED]), int(self.cursor[kernels.WORDS_USED])
        words += kernels.most_words(length, order, features)
        wide, high = self.bits.shape
        rows = _enlarged(high, len(self.lengths))
        if features + order * length > MOST_FEATURES or words * rows > MOST_WORDS:
            return self._fail(length)
        if features + order * length > len(self.features):
            self._grow_features(features + order * max(length, min(to_come, SMALL)))
        if words > wide or rows > high:
            self._grow_bits(wide if words <= wide else min(2 * words, MOST_WORDS // rows), rows)
        return True

    def _grow_features(self, needed: int) -> None:
        """Grow by at least half. The table's size is a power of two, and at most half of its entries are used."""
        features, table = self.features, self.table
        size = max(needed, len(features) * 3 // 2)
        self.features = np.empty((size, kernels.FIELDS), np.int32)
        if len(table) < 2 * size:
            self.table = np.zeros(1 << (2 * size).bit_length(), np.int32)
        if len(features):
            self.features[: len(features)] = features
            if self.table is not table:
                kernels.rehash(features, int(self.cursor[kernels.FEATURES_USED]), self.table)

    def _grow_bits(self, words: int, rows: int) -> None:
        bits, orders = self.bits, self.orders
        self.bits = np.zeros((words, rows), np.uint64)
        self.orders = np.empty(words, np.int32)
        if len(bits):
            self.bits[: bits.shape[0], : bits.shape[1]] = bits
            self.orders[: len(orders)] = orders


class Chrf:
    """The utility ``mbr:chrf``."""

    traits = UtilityTraits(apart=APART)

    def __init__(self, order: int = 6, beta: float = 2.0) -> None:
        if not 1 <= order <= HIGHEST_ORDER:
            raise UsageError(f"chrF needs character n-grams of order 1 to {HIGHEST_ORDER}, not {order}")
        if not (beta > 0 and math.isfinite(beta * beta)):
            raise UsageError(f"chrF's beta must be a positive number, not {beta}")
        self.order = order
        self.beta = float(beta)
        self.signature = f"chrF{int(beta) if self.beta.is_integer() else self.beta!r}|c:{order}"

    def open(self, segment: Segment) -> ChrfArena:
        return ChrfArena(self.order)

    def encode(self, batch: Sequence[tuple[ChrfArena, Sequence[str]]]) -> None:
        for arena, texts in batch:
            if texts:
                arena.add(texts)

    def compare(self, arena: ChrfArena, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        """See ``Utility``. About 64 rows per call are fastest: whole matrices of a large pool are fresh memory, whose
        page faults add half to the cost of comparing 512 × 512 texts."""
        down, across = span(rows, arena), span(columns, arena)
        forward = np.empty((len(down), len(across)))
        backward = np.empty_like(forward)
        kernels.compare(
            arena.bits,
            arena.orders,
            arena.cursor,
            arena.lengths,
            down.start,
            across.start,
            self.beta**2,
            np.empty((self.order, len(columns)), np.int64),
            forward,
            backward,
        )
        return forward, backward

    def block(self, arena: ChrfArena, rows: Ints, columns: range) -> Matrix:
        """u(row as hypothesis, column as reference), in this direction only."""
        across = span(columns, arena)
        scores = np.empty((len(rows), len(across)))
        matches, backward = np.empty((self.order, len(across)), np.int64), np.empty(len(across))
        kernels.compare_rows(
            arena.bits, arena.orders, arena.cursor, arena.lengths, rows, across.start, self.beta**2, matches, scores,
            backward,
        )  # fmt: skip
        return scores

    def pairs(self, arena: ChrfArena, rows: Ints, columns: Ints) -> Matrix:
        """The utilities of pairs. Each row is compared with all columns between its first and its last one, because
        contiguous columns cost less than scattered ones."""
        scores = np.empty(len(rows))
        by_row = np.argsort(rows, kind="stable")
        _, starts = np.unique(rows[by_row], return_index=True)
        for places in np.split(by_row, starts)[1:]:
            first = int(columns[places].min())
            whole = self.block(arena, rows[places[:1]], range(first, int(columns[places].max()) + 1))
            scores[places] = whole[0, columns[places] - first]
        return scores

    def against(self, arena: ChrfArena, rows: range, weights: Matrix) -> Matrix:
        """chrF of the arena's first texts against weighted means of its n-gram counts (Vamvas & Sennrich 2024)."""
        assert span(rows, arena).start == 0
        nodes, starts = arena.ngrams(), np.concatenate(([0], np.cumsum(arena.lengths)))
        size = int(arena.cursor[kernels.FEATURES_USED])
        scores, counts = np.empty((len(weights), len(rows))), np.zeros(size, np.int32)
        for number, shares in enumerate(np.ascontiguousarray(weights, np.float64)):
            means = np.zeros(size)
            chrf_means.mean_counts(nodes, starts, shares, means)
            lengths = arena.lengths[: len(shares)]
            totals = np.array([shares @ np.maximum(lengths - n, 0) for n in range(self.order)], np.float64)
            chrf_means.against_means(nodes, starts, len(rows), means, totals, self.beta**2, counts, scores[number])
        return np.ascontiguousarray(scores.T)


def _code_points(text: str) -> Points:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _enlarged(size: int, needed: int) -> int:
    """The size if it is enough, otherwise at least twice the size, so that growing costs a constant per item."""
    return size if needed <= size else max(needed, 2 * size)


def span(texts: range, arena: ChrfArena) -> range:
    """Check that a range ascends by one within the encoded texts, and return it."""
    if arena.failure:
        raise arena.failure
    if texts.step != 1 or texts.start < 0 or texts.stop > len(arena):
        raise IndexError(f"{texts} does not index the {len(arena)} texts of this arena")
    return texts
