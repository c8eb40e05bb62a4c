"""The protocols everything is built on: few and small, so that anybody's generator, utility or rule fits.

Each implementation has a ``signature``: a short text that names it and every setting that changes its results.

What a part can do beyond its protocol it declares as ``traits``, an object of the class that stands beside the protocol
here; without one, the defaults hold. Parts made of parts derive theirs. ``traits_of`` is the only reader:

    class MyRule:
        traits = RuleTraits(needs_rivals=True)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from quitmt.errors import QuitmtError, UsageError
from quitmt.types import Candidate, Draw, Effort, Outcome, Request, Segment, Snapshot, StopReason

State = TypeVar("State")
Arena = TypeVar("Arena")
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GeneratorTraits:
    recorded: bool = False
    """Nothing is generated, so nothing can be generated for nothing."""
    sentence_level: bool = False
    """Its model was trained on single sentences, and may leave some of several out."""
    takes_seeds: bool = False
    """A segment may have a seed of its own."""
    shares_beginnings: bool = False
    """What candidates begin with alike is computed once, so that further ones cost less than the first."""
    translates: bool = True
    """Candidates say what the source says, so what is missing in them can be remarked on. False for answers."""
    anchored: bool = False
    """Who asks for a segment's first candidates gets its anchors too, and must wait for them."""


class Generator(Protocol):
    """Samples candidates. A segment's candidates are one endless sequence, fixed by (seed, segment id, index).

    Optional, each with a reader below: ``traits``; ``async check()``, which raises what would be wrong with every
    segment (an address, a key); ``async warm()``, which compiles and loads what else would be so on first use;
    ``waiting``, what it waits for, if anything; ``wasted_tokens``, of what was aborted; ``available(segment)``, how
    many candidates a segment has in all, if that is known before any is drawn; ``unknown(source)``, the characters of a
    source that its vocabulary lacks; ``resampled(sampling)``, the same model with other settings of sampling, which
    is what anchors are made with.
    """

    @property
    def signature(self) -> str: ...

    def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
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
    """New samples for one segment; a snapshot is wanted after each ``stride`` of them and after the last. Anchors come
    with the first update of a segment, or never."""

    state: State
    candidates: Sequence[Candidate]
    stride: int
    anchors: Sequence[Candidate] = ()


@dataclass(frozen=True, slots=True)
class RerankerTraits:
    kind: Literal["mbr", "qe", "other"] = "other"
    """How the score comes about: by agreement with other candidates, or by the candidate alone."""
    needs_source: bool = False
    """Scores mean nothing without a source: a segment that has none fails."""
    gives_rivals: bool = False
    """Snapshots tell how the best candidate stands against each other one, as exact MBR can."""
    running_best: bool = False
    """The best score is a running maximum: no candidate's score changes as the pool grows."""
    snapshots_cost: bool = False
    """Each snapshot is computed anew, so none is asked for that no rule looks at."""
    segments_at_once: int | None = None
    """Reranked in one call at most, where each takes long; None is no limit."""
    takes_anchors: bool = False
    """It scores candidates that are not samples. False for one that knows nothing of them."""
    judges_itself: bool = False
    """A sample is among its own judges, as in the paper: rules then need more candidates before they look."""
    gives_scores: bool = False
    """Snapshots tell the scores of all samples so far, and not only the best one."""
    votes: bool = False
    """The score of a sample is the share of samples that give its answer."""
    comparable: bool = True
    """A score on one pool means the same on a larger one. False for scores that are relative to their pool, such as
    ranks or shares of a whole: their best one moves with the size of the pool, and says nothing when it stays."""


class Reranker(Protocol[State]):
    """Scores pools as they grow; higher is better, ties go to anchors in their order, then to the lowest index.

    Optional: ``traits``; ``effort(state)``, which tells what was computed for a segment; ``ranked(state)``, the index
    and the score of each distinct candidate as of the last snapshot, the best first; ``apart``, a best score below
    which the candidates have little in common.
    """

    @property
    def signature(self) -> str: ...

    def open(self, segment: Segment) -> State:
        """The empty pool of a segment."""
        ...

    def extend(self, updates: Sequence[Update[State]]) -> Sequence[list[Snapshot] | QuitmtError]:
        """Add candidates to several pools at once; for each, the snapshots, or why this one segment failed."""
        ...


class Watch(Protocol):
    """A rule at work on one segment; it sees the trajectory of snapshots and nothing else.

    Optional: ``kept_signals``, numbers that the segment's outcome is to have, for the steering of later segments.
    """

    def observe(self, snapshot: Snapshot) -> StopReason | None:
        """Called once a step, in order; a stop reason ends the segment."""
        ...

    def horizon(self, size: int) -> int:
        """The next pool size above ``size`` at which it could stop: everything up to it may be asked for at once."""
        ...


@dataclass(frozen=True, slots=True)
class RuleTraits:
    needs_rivals: bool = False
    """It looks at the best candidate's rivals, which only exact MBR can tell."""
    needs_running_best: bool = False
    """It takes the best score for a running maximum, as with QE."""
    needs_scores: bool = False
    """It looks at the scores of all samples."""
    needs_votes: bool = False
    """It counts answers, so it is for votes only."""
    compares_scores: bool = False
    """It compares the best score with those on smaller pools."""


class Steering(Protocol):
    """Chooses the rule of each segment of a run by what became of segments before it."""

    def expect(self, length: int | None) -> None:
        """How many positions the input has, if that is known; called before the first of them."""
        ...

    @property
    def ready(self) -> bool:
        """Whether all is known that the next segment's rule depends on."""
        ...

    def next(self, position: int, *, blank: bool = False) -> StoppingRule:
        """The rule of the next position of the input; called for each in order, once it is ``ready``."""
        ...

    def add(self, position: int, outcome: Outcome) -> None:
        """What became of a position; in any order."""
        ...


class StoppingRule(Protocol):
    """Decides when a segment has enough candidates. Optional: ``traits``; ``steer()``, a ``Steering`` for a run whose
    segments are to have different rules."""

    @property
    def signature(self) -> str: ...

    @property
    def step(self) -> int:
        """Candidates from one snapshot to the next (k)."""
        ...

    @property
    def budget(self) -> int:
        """The most candidates it will ever want (N_max)."""
        ...

    def open(self) -> Watch: ...


@dataclass(frozen=True, slots=True)
class UtilityTraits:
    needs_source: bool = False
    """Utilities mean nothing without a source."""
    encodes_whole: bool = False
    """If ``encode`` fails it leaves all arenas as they were: a text that cannot be encoded then fails its own segment
    only, and not all of the call."""
    apart: float = 0.0
    """Two texts with a lower utility have little in common."""
    votes: bool = False
    """It is 1 for two texts with the same answer, and 0 otherwise."""


class Utility(Protocol[Arena]):
    """Compares texts pairwise, for MBR. An arena holds one segment's distinct texts in the utility's own features.

    Accelerated MBR makes use of more, where a utility has it (texts by their numbers in the arena, utilities one way):

    - ``block(arena, rows, columns)``: u(row as hypothesis, column as reference) for an array of rows and a range of
      columns;
    - ``pairs(arena, rows, columns)``: the same for pairs, from two arrays of one length;
    - ``against(arena, rows, weights)``: the utilities of a range of rows with references that are weighted means of the
      arena's first texts, one for each row of ``weights``;
    - ``vectors(arena)``: a vector a text, for clustering.

    Optional besides: ``traits``.
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


@dataclass(frozen=True, slots=True)
class EstimatorTraits:
    needs_source: bool = False
    """Scores mean nothing without a source."""
    distinct: bool = True
    """One score for each distinct text of a segment is enough. False for one that looks at more of a candidate than its
    text (recorded scores, say): it is asked for every candidate."""


class QualityEstimator(Protocol):
    """Scores a candidate by its source alone. Optional: ``traits``."""

    @property
    def signature(self) -> str: ...

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> npt.ArrayLike:
        """One score a pair, higher is better. The pairs come from many segments; unless its traits say
        otherwise, no text of a segment comes twice within a call."""
        ...


Traits = TypeVar("Traits", GeneratorTraits, RerankerTraits, RuleTraits, UtilityTraits, EstimatorTraits)


def traits_of(part: object, kind: type[Traits]) -> Traits:
    """What a part declares, or the defaults."""
    found = getattr(part, "traits", None)
    if found is None:
        return kind()
    if not isinstance(found, kind):
        raise UsageError(f"the traits of {type(part).__name__} must be {kind.__name__}, not {type(found).__name__}")
    return found


async def check(generator: Generator) -> None:
    """Raise what would be wrong with every segment, if the generator can find that out."""
    own: Any = generator
    if hasattr(own, "check"):
        await own.check()


async def warm(generator: Generator) -> None:
    """Have the generator compile and load what it would on first use, if it can."""
    own: Any = generator
    if hasattr(own, "warm"):
        await own.warm()


def steering(rule: StoppingRule) -> Steering | None:
    """For the segments of one run, if the rule wants that."""
    own: Any = rule
    return own.steer() if hasattr(own, "steer") else None


def waiting(generator: Generator) -> str | None:
    """What the generator waits for, a server that is away, say; None while all is well, or if it cannot tell."""
    return getattr(generator, "waiting", None)


def available(generator: Generator, segment: Segment) -> int | None:
    """How many candidates a segment has in all; None if there is no end to them, or none is known."""
    own: Any = generator
    return own.available(segment) if hasattr(own, "available") else None


def wasted_tokens(generator: Generator) -> int:
    """Of candidates that the generator aborted, if it knows."""
    return int(getattr(generator, "wasted_tokens", 0))


def unknown(generator: Generator, source: str) -> str:
    """The characters of a source that the generator's vocabulary lacks, if it can tell."""
    own: Any = generator
    return str(own.unknown(source)) if hasattr(own, "unknown") else ""


def apart(reranker: Reranker[Any]) -> float | None:
    """The best score below which candidates have little in common, if the reranker knows one."""
    return getattr(reranker, "apart", None)


def cut(part: Any, texts: Collection[str]) -> list[int]:
    """Of a reranker, or of what it scores with (``scores_with``): how many tokens its models left out, of each text
    that they read only in part."""
    own = part.cuts.among(texts) if hasattr(part, "cuts") else []
    return max([own, *(cut(one, texts) for one in getattr(part, "scores_with", ()))], key=len)


def effort(reranker: Reranker[State], state: State) -> Effort | None:
    """What was computed for a segment, if the reranker can tell."""
    own: Any = reranker
    return own.effort(state) if hasattr(own, "effort") else None


def ranked(reranker: Reranker[State], state: State) -> list[tuple[int, float]]:
    """The index and the score of each distinct candidate, the best first, if the reranker can tell."""
    own: Any = reranker
    return own.ranked(state) if hasattr(own, "ranked") else []
