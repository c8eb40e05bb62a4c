"""The protocols everything is built on: few and small, so that anybody's generator, utility or rule fits.

Each implementation has a ``signature``: a short text that names it and every setting that changes its results.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError
from quitmt.types import Ask, Candidate, Draw, Segment, Standing, Verdict

State = TypeVar("State")
Arena = TypeVar("Arena")
Matrix = npt.NDArray[np.float64]


class Generator(Protocol):
    """Samples candidates. A segment's candidates are one endless sequence, fixed by (seed, segment id, index)."""

    @property
    def signature(self) -> str: ...

    def draw(self, asks: Sequence[Ask]) -> AsyncIterator[Draw]:
        """Yield the asked candidates as they come, in any order and in any number of draws an ask.

        A segment that cannot be drawn yields a draw with ``error``; the others go on.
        """
        ...

    def close(self, segment: Segment) -> None:
        """The segment has stopped: abort what is under way for it and free what is kept for it.

        It is the very object that the asks had; an equal one of another run at the same time is not meant. It may be
        called more than once, and before anything was asked for.
        """
        ...


@dataclass(frozen=True, slots=True)
class Update(Generic[State]):
    """New candidates for one segment; a standing is wanted after each ``stride`` of them and after the last."""

    state: State
    candidates: Sequence[Candidate]
    stride: int


class Reranker(Protocol[State]):
    """Scores pools as they grow; higher is better, ties go to the lowest index."""

    @property
    def signature(self) -> str: ...

    def open(self, segment: Segment) -> State:
        """The empty pool of a segment."""
        ...

    def extend(self, updates: Sequence[Update[State]]) -> Sequence[list[Standing] | QuitmtError]:
        """Add candidates to several pools at once; for each, the standings, or why this one segment failed."""
        ...


class Watch(Protocol):
    """A rule at work on one segment; it sees the trajectory of standings and nothing else."""

    def observe(self, standing: Standing) -> Verdict | None:
        """Called once a step, in order; a verdict ends the segment."""
        ...

    def horizon(self, size: int) -> int:
        """The next pool size above ``size`` at which it could stop: everything up to it may be asked for at once."""
        ...


class StoppingRule(Protocol):
    """Decides when a segment has enough candidates."""

    @property
    def signature(self) -> str: ...

    @property
    def step(self) -> int:
        """Candidates from one standing to the next (k)."""
        ...

    @property
    def budget(self) -> int:
        """The most candidates it will ever want (N_max)."""
        ...

    def open(self) -> Watch: ...


class Utility(Protocol[Arena]):
    """Compares texts pairwise, for MBR. An arena holds one segment's distinct texts in the utility's own features.

    Accelerated MBR makes use of more, where a utility has it (texts by their numbers in the arena, utilities one way):

    - ``block(arena, rows, columns)``: u(row as hypothesis, column as reference) for an array of rows and a range of
      columns;
    - ``pairs(arena, rows, columns)``: the same for pairs, from two arrays of one length;
    - ``against(arena, rows, weights)``: the utilities of a range of rows with references that are weighted means of the
      arena's first texts, one for each row of ``weights``;
    - ``vectors(arena)``: a vector a text, for clustering.

    One whose ``encode`` leaves all arenas as they were when it fails has an attribute ``encodes_whole = True``; then a
    text that cannot be encoded fails its own segment only, and not all of the call.
    """

    @property
    def signature(self) -> str: ...

    def open(self, segment: Segment) -> Arena: ...

    def encode(self, batch: Sequence[tuple[Arena, Sequence[str]]]) -> None:
        """Append texts to arenas, of many segments at once so that an encoder sees full batches."""
        ...

    def compare(self, arena: Arena, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        """Two matrices of len(rows) × len(columns): u(row as hypothesis, column as reference), and
        u(column as hypothesis, row as reference)."""
        ...


class QualityEstimator(Protocol):
    """Scores a candidate by its source alone.

    One that looks at more of a candidate than its text (recorded scores, say) has an attribute ``distinct = False``
    and is asked for every candidate; others are asked once for each distinct text of a segment.
    """

    @property
    def signature(self) -> str: ...

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> npt.ArrayLike:
        """One score a pair, higher is better. The pairs come from many segments; unless ``distinct`` is False, no text
        of a segment comes twice within a call."""
        ...
