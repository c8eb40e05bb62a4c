"""The data that flows through quitmt: segments, candidates, outcomes.

All classes are frozen and slotted. A segment's candidates are samples and, optionally, anchors: candidates that were
not sampled, such as the greedy translation, and that are never used as pseudo-references. Sample indices count from 0
within a segment, anchor indices from -1 downwards; sizes count samples. References are deliberately not here: only
evaluation may see them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.errors import NotInTime, QuitmtError


@dataclass(frozen=True, slots=True)
class Segment:
    """One text to translate. With the seed, its content fixes the endless sequence of its candidates, and ``id`` only
    names it."""

    id: str
    source: str = ""
    context: str = ""
    """The preceding sentences, for generators that can use them."""
    anchors: tuple[str, ...] = ()
    """Translations that the user already has: another system's output, a translation-memory match, a draft."""
    support: tuple[str, ...] = ()
    """Pseudo-references to use instead of the samples: MBR with support "given"."""
    seed: int | None = None
    """Overrides the run's seed, for generators with the trait ``takes_seeds``."""
    owner: str = ""
    """The caller, if several share an engine; ids are unique per owner."""

    @property
    def key(self) -> str:
        """Identifies the segment among all in flight: its id, preceded by its owner if it has one."""
        return f"{self.owner}\0{self.id}" if self.owner else self.id

    @property
    def content(self) -> bytes:
        """All that a model sees of the segment. Random numbers follow it, so equal texts get equal candidates."""
        text = f"{self.source}\0{self.context}" if self.context else self.source
        return text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One translation and what its generator reports about it.

    ``log_probability`` is log P(text | source) under the unmodified model (temperature 1, no cut-offs), whatever the
    sampling settings were.
    """

    text: str
    log_probability: float | None = None
    tokens: int | None = None
    scores: Mapping[str, float] | None = None
    """Scores recorded in a pool, by name."""
    origin: str = ""
    """How an anchor was made: ``greedy``, ``beam:4``, ``given``, …. Empty for a sample."""


GIVEN = "given"
"""The origin of anchors that the user supplied."""


def tokens_of(candidates: Iterable[Candidate]) -> int | None:
    """Total tokens of some candidates, generated or recorded; None if any candidate's count is unknown."""
    counts = [(one.scores or {}).get("tokens") if one.tokens is None else one.tokens for one in candidates]
    return None if any(count is None for count in counts) else int(sum(count for count in counts if count is not None))


def at(index: int, anchors: Sequence[Candidate], candidates: Sequence[Candidate]) -> Candidate:
    """The candidate with an index: samples count from 0 upwards, anchors from -1 downwards."""
    return candidates[index] if index >= 0 else anchors[-1 - index]


@dataclass(frozen=True, slots=True)
class Request:
    """A request for candidates ``start`` to ``stop`` (exclusive) of a segment's endless sequence. If it starts at 0, it
    also asks for the segment's anchors, unless ``anchors`` is false; with ``stop`` 0 it asks for the anchors only."""

    segment: Segment
    start: int
    stop: int
    anchors: bool = True


@dataclass(frozen=True, slots=True)
class Draw:
    """Candidates that arrived: ``candidates[i]`` has index ``start + i``.

    ``ended`` means that the segment has no further candidates (a recorded pool is finite), ``error`` that none can be
    drawn. ``seconds`` is this draw's share of the generator's time. One draw per segment carries all its ``anchors``;
    in the others it is None.
    """

    segment: Segment
    start: int
    candidates: tuple[Candidate, ...]
    seconds: float = 0.0
    ended: bool = False
    error: QuitmtError | None = None
    anchors: tuple[Candidate, ...] | None = None


@dataclass(frozen=True, slots=True)
class Rivals:
    """Compares the best candidate with each other distinct one, over the pseudo-references that both share."""

    mean: npt.NDArray[np.float64]
    """The best candidate's mean advantage. It is negative if the rival leads once both are removed from the support."""
    error: npt.NDArray[np.float64]
    """The standard error of the mean."""
    top: npt.NDArray[np.float64]
    """The highest scores in descending order; duplicates count separately."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The reranker's result after a step: all that a stopping rule sees of a segment."""

    size: int
    """Number of samples so far."""
    best: int
    """Index of the best candidate: from 0 for samples, from -1 downwards for anchors."""
    score: float
    """The best candidate's score, on the reranker's scale; higher is better."""
    rivals: Callable[[], Rivals] | None = field(default=None, compare=False, repr=False)
    """Computes the comparison with the rivals; None if the reranker can't."""
    scores: Callable[[], npt.NDArray[np.float64]] | None = field(default=None, compare=False, repr=False)
    """Computes the scores of the samples so far, in order, within this pool; None if the reranker can't."""

    @property
    def mean(self) -> float | None:
        """The mean score of the samples; None if the reranker doesn't give scores."""
        return None if self.scores is None else float(self.scores().mean())


class StopReason(StrEnum):
    """Why a segment stopped."""

    STABLE = "stable"
    """The best score stopped changing."""
    DECIDED = "decided"
    """Stopping loses no more than the rule allows."""
    BUDGET = "budget"
    """The rule's budget of candidates was used up."""
    EXHAUSTED = "exhausted"
    """The generator had no more candidates: a recorded pool ended."""
    DEADLINE = "deadline"
    """The time was up; the translation is the best one found by then."""
    FAILED = "failed"
    """Generating or scoring failed; the outcome's ``error`` says how."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """Time spent on one segment."""

    generate: float = 0.0
    rerank: float = 0.0


@dataclass(frozen=True, slots=True)
class Effort:
    """What MBR computed for one segment."""

    evaluations: int
    """Utilities computed (one hypothesis, one pseudo-reference each)."""
    possible: int
    """Utilities of all pairs of candidates: n²."""
    encoded: int
    """Texts that went through the encoder; duplicates count once."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A distinct candidate with its score: an entry of an n-best list."""

    index: int
    text: str
    score: float
    count: int = 1
    """Number of samples with this text; 0 for an anchor that was not sampled too."""
    log_probability: float | None = None
    origin: str = ""
    """The origin of the anchor with this text, if there is one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one segment. A failed segment keeps the best translation known when it failed, if any."""

    id: str
    source: str
    translation: str
    index: int | None
    score: float | None
    size: int
    stop: StopReason
    trajectory: tuple[float, ...]
    """The best score after each step: R_1, R_2, …"""
    seconds: Seconds = field(default_factory=Seconds)
    signature: str = ""
    error: str | None = None
    effort: Effort | None = None
    """None if the reranker doesn't count it."""
    budget: int | None = None
    """Maximum candidates it could have used: the rule's budget, or the size of a smaller recorded pool. None if the
    segment was never started."""
    recipe: Mapping[str, Any] | None = None
    """The settings that affect results (see ``quitmt.plan.Recipe``)."""
    warnings: tuple[str, ...] = ()
    """Signs of lost text, as in ``quitmt.warnings``: "several sentences", "much shorter", …"""
    origin: str = ""
    """How the translation was made, if it is an anchor: ``greedy``, ``beam:4``, ``given``."""
    anchors: int = 0
    """Number of anchors that the generator made, in addition to the ``size`` samples."""
    nbest: tuple[Ranked, ...] = ()
    """The best distinct candidates in descending order, if requested; the first is the translation."""
    signals: tuple[float, ...] = ()
    """The rule's signals at each look in a paced run; later segments depend on them."""
    tokens: int | None = None
    """Total tokens generated for the segment in a paced run; None if any candidate's count is unknown."""
    copied: bool = False
    """Whether the result was copied from an equal segment. ``size`` and ``trajectory`` are that segment's."""

    @property
    def cost(self) -> int:
        """Number of candidates generated for the segment; a copy costs nothing."""
        return 0 if self.copied else self.size + self.anchors

    @property
    def text(self) -> str:
        """The chosen candidate, under a name that also fits tasks other than translation."""
        return self.translation


@dataclass(frozen=True, slots=True)
class Finished:
    """A segment that stopped, with its outcome and the candidates it used."""

    segment: Segment
    outcome: Outcome
    candidates: Sequence[Candidate]
    anchors: Sequence[Candidate] = ()
    ranked: Sequence[Ranked] = ()
    """The distinct candidates in descending order, if requested and the reranker can rank them."""
    fault: str | None = None
    """Identifies the mistake in user code that made the segment fail (``QuitmtError.fault``), so that repeats are
    reported once."""
    late: bool = False
    """Whether the segment failed because its time was up (``NotInTime``)."""
    copied: Candidate | None = None
    """The chosen candidate of a copy that has no other candidates."""

    @property
    def chosen(self) -> Candidate | None:
        """The chosen candidate; None if there is none, or if the candidates weren't kept."""
        index = self.outcome.index
        if index is None or not (self.anchors or self.candidates):
            return self.copied
        return at(index, self.anchors, self.candidates)

    @classmethod
    def without_candidates(
        cls, segment: Segment, stop: StopReason, signature: str, error: QuitmtError | None = None
    ) -> Finished:
        """A segment that needed no candidates, or that was never started."""
        message = None if error is None else str(error)
        outcome = Outcome(segment.id, segment.source, "", None, None, 0, stop, (), signature=signature, error=message)
        fault = None if error is None else error.fault
        return cls(segment, outcome, (), fault=fault, late=isinstance(error, NotInTime))


@dataclass(frozen=True, slots=True)
class Begun:
    """A segment with the candidates that an earlier run already drew for it, so that they aren't requested again."""

    segment: Segment
    candidates: Sequence[Candidate]
    anchors: Sequence[Candidate] | None = None
    """None if they had not arrived yet."""


@dataclass(frozen=True, slots=True)
class RecordedPool:
    """A segment with its recorded candidates, in sampling order."""

    segment: Segment
    candidates: tuple[Candidate, ...]
    generator: str = ""
    """Signature of the generator, if known."""
    anchors: tuple[Candidate, ...] = ()
    stop: str = ""
    """Why recording ended, if known: the ``StopReason`` of the run that kept the pool."""

    @property
    def stopped_early(self) -> bool:
        """Whether the run stopped before its budget, so that further candidates are unknown."""
        return self.stop not in ("", StopReason.BUDGET, StopReason.EXHAUSTED)
