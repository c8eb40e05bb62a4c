"""Utilities of some pairs of a segment's candidates, computed on demand and kept: for accelerated MBR.

Identical candidates share their cells: a cell belongs to a pair of distinct texts, so duplicates cost nothing. Anchors
are the first texts, and are references only if they are samples too.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError, RerankError, UsageError
from quitmt.protocols import Arena, Utility
from quitmt.rerank.anchors import check_first, divided, named, over_judges, precedence
from quitmt.rerank.pairs import Texts, encode, failed
from quitmt.types import Candidate, Effort, Segment

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
NEVER = 1 << 62
"""Index of the first sample of a text that has not been sampled."""


class Cells(Texts[Arena]):
    """One segment's candidates and the cells known so far."""

    def __init__(self, segment: Segment, utility: Utility[Arena], *, others: bool = False) -> None:
        super().__init__(segment, utility.open(segment))
        self.utility = utility
        self.others = others
        """Whether a sample is judged without one copy of itself."""
        self.sampled: list[int] = []
        """Number → index of the text's first sample, or ``NEVER``."""
        self.order: list[int] = []
        """Candidate index → number."""
        self.anchors: list[int] = []
        """The number of each anchor's text."""
        self.failure: QuitmtError | None = None
        """Why the last texts are not encoded."""
        self.evaluations = 0
        """Utilities computed, including those with a method's own references (centroids, means)."""
        self.notes: dict[Any, Any] = {}
        """What a method keeps from one snapshot to the next."""
        self.ranking: list[tuple[int, float]] = []
        """A method's last estimates, by the index of each text's candidate."""
        self._values: Floats = np.empty((0, 0))
        """[hypothesis, reference] by number; NaN where unknown."""

    @property
    def size(self) -> int:
        return len(self.order)

    @property
    def effort(self) -> Effort:
        return Effort(self.evaluations, (self.size + len(self.anchors)) ** 2, self.encoded)

    def extend(self, candidates: Sequence[Candidate], anchors: Sequence[Candidate] = ()) -> None:
        check_first(self.segment, anchors, self.order or self.anchors)
        self.anchors += [self._numbered(one.text, -1 - place) for place, one in enumerate(anchors)]
        for index, candidate in enumerate(candidates, start=len(self.order)):
            number = self._numbered(candidate.text, index)
            self.sampled[number] = min(self.sampled[number], index)
            self.order.append(number)

    def _numbered(self, text: str, index: int) -> int:
        number = self.add(text, index)
        if number == len(self.sampled):
            self.sampled.append(NEVER)
        return number

    def make_room(self) -> None:
        """Make room for the new texts, which have been encoded."""
        self.failure = None
        self.encoded = len(self.first)
        if self.encoded > len(self._values):
            capacity = max(self.encoded, 2 * len(self._values))
            larger = np.full((capacity, capacity), np.nan)
            larger[: len(self._values), : len(self._values)] = self._values
            self._values = larger

    def counts(self, size: int) -> Ints:
        """Count how often each distinct text of the anchors and the first ``size`` samples is among these samples."""
        if self.failure:  # here, because every method begins with the counts
            raise self.failure
        return np.bincount(np.array(self.order[:size], np.int64), minlength=max(self.anchors, default=-1) + 1)

    def own_copies(self, rows: Ints, size: int) -> Ints:
        """Return, for each text, which of the first ``size`` samples doesn't judge it: its first copy; −1 for none."""
        sampled = np.array(self.sampled, np.int64)[rows]
        return np.where(self.others & (sampled < size), sampled, -1)

    def index(self, size: int) -> Ints:
        """Return each text's candidate: its first sample among the first ``size``, or else its anchor."""
        texts = len(self.counts(size))
        first, sampled = np.array(self.first[:texts], np.int64), np.array(self.sampled[:texts], np.int64)
        return np.where(sampled < size, sampled, first)

    def precedence(self, size: int) -> Ints:
        """Rank the same texts for ties, lowest first."""
        return precedence(self.index(size), len(self.anchors))

    def block(self, rows: Ints, columns: range) -> Floats:
        """Return the utilities of some texts against a range of texts; compute those that are missing."""
        missing = np.isnan(self._values[rows, columns.start : columns.stop])
        if missing.any():
            # Rows that lack the same range are computed together; earlier requests for pairs leave gaps in others.
            starts, stops = _spans(missing)
            ranged = missing.sum(axis=1) == stops - starts
            for start, stop in sorted(
                set(zip(starts[ranged].tolist(), stops[ranged].tolist(), strict=True)) - {(0, 0)}
            ):
                group = rows[ranged & (starts == start) & (stops == stop)]
                across = range(columns.start + start, columns.start + stop)
                found = block(self.utility, self.arena, group, across)
                self.check(found, group[:, None], np.array(across))
                self._values[group, across.start : across.stop] = found
                self.evaluations += found.size
            down, over = np.nonzero(missing & ~ranged[:, None])
            self.pairs(rows[down], over + columns.start)
        return self._values[rows, columns.start : columns.stop]

    def over(self, rows: Ints, size: int) -> Floats:
        """Return the utilities of some texts against those of the first ``size`` samples: one column per text, of zeros
        for an anchor, which doesn't judge."""
        counts = self.counts(size)
        if counts.all():
            return self.block(rows, range(len(counts)))
        found = np.zeros((len(rows), len(counts)))
        edges = np.flatnonzero(np.diff(np.concatenate(([False], counts > 0, [False])).astype(np.int8)))
        for start, stop in edges.reshape(-1, 2).tolist():
            found[:, start:stop] = self.block(rows, range(start, stop))
        return found

    def pairs(self, rows: Ints, columns: Ints) -> Floats:
        """Return the utilities of pairs of texts; compute those that are missing."""
        missing = np.isnan(self._values[rows, columns])
        if missing.any():
            codes = np.unique(rows[missing] * len(self._values) + columns[missing])
            down, across = np.divmod(codes, len(self._values))
            found = pairs(self.utility, self.arena, down, across)
            self.check(found, down, across)
            self._values[down, across] = found
            self.evaluations += len(codes)
        return self._values[rows, columns]

    def against(self, weights: Floats) -> Floats:
        """Return the utilities of the texts with weighted means of them: one column per row of weights, which has one
        weight per text."""
        utility: Any = self.utility
        found = np.asarray(utility.against(self.arena, range(weights.shape[1]), weights), np.float64)
        if not np.isfinite(found).all():
            row, column = np.argwhere(~np.isfinite(found))[0]
            raise RerankError(
                f"segment {self.segment.id}: the utility of {named(self.first[row])} and a mean of candidates is "
                f"{found[row, column]}, not a finite number"
            )
        self.evaluations += found.size
        return found

    def mean(self, utilities: Floats, size: int, rows: Ints | None = None) -> Floats:
        """Return each row's mean over its judges among the first ``size`` samples; −inf without a judge.

        ``rows`` are the texts, by default the first ones.
        """
        copies = self.own_copies(np.arange(len(utilities)) if rows is None else rows, size)
        return divided(*over_judges(utilities.T[self.order[:size]], copies))

    def over_means(self, utilities: Floats, members: Floats) -> tuple[Floats, Floats]:
        """Sum utilities [text, mean] over the samples of each mean except the text's own copy, and count these samples.

        ``members`` counts the samples of each text in each mean, [mean, text]. Leaving one copy out would make a
        different mean for each sample. Instead we treat the utility as linear in the reference: with m samples in the
        mean, u(h, mean) counts as m utilities, and u(h, h) is one of them.
        """
        judges = np.tile(members.sum(axis=1), (len(utilities), 1))
        sums = utilities * judges
        (samples,) = np.nonzero(members.any(axis=0))
        place = members[:, samples].argmax(axis=0)  # copies of a text are all in one mean
        sums[samples, place] -= self.pairs(samples, samples)
        judges[samples, place] -= 1
        return sums, judges

    def random(self, seed: int, *more: int) -> np.random.Generator:
        """Open the stream of random numbers of the segment's content; ``more`` selects one of several.

        Without content, as in a pool that recorded no sources, the id tells segments apart.
        """
        key = self.segment.content or self.segment.id.encode("utf-8", "surrogatepass")
        return np.random.default_rng([seed, zlib.crc32(key), *more])


def encode_new(utility: Utility[Arena], segments: Sequence[Cells[Arena]]) -> list[QuitmtError] | None:
    """Encode the new texts of several segments; return the errors if all of them failed. If some failed, they keep the
    error as their ``failure`` and raise it at their next snapshot."""
    errors = encode(utility, [(cells.arena, cells.new) for cells in segments])
    for cells, error in zip(segments, errors, strict=True):
        if error:
            cells.failure = failed(cells.segment, error)
        else:
            cells.make_room()
    failures = [cells.failure for cells in segments if cells.failure]
    return failures if len(failures) == len(segments) else None


def checked_seed(seed: int) -> int:
    if seed < 0:
        raise UsageError(f"a seed must be 0 or more, not {seed}")
    return seed


def block(utility: Any, arena: Any, rows: Ints, columns: range) -> Floats:
    """Return u(row as hypothesis, column as reference), with the utility's ``block`` or ``pairs`` if it has one."""
    if hasattr(utility, "block"):
        return np.asarray(utility.block(arena, rows, columns), np.float64)
    if hasattr(utility, "pairs"):
        flat = utility.pairs(arena, np.repeat(rows, len(columns)), np.tile(np.array(columns), len(rows)))
        return np.asarray(flat, np.float64).reshape(len(rows), len(columns))
    return np.concatenate([utility.compare(arena, range(row, row + 1), columns)[0] for row in rows.tolist()])


def pairs(utility: Any, arena: Any, rows: Ints, columns: Ints) -> Floats:
    """Return u(rows[i] as hypothesis, columns[i] as reference), with the utility's ``pairs`` if it has it."""
    if hasattr(utility, "pairs"):
        return np.asarray(utility.pairs(arena, rows, columns), np.float64)
    found = [
        utility.compare(arena, range(row, row + 1), range(column, column + 1))[0][0, 0]
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    ]
    return np.array(found, np.float64)


def _spans(missing: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Return, for each row, the shortest range that covers its missing cells; 0, 0 if none is missing."""
    some = missing.any(axis=1)
    starts = np.where(some, missing.argmax(axis=1), 0)
    stops = np.where(some, missing.shape[1] - missing[:, ::-1].argmax(axis=1), 0)
    return starts, stops
