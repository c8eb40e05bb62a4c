"""The protocols of generators, rerankers, utilities, estimators and stopping rules: small, so that users can implement
their own.

Each implementation has a ``signature``: a short text that names it and every setting that changes its results.

An implementation declares further abilities and needs as ``traits``, an object of the class defined beside its protocol
here; the defaults apply to implementations without traits. Read them with ``traits_of`` only:

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
    """Candidates come from a recording, so drawing more of them than needed wastes no computation."""
    sentence_level: bool = False
    """The model was trained on single sentences and may skip some of several."""
    takes_seeds: bool = False
    """The generator follows ``Segment.seed``."""
    translates: bool = True
    """Candidates translate the source, so warnings about missing text make sense. False for answers to questions."""
    anchored: bool = False
    """A segment's anchors come with its first candidates, and the engine must wait for them."""


class Generator(Protocol):
    """Samples candidates. A segment's candidates are one endless sequence, fixed by (seed, ``Segment.content``, index),
    unless it is recorded.

    Optional members, each with a reader below:

    - ``traits``;
    - ``async check()`` raises problems that would affect every segment, such as a wrong address or key;
    - ``async warm()`` compiles and loads what would otherwise be compiled and loaded on first use;
    - ``waiting`` describes what the generator is waiting for, or is None;
    - ``wasted_tokens`` counts the tokens of aborted candidates;
    - ``available(segment)`` is the total number of a segment's candidates, if known in advance;
    - ``unknown(source)`` returns the characters of a source that the vocabulary lacks;
    - ``resampled(sampling)`` returns the same model with other sampling settings; anchors are made with it.
    """

    @property
    def signature(self) -> str: ...

    def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        """Yield the requested candidates as they arrive, in any order, with any number of draws per request.

        A segment that cannot be drawn yields a draw with ``error``; the others go on.
        """
        ...

    def close(self, segment: Segment) -> None:
        """Abort a stopped segment's requests and free its memory.

        ``segment`` is the same object as in the requests; equal segments of concurrent runs aren't affected. ``close``
        may be called repeatedly, and before any request.
        """
        ...


@dataclass(frozen=True, slots=True)
class Update(Generic[State]):
    """New samples for one segment. The reranker returns a snapshot after every ``stride`` samples and after the last.
    Anchors come with a segment's first update or not at all."""

    state: State
    candidates: Sequence[Candidate]
    stride: int
    anchors: Sequence[Candidate] = ()


@dataclass(frozen=True, slots=True)
class RerankerTraits:
    kind: Literal["mbr", "qe", "other"] = "other"
    """"mbr": scored by agreement with other candidates; "qe": scored alone."""
    needs_source: bool = False
    """A segment without a source fails."""
    gives_rivals: bool = False
    """Snapshots have ``rivals``, as with exact MBR."""
    running_best: bool = False
    """The best score is a running maximum: no candidate's score changes as the pool grows."""
    snapshots_cost: bool = False
    """Each snapshot is computed from scratch, so only those that a rule looks at are requested."""
    segments_at_once: int | None = None
    """Maximum segments per call, for slow rerankers; None means no limit."""
    takes_anchors: bool = False
    """The reranker can score anchors."""
    judges_itself: bool = False
    """A sample is its own pseudo-reference too, as in the paper, so rules wait for more candidates."""
    gives_scores: bool = False
    """Snapshots have ``scores``."""
    votes: bool = False
    """A sample's score is the share of samples with the same answer."""
    comparable: bool = True
    """Scores keep their meaning as the pool grows. False for scores relative to their pool, such as ranks or shares:
    their maximum depends on the pool's size, so its stability says nothing."""


class Reranker(Protocol[State]):
    """Scores pools as they grow; higher is better, ties go to anchors in their order, then to the lowest index.

    Optional members: ``traits``; ``effort(state)`` counts what was computed for a segment; ``ranked(state)`` lists the
    index and score of each distinct candidate as of the last snapshot, in descending order; ``apart`` is the best score
    below which the candidates have little in common.
    """

    @property
    def signature(self) -> str: ...

    def open(self, segment: Segment) -> State:
        """The empty pool of a segment."""
        ...

    def extend(self, updates: Sequence[Update[State]]) -> Sequence[list[Snapshot] | QuitmtError]:
        """Add candidates to several pools; return each segment's snapshots, or its error."""
        ...


class Watch(Protocol):
    """A rule applied to one segment; it sees only the snapshots.

    Optional member: ``kept_signals``, numbers to store in the segment's outcome for the steering of later segments.
    """

    def observe(self, snapshot: Snapshot) -> StopReason | None:
        """Called once per step, in order; returning a stop reason ends the segment."""
        ...

    def horizon(self, size: int) -> int:
        """The next pool size above ``size`` at which it could stop; all candidates up to it may be requested now."""
        ...


@dataclass(frozen=True, slots=True)
class RuleTraits:
    needs_rivals: bool = False
    """The rule uses ``Snapshot.rivals``, which only exact MBR gives."""
    needs_running_best: bool = False
    """The rule assumes that the best score is a running maximum, as with QE."""
    needs_scores: bool = False
    """The rule uses ``Snapshot.scores``."""
    needs_votes: bool = False
    """The rule counts votes."""
    compares_scores: bool = False
    """The rule compares best scores of pools of different sizes."""


class Steering(Protocol):
    """Chooses the rule of each segment from the outcomes of earlier segments of the run."""

    def expect(self, length: int | None) -> None:
        """Takes the number of input positions, if known; called before the first one."""
        ...

    @property
    def ready(self) -> bool:
        """Whether all outcomes that the next rule depends on have arrived."""
        ...

    def next(self, position: int, *, blank: bool = False) -> StoppingRule:
        """The rule of the next input position; called for each position in order, once ``ready``."""
        ...

    def add(self, position: int, outcome: Outcome) -> None:
        """Takes the outcome of a position; positions come in any order."""
        ...


class StoppingRule(Protocol):
    """Decides when a segment has enough candidates. Optional members: ``traits``; ``steer()`` returns a ``Steering``
    for a run whose segments get different rules."""

    @property
    def signature(self) -> str: ...

    @property
    def step(self) -> int:
        """Candidates per step (k)."""
        ...

    @property
    def budget(self) -> int:
        """Maximum candidates per segment (N_max)."""
        ...

    def open(self) -> Watch: ...


@dataclass(frozen=True, slots=True)
class UtilityTraits:
    needs_source: bool = False
    """The utility uses the source."""
    encodes_whole: bool = False
    """A failing ``encode`` leaves all arenas unchanged, so a text that can't be encoded fails only its own segment."""
    apart: float = 0.0
    """Two texts with a lower utility have little in common."""
    votes: bool = False
    """The utility is 1 for two texts with the same answer and 0 otherwise."""


class Utility(Protocol[Arena]):
    """Compares texts pairwise, for MBR. An arena holds the features of one segment's distinct texts.

    Accelerated MBR also uses these optional members (texts are numbers in the arena; utilities in one direction):

    - ``block(arena, rows, columns)``: u(row as hypothesis, column as reference) for an array of rows and a range of
      columns;
    - ``pairs(arena, rows, columns)``: the same for pairs, from two arrays of one length;
    - ``against(arena, rows, weights)``: the utilities of a range of rows with references that are weighted means of the
      arena's first texts, one for each row of ``weights``;
    - ``vectors(arena)``: one vector per text, for clustering.

    Another optional member is ``traits``.
    """

    @property
    def signature(self) -> str: ...

    def open(self, segment: Segment) -> Arena: ...

    def encode(self, batch: Sequence[tuple[Arena, Sequence[str]]]) -> None:
        """Append texts to arenas. One call covers many segments, so that an encoder sees full batches."""
        ...

    def compare(self, arena: Arena, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        """Two matrices of len(rows) × len(columns): u(row as hypothesis, column as reference), and
        u(column as hypothesis, row as reference)."""
        ...


@dataclass(frozen=True, slots=True)
class EstimatorTraits:
    needs_source: bool = False
    """Scoring uses the source."""
    distinct: bool = True
    """Duplicates are scored once. False if the score depends on more than the text (recorded scores, for example)."""


class QualityEstimator(Protocol):
    """Scores a candidate against its source, without other candidates. Optional member: ``traits``."""

    @property
    def signature(self) -> str: ...

    def score(self, pairs: Sequence[tuple[Segment, Candidate]]) -> npt.ArrayLike:
        """One score per pair; higher is better. The pairs come from many segments. With the trait ``distinct``, no text
        of a segment occurs twice in a call."""
        ...


Traits = TypeVar("Traits", GeneratorTraits, RerankerTraits, RuleTraits, UtilityTraits, EstimatorTraits)


def traits_of(part: object, kind: type[Traits]) -> Traits:
    """The traits that an implementation declares, or the defaults."""
    traits = getattr(part, "traits", None)
    if traits is None:
        return kind()
    if not isinstance(traits, kind):
        raise UsageError(f"the traits of {type(part).__name__} must be {kind.__name__}, not {type(traits).__name__}")
    return traits


async def check(generator: Generator) -> None:
    """Raise problems that would affect every segment, if the generator can detect them."""
    if hasattr(generator, "check"):
        await generator.check()


async def warm(generator: Generator) -> None:
    """Let the generator compile and load in advance, if it can."""
    if hasattr(generator, "warm"):
        await generator.warm()


def steering(rule: StoppingRule) -> Steering | None:
    """The rule's steering for one run, if it has one."""
    return rule.steer() if hasattr(rule, "steer") else None


def waiting(generator: Generator) -> str | None:
    """What the generator is waiting for, such as an unreachable server; None if it isn't waiting or can't tell."""
    return getattr(generator, "waiting", None)


def available(generator: Generator, segment: Segment) -> int | None:
    """Total number of a segment's candidates; None if it is unlimited or unknown."""
    return generator.available(segment) if hasattr(generator, "available") else None


def wasted_tokens(generator: Generator) -> int:
    """Tokens of aborted candidates, if the generator counts them."""
    return int(getattr(generator, "wasted_tokens", 0))


def unknown(generator: Generator, source: str) -> str:
    """The characters of a source that the generator's vocabulary lacks; empty if it can't tell."""
    return str(generator.unknown(source)) if hasattr(generator, "unknown") else ""


def apart(reranker: Reranker[Any]) -> float | None:
    """The best score below which candidates have little in common, if the reranker has such a threshold."""
    return getattr(reranker, "apart", None)


def cut(part: Any, texts: Collection[str]) -> list[int]:
    """The number of tokens that a reranker's models (``scores_with``) cut off from each truncated text."""
    counts = part.cuts.among(texts) if hasattr(part, "cuts") else []
    return max([counts, *(cut(one, texts) for one in getattr(part, "scores_with", ()))], key=len)


def effort(reranker: Reranker[State], state: State) -> Effort | None:
    """The computation spent on a segment, if the reranker counts it."""
    return reranker.effort(state) if hasattr(reranker, "effort") else None


def ranked(reranker: Reranker[State], state: State) -> list[tuple[int, float]]:
    """Index and score of each distinct candidate in descending order; empty if the reranker can't rank them."""
    return reranker.ranked(state) if hasattr(reranker, "ranked") else []
