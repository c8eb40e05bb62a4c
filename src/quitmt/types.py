"""What flows through quitmt: segments in, candidates between, outcomes out.

All are frozen and slotted. A segment's candidates are samples and, perhaps, anchors: candidates that are not samples,
such as greedy decoding's, and that judge nobody. A sample's index counts from 0 within its segment, an anchor's from -1
downwards; sizes count samples. References are not here on purpose: only evaluation may see them.
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
    """One text to translate. With the run's seed, ``id`` fixes the endless sequence of its candidates."""

    id: str
    source: str = ""
    context: str = ""
    """The sentences before it, for generators that can use them."""
    anchors: tuple[str, ...] = ()
    """Translations that the user has already: a system's output, a match of a translation memory, a draft."""
    support: tuple[str, ...] = ()
    """Texts that judge its candidates in place of the samples, and are none themselves: MBR with support "given"."""
    seed: int | None = None
    """In place of the run's, for generators whose traits say that they take it."""
    owner: str = ""
    """Whose it is, where several share an engine: ids are unique among the segments of one owner."""

    @property
    def key(self) -> str:
        """Tells it from all others in flight: its id, where nobody shares the engine."""
        return f"{self.owner}\0{self.id}" if self.owner else self.id


@dataclass(frozen=True, slots=True)
class Candidate:
    """One translation, with what its generator knows of it.

    ``log_probability`` is log P(text | source) under the model itself (temperature 1, nothing cut off), whatever the
    sampling settings were.
    """

    text: str
    log_probability: float | None = None
    tokens: int | None = None
    scores: Mapping[str, float] | None = None
    """Recorded scores that came with a pool, by name."""
    origin: str = ""
    """Of an anchor: where it comes from, such as ``greedy``, ``beam:4`` or ``given``. Empty for a sample."""


GIVEN = "given"
"""The origin of an anchor that is the user's own."""


def tokens_of(candidates: Iterable[Candidate]) -> int | None:
    """Of all of them, generated now or recorded; None unless each has a number."""
    counts = [(one.scores or {}).get("tokens") if one.tokens is None else one.tokens for one in candidates]
    return None if any(count is None for count in counts) else int(sum(count for count in counts if count is not None))


def at(index: int, anchors: Sequence[Candidate], candidates: Sequence[Candidate]) -> Candidate:
    """The candidate that an index means: of a sample from 0 upwards, of an anchor from -1 downwards."""
    return candidates[index] if index >= 0 else anchors[-1 - index]


@dataclass(frozen=True, slots=True)
class Request:
    """A request for candidates ``start`` to ``stop`` (exclusive) of a segment's endless sequence. A request that starts
    at 0 includes the segment's anchors, if the generator makes any, unless ``anchors`` is false. It may include
    nothing else: then ``stop`` is 0."""

    segment: Segment
    start: int
    stop: int
    anchors: bool = True


@dataclass(frozen=True, slots=True)
class Draw:
    """Candidates that arrived: ``candidates[i]`` has index ``start + i``.

    ``ended`` says that the segment has no candidates after these (a recorded pool is finite); ``error`` that it cannot
    be drawn at all. ``seconds`` is this draw's share of the generator's time. ``anchors`` are all of the segment's, in
    one of its draws; None in the others.
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
    """How the best candidate stands against each other distinct one, over the support they share."""

    mean: npt.NDArray[np.float64]
    """The mean advantage of the best one; negative where the other is ahead without the two themselves."""
    error: npt.NDArray[np.float64]
    """Its standard error."""
    top: npt.NDArray[np.float64]
    """The scores of the best few candidates, from the best one down; identical candidates each count."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a reranker stands after a step: all that a stopping rule sees of a segment."""

    size: int
    """Samples so far."""
    best: int
    """The index of the best candidate, from 0; -1, -2, … are the first anchor, the second, …"""
    score: float
    """Its score: higher is better, on the reranker's scale."""
    rivals: Callable[[], Rivals] | None = field(default=None, compare=False, repr=False)
    """For rules that race candidates: computed when it is called, by rerankers that can."""
    scores: Callable[[], npt.NDArray[np.float64]] | None = field(default=None, compare=False, repr=False)
    """Of the samples so far, in their order and on this very pool: computed when called, by rerankers that can."""

    @property
    def mean(self) -> float | None:
        """The mean score of the samples, by rerankers that can tell."""
        return None if self.scores is None else float(self.scores().mean())


class StopReason(StrEnum):
    """Why a segment stopped."""

    STABLE = "stable"
    """The rule found that the best score had stopped moving."""
    DECIDED = "decided"
    """The rule found that no more than it allows can be lost by stopping."""
    BUDGET = "budget"
    """The rule's budget of candidates was used up."""
    EXHAUSTED = "exhausted"
    """The generator had no more candidates: a recorded pool ended."""
    DEADLINE = "deadline"
    """Its time was up; the translation is the best one until then."""
    FAILED = "failed"
    """Generating or scoring failed; the outcome's ``error`` says how."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """Where the time of one segment went."""

    generate: float = 0.0
    rerank: float = 0.0


@dataclass(frozen=True, slots=True)
class Effort:
    """What MBR computed for one segment."""

    evaluations: int
    """Utilities of a hypothesis and a reference."""
    possible: int
    """Those of all candidates with all, n²."""
    encoded: int
    """Texts that went through the encoder; identical candidates are one."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A distinct candidate of a segment with its score, as it stands in n-best lists."""

    index: int
    text: str
    score: float
    count: int = 1
    """How many of the samples have this text; 0 for an anchor that did not come up as a sample."""
    log_probability: float | None = None
    origin: str = ""
    """Of the anchor with this text, if there is one, whether it came up as a sample too or not."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one segment. A failed one keeps the best translation known when it failed, if there was any."""

    id: str
    source: str
    translation: str
    index: int | None
    score: float | None
    size: int
    stop: StopReason
    trajectory: tuple[float, ...]
    """R_1, R_2, …: the best score after each step."""
    seconds: Seconds = field(default_factory=Seconds)
    signature: str = ""
    error: str | None = None
    effort: Effort | None = None
    """Of rerankers that can tell."""
    budget: int | None = None
    """How many candidates it might have used: the rule's budget, or fewer where its pool has fewer. None for a segment
    that was never begun."""
    recipe: Mapping[str, Any] | None = None
    """What it was made by (``quitmt.plan.Recipe``), as far as results depend on it."""
    warnings: tuple[str, ...] = ()
    """What the translation may have lost, as in ``quitmt.warnings``: "several sentences", "much shorter", …"""
    origin: str = ""
    """Where the translation comes from, if it is an anchor: ``greedy``, ``beam:4``, ``given``."""
    anchors: int = 0
    """How many anchors its generator made for it, besides the ``size`` samples."""
    nbest: tuple[Ranked, ...] = ()
    """The best distinct candidates, the best first, if they were asked for: the translation is the first of them."""
    signals: tuple[float, ...] = ()
    """What the rule saw at its looks, in a run that is paced: later segments depend on it."""
    tokens: int | None = None
    """Of all candidates that were generated for it, in a run that is paced and where each has a number of tokens."""

    @property
    def cost(self) -> int:
        """Candidates that were generated for it."""
        return self.size + self.anchors

    @property
    def text(self) -> str:
        """The chosen candidate, by a name that fits other tasks than translation too."""
        return self.translation


@dataclass(frozen=True, slots=True)
class Finished:
    """A segment that stopped: its outcome, and the candidates that were used for it."""

    segment: Segment
    outcome: Outcome
    candidates: Sequence[Candidate]
    anchors: Sequence[Candidate] = ()
    ranked: Sequence[Ranked] = ()
    """Each distinct candidate, the best first, if that was asked for and the reranker can tell."""
    fault: str | None = None
    """If code of others made it fail: the same for the same mistake (``QuitmtError.fault``)."""
    late: bool = False
    """Whether it failed because its time was up (``NotInTime``), and not by a mistake."""

    @classmethod
    def without_candidates(
        cls, segment: Segment, stop: StopReason, signature: str, error: QuitmtError | None = None
    ) -> Finished:
        """One that needed none, or that was never begun."""
        told = None if error is None else str(error)
        outcome = Outcome(segment.id, segment.source, "", None, None, 0, stop, (), signature=signature, error=told)
        fault = None if error is None else error.fault
        return cls(segment, outcome, (), fault=fault, late=isinstance(error, NotInTime))


@dataclass(frozen=True, slots=True)
class Begun:
    """A segment with the first of its candidates, which an earlier run drew: they need not be asked for again."""

    segment: Segment
    candidates: Sequence[Candidate]
    anchors: Sequence[Candidate] | None = None
    """None if they had not arrived."""


@dataclass(frozen=True, slots=True)
class RecordedPool:
    """A segment with the candidates that were sampled for it, in sampling order."""

    segment: Segment
    candidates: tuple[Candidate, ...]
    generator: str = ""
    """The signature of what sampled it, if that is known."""
    anchors: tuple[Candidate, ...] = ()
    stop: str = ""
    """Why it has no more candidates, if that is known: a ``StopReason`` of the run that kept it."""

    @property
    def stopped_early(self) -> bool:
        """Whether there might have been more candidates, of which it tells nothing."""
        return self.stop not in ("", StopReason.BUDGET, StopReason.EXHAUSTED)
