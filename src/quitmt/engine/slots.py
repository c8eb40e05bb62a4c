"""What the engine keeps: a slot for each segment in flight, and a count of what was generated for nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

from quitmt.engine.guarded import GuardedWatch
from quitmt.errors import QuitmtError
from quitmt.protocols import State
from quitmt.types import GIVEN, Candidate, Draw, Effort, Outcome, Seconds, Segment, Snapshot, StopReason, at, tokens_of

if TYPE_CHECKING:
    from quitmt.engine.terms import Terms

Observer = Callable[[Segment, Snapshot, Sequence[Candidate], Sequence[Candidate], StopReason | None], None]
"""Called after each step: the segment, where it stands, its anchors, its samples so far, and the stop reason, if
any."""


@dataclass(slots=True)
class Wasted:
    """What was generated and never used, because its segment had stopped: nothing, unless windows are speculative."""

    candidates: int = 0
    tokens: int = 0

    def __bool__(self) -> bool:
        return self.candidates > 0 or self.tokens > 0

    def add(self, candidates: Sequence[Candidate]) -> None:
        self.candidates += len(candidates)
        self.tokens += sum(candidate.tokens or 0 for candidate in candidates)


@dataclass(slots=True, eq=False)
class Slot(Generic[State]):
    """A segment in flight."""

    segment: Segment
    state: State
    watch: GuardedWatch
    terms: Terms
    requested: int = 0
    reranked: int = 0
    reranking: bool = False
    expired: bool = False
    end: int | None = None
    """How many candidates there are in all, once that is known: of a recorded pool, from the start."""
    anchors: tuple[Candidate, ...] | None = None
    """Its generator's, then the user's own; None until the generator's have arrived."""
    pool: list[Candidate] = field(default_factory=list)
    """Candidates 0, 1, … without a gap."""
    early: dict[int, Candidate] = field(default_factory=dict)
    """Candidates that arrived before a lower index did."""
    trajectory: list[float] = field(default_factory=list)
    snapshot: Snapshot | None = None
    generate_seconds: float = 0.0
    rerank_seconds: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether all candidates that there are have arrived."""
        return self.end is not None and len(self.pool) >= self.end and self.anchors is not None

    @property
    def winding_up(self) -> bool:
        """Whether its time is up and there is something to return: it needs no more candidates."""
        return self.expired and (len(self.pool) > 0 or bool(self.anchors))

    def collect(self, draw: Draw) -> None:
        """Append what continues the pool; keep what came early; drop what is there already."""
        if draw.anchors is not None and self.anchors is None:
            self.anchors = draw.anchors + given(self.segment)
        if draw.start == len(self.pool) and not self.early:
            self.pool.extend(draw.candidates)
            return
        for index, candidate in enumerate(draw.candidates, start=draw.start):
            if index >= len(self.pool):
                self.early.setdefault(index, candidate)
        while len(self.pool) in self.early:
            self.pool.append(self.early.pop(len(self.pool)))

    def outcome(self, stop_reason: StopReason, error: QuitmtError | None, effort: Effort | None) -> Outcome:
        """What became of it."""
        snapshot, anchors = self.snapshot, self.anchors or ()
        # With no time for a score, the first anchor is the best that is known.
        index = snapshot.best if snapshot else -1 if anchors and stop_reason is StopReason.DEADLINE else None
        chosen = Candidate("") if index is None else at(index, anchors, self.pool)
        # Where the candidates ended it is their number; whoever stopped before need not know that they would.
        budget = len(self.pool) if stop_reason is StopReason.EXHAUSTED else self.watch.rule.budget
        size, signals = snapshot.size if snapshot else 0, self.watch.kept_signals
        made = [one for one in anchors if one.origin != GIVEN]
        return Outcome(
            id=self.segment.id,
            source=self.segment.source,
            translation=chosen.text,
            index=index,
            score=snapshot.score if snapshot else None,
            size=size,
            stop=stop_reason,
            trajectory=tuple(self.trajectory),
            seconds=Seconds(self.generate_seconds, self.rerank_seconds),
            signature=self.terms.signature,
            error=str(error) if error else None,
            effort=effort,
            budget=budget,
            origin=chosen.origin,
            anchors=len(made),
            signals=signals or (),
            tokens=None if signals is None else tokens_of([*made, *self.pool[:size]]),
        )


def given(segment: Segment) -> tuple[Candidate, ...]:
    """The anchors that are the user's own."""
    return tuple(Candidate(text, origin=GIVEN) for text in segment.anchors)
