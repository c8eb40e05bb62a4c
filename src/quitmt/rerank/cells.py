"""The utilities of some pairs of a segment's candidates, computed when they are wanted and kept: for methods that do
without most of them.

Identical candidates share their cells: a cell belongs to a pair of distinct texts, so duplicates cost nothing. Anchors
are the first texts, and nobody's references unless they are samples too.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError, RerankError, UsageError
from quitmt.loops.faults import blamed
from quitmt.protocols import Arena, Utility
from quitmt.rerank.anchors import check_first, precedence, told
from quitmt.rerank.pairs import encode
from quitmt.types import Candidate, Effort, Segment

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
NEVER = 1 << 62
"""The index of the first sample of a text that is none."""


class Cells(Generic[Arena]):
    """One segment's candidates and the cells known so far. Distinct texts are numbered in the order they came."""

    def __init__(self, segment: Segment, utility: Utility[Arena], *, others: bool = False) -> None:
        self.segment = segment
        self.utility = utility
        self.others = others
        """Whether a sample is judged without one copy of itself."""
        self.arena = utility.open(segment)
        self.number: dict[str, int] = {}
        self.first: list[int] = []
        """Number → the index of the candidate that it came with."""
        self.sampled: list[int] = []
        """Number → the index of its first sample, or ``NEVER``."""
        self.order: list[int] = []
        """Candidate index → number."""
        self.anchors: list[int] = []
        """The number of each anchor's text."""
        self.encoded = 0
        self.failure: QuitmtError | None = None
        """Why the last texts are not encoded."""
        self.evaluations = 0
        """Utilities computed, those of a method's own references (centroids, means) included."""
        self.notes: dict[Any, Any] = {}
        """What a method wants to keep from one snapshot to the next."""
        self.ranking: list[tuple[int, float]] = []
        """What a method said last of each distinct text, by the index of its candidate."""
        self._values: Floats = np.empty((0, 0))
        """[hypothesis, reference] by number; NaN where it is not known."""

    @property
    def size(self) -> int:
        return len(self.order)

    @property
    def effort(self) -> Effort:
        return Effort(self.evaluations, (self.size + len(self.anchors)) ** 2, self.encoded)

    def add(self, candidates: Sequence[Candidate], anchors: Sequence[Candidate] = ()) -> None:
        check_first(self.segment, anchors, self.order or self.anchors)
        self.anchors += [self._numbered(one.text, -1 - place) for place, one in enumerate(anchors)]
        for index, candidate in enumerate(candidates, start=len(self.order)):
            number = self._numbered(candidate.text, index)
            self.sampled[number] = min(self.sampled[number], index)
            self.order.append(number)

    def _numbered(self, text: str, index: int) -> int:
        number = self.number.setdefault(text, len(self.number))
        if number == len(self.first):
            self.first.append(index)
            self.sampled.append(NEVER)
        return number

    @property
    def new(self) -> list[str]:
        """Texts that are not encoded yet."""
        return list(self.number)[self.encoded :]

    def made_room(self) -> None:
        """The new texts have been encoded."""
        self.failure = None
        self.encoded = len(self.first)
        if self.encoded > len(self._values):
            capacity = max(self.encoded, 2 * len(self._values))
            larger = np.full((capacity, capacity), np.nan)
            larger[: len(self._values), : len(self._values)] = self._values
            self._values = larger

    def counts(self, size: int) -> Ints:
        """How often each distinct text is among the first ``size`` samples; as long as there are texts in them and in
        the anchors."""
        if self.failure:  # here, because all methods begin with the counts
            raise self.failure
        return np.bincount(np.array(self.order[:size], np.int64), minlength=max(self.anchors, default=-1) + 1)

    def own(self, rows: Ints, size: int) -> Ints:
        """Of each text, the one of the first ``size`` samples that does not judge it: its first copy; −1 for none."""
        sampled = np.array(self.sampled, np.int64)[rows]
        return np.where(self.others & (sampled < size), sampled, -1)

    def index(self, size: int) -> Ints:
        """Of each text of the first ``size`` samples and the anchors, the candidate that it is: an anchor that is among
        the samples counts as one."""
        texts = len(self.counts(size))
        first, sampled = np.array(self.first[:texts], np.int64), np.array(self.sampled[:texts], np.int64)
        return np.where(sampled < size, sampled, first)

    def precedence(self, size: int) -> Ints:
        """Of the same texts, where they are equally good: the lower one comes first."""
        return precedence(self.index(size), len(self.anchors))

    def block(self, rows: Ints, columns: range) -> Floats:
        """The utilities of some texts against a range of texts, computed where they are missing."""
        missing = np.isnan(self._values[rows, columns.start : columns.stop])
        if missing.any():
            # Rows that lack the same range go together; where pairs were asked for before, what is lacking has gaps.
            starts, stops = _spans(missing)
            ranged = missing.sum(axis=1) == stops - starts
            for start, stop in sorted(
                set(zip(starts[ranged].tolist(), stops[ranged].tolist(), strict=True)) - {(0, 0)}
            ):
                group = rows[ranged & (starts == start) & (stops == stop)]
                across = range(columns.start + start, columns.start + stop)
                found = block(self.utility, self.arena, group, across)
                self._check(found, group[:, None], np.array(across)[None])
                self._values[group, across.start : across.stop] = found
                self.evaluations += found.size
            down, over = np.nonzero(missing & ~ranged[:, None])
            self.pairs(rows[down], over + columns.start)
        return self._values[rows, columns.start : columns.stop]

    def over(self, rows: Ints, size: int) -> Floats:
        """The utilities of some texts against those of the first ``size`` samples: a column for each text, of zeros for
        an anchor, which judges nobody."""
        counts = self.counts(size)
        if counts.all():
            return self.block(rows, range(len(counts)))
        found = np.zeros((len(rows), len(counts)))
        edges = np.flatnonzero(np.diff(np.concatenate(([False], counts > 0, [False])).astype(np.int8)))
        for start, stop in edges.reshape(-1, 2).tolist():
            found[:, start:stop] = self.block(rows, range(start, stop))
        return found

    def pairs(self, rows: Ints, columns: Ints) -> Floats:
        """The utilities of pairs of texts, computed where they are missing."""
        missing = np.isnan(self._values[rows, columns])
        if missing.any():
            codes = np.unique(rows[missing] * len(self._values) + columns[missing])
            down, across = np.divmod(codes, len(self._values))
            found = pairs(self.utility, self.arena, down, across)
            self._check(found, down, across)
            self._values[down, across] = found
            self.evaluations += len(codes)
        return self._values[rows, columns]

    def against(self, weights: Floats) -> Floats:
        """The utilities of the first texts, as many as a row of weights has, with weighted means of them: a column for
        each row of weights."""
        utility: Any = self.utility
        found = np.asarray(utility.against(self.arena, range(weights.shape[1]), weights), np.float64)
        if not np.isfinite(found).all():
            row, column = np.argwhere(~np.isfinite(found))[0]
            raise RerankError(
                f"segment {self.segment.id}: the utility of {told(self.first[row])} and a mean of candidates is "
                f"{found[row, column]}, not a finite number"
            )
        self.evaluations += found.size
        return found

    def mean(self, utilities: Floats, size: int, rows: Ints | None = None) -> Floats:
        """Of each row, over the first ``size`` samples, which are added up in index order as exact MBR adds them. A
        product with the counts would give equal rows unequal means, and ties would not go to the lowest index.

        ``rows`` are the texts, if not the first ones: a sample may be judged without itself. −inf without a judge.
        """
        terms = utilities.T[self.order[:size]]
        if not self.others:
            means: Floats = np.add.reduce(terms, axis=0) / size
            return means
        own = self.own(np.arange(len(utilities)) if rows is None else rows, size)
        (places,) = np.nonzero(own >= 0)
        terms[own[places], places] = 0.0
        # cumsum, because sum() adds a single row pairwise: not in index order.
        return _divided(terms.cumsum(axis=0)[-1], size - (own >= 0))

    def without_own(self, means: Floats, size: int) -> Floats:
        """Of all texts' means over the first ``size`` samples, or estimates of them: without each sample's own share,
        where a sample is not its own judge. Exact if the means are."""
        if not self.others:
            return means
        own = self.own(np.arange(len(means)), size) >= 0
        (places,) = np.nonzero(own)
        sums = size * means
        sums[places] -= self.pairs(places, places)
        return _divided(sums, size - own)

    def _check(self, found: Floats, rows: Ints, columns: Ints) -> None:
        if not np.isfinite(found).all():
            place = tuple(np.argwhere(~np.isfinite(found))[0])
            row, column = (int(np.broadcast_to(numbers, found.shape)[place]) for numbers in (rows, columns))
            raise RerankError(
                f"segment {self.segment.id}: the utility of {told(self.first[row], self.first[column])} is "
                f"{found[place]}, not a finite number"
            )

    def random(self, seed: int, *more: int) -> np.random.Generator:
        """The segment's own stream of random numbers, or one of several."""
        return np.random.default_rng([seed, zlib.crc32(self.segment.id.encode()), *more])


def encode_new(utility: Utility[Arena], segments: Sequence[Cells[Arena]]) -> list[QuitmtError] | None:
    """Encode what was added to several segments; what went wrong, if it did for all of them. If it did for some, these
    have it as their ``failure``, and fail when they are looked at."""
    errors = encode(utility, [(cells.arena, cells.new) for cells in segments])
    for cells, error in zip(segments, errors, strict=True):
        if error:
            cells.failure = failed(cells, error)
        else:
            cells.made_room()
    failures = [cells.failure for cells in segments if cells.failure]
    return failures if len(failures) == len(segments) else None


def failed(cells: Cells[Any], error: BaseException) -> QuitmtError:
    if isinstance(error, QuitmtError):
        return error
    return blamed(RerankError, f"segment {cells.segment.id}: the utility failed", error)


def checked_seed(seed: int) -> int:
    if seed < 0:
        raise UsageError(f"a seed must be 0 or more, not {seed}")
    return seed


def block(utility: Any, arena: Any, rows: Ints, columns: range) -> Floats:
    """u(row as hypothesis, column as reference), by the utility's own way if it has one."""
    if hasattr(utility, "block"):
        return np.asarray(utility.block(arena, rows, columns), np.float64)
    if hasattr(utility, "pairs"):
        flat = utility.pairs(arena, np.repeat(rows, len(columns)), np.tile(np.array(columns), len(rows)))
        return np.asarray(flat, np.float64).reshape(len(rows), len(columns))
    return np.concatenate([utility.compare(arena, range(row, row + 1), columns)[0] for row in rows.tolist()])


def pairs(utility: Any, arena: Any, rows: Ints, columns: Ints) -> Floats:
    """u(rows[i] as hypothesis, columns[i] as reference), by the utility's own way if it has one."""
    if hasattr(utility, "pairs"):
        return np.asarray(utility.pairs(arena, rows, columns), np.float64)
    found = [
        utility.compare(arena, range(row, row + 1), range(column, column + 1))[0][0, 0]
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    ]
    return np.array(found, np.float64)


def _divided(sums: Floats, judges: Ints) -> Floats:
    """Means, −inf for those that nobody judges."""
    return np.where(judges > 0, sums / np.maximum(judges, 1), -np.inf)


def _spans(missing: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """For each row, the shortest range that has all of its missing cells; 0, 0 if it has none."""
    some = missing.any(axis=1)
    starts = np.where(some, missing.argmax(axis=1), 0)
    stops = np.where(some, missing.shape[1] - missing[:, ::-1].argmax(axis=1), 0)
    return starts, stops
