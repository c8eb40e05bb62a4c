"""Segments in flight: how each is worked on (``Policy``), what has arrived for it (``Slot``), and what was wasted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self

from quitmt.engine.guarded import GuardedRule, GuardedWatch
from quitmt.errors import QuitmtError
from quitmt.protocols import RerankerTraits, State, StoppingRule
from quitmt.types import GIVEN, Candidate, Draw, Effort, Outcome, Seconds, Segment, Snapshot, StopReason, at, tokens_of

AT_ONCE = 32
"""Number of candidates to request and rerank at once if segments may expire. Otherwise a rule that can stop only at its
budget would request all candidates, and there might be no translation, or a long reranking, when time is up. Smaller
requests would cost too many round trips."""

Observer = Callable[[Segment, Snapshot, Sequence[Candidate], Sequence[Candidate], StopReason | None], None]
"""Called after each step with the segment, its snapshot, its anchors, its samples so far, and the stop reason, if
any."""


@dataclass(slots=True)
class Wasted:
    """Counts candidates that were generated but never used, because their segment had stopped. Without speculation and
    deadlines there are hardly any."""

    candidates: int = 0
    tokens: int = 0

    def __bool__(self) -> bool:
        return self.candidates > 0 or self.tokens > 0

    def add(self, candidates: Sequence[Candidate]) -> None:
        self.candidates += len(candidates)
        self.tokens += sum(candidate.tokens or 0 for candidate in candidates)


@dataclass(frozen=True, slots=True)
class Policy:
    """How a segment is worked on: its stopping rule, and how many candidates are requested and reranked at a time.

    All segments of a run share one policy unless the run is steered. The requests of a server may have different
    policies and still share the engine.
    """

    rule: GuardedRule
    stride: int
    """Candidates from one snapshot to the next."""
    final_only: bool
    """Whether the only snapshot is taken at the budget."""
    signature: str = ""
    speculate: bool = False
    anytime: bool = False
    """Whether the segment may expire, so that it should always have something to return."""
    soon: bool = False
    """Whether the first request is for one step only, because a client is waiting for a first result."""
    ranked: bool = False
    """Whether the scores of all candidates are wanted, not only the best one."""

    @classmethod
    def of(
        cls,
        rule: StoppingRule,
        reranker: RerankerTraits,
        **options: Any,
    ) -> Self:
        guarded = GuardedRule(rule)
        # A rule that can't stop before its budget needs no earlier snapshots, and some rerankers pay for each.
        final_only = reranker.snapshots_cost and guarded.open().horizon(0) >= guarded.budget
        stride = guarded.budget if final_only else guarded.step
        return cls(guarded, stride, final_only, **options)


@dataclass(slots=True, eq=False)
class Slot(Generic[State]):
    """A segment in flight."""

    segment: Segment
    state: State
    watch: GuardedWatch
    policy: Policy
    requested: int = 0
    reranked: int = 0
    reranking: bool = False
    expired: bool = False
    end: int | None = None
    """How many candidates there are in total, once that is known; for a recorded pool, from the start."""
    anchors: tuple[Candidate, ...] | None = None
    """The generator's anchors, then the user's; None until the generator's have arrived."""
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
        """Whether every candidate that exists has arrived."""
        return self.end is not None and len(self.pool) >= self.end and self.anchors is not None

    @property
    def winding_up(self) -> bool:
        """Whether its time is up and it has something to return, so that it needs no more candidates."""
        return self.expired and (len(self.pool) > 0 or bool(self.anchors))

    def reach(self) -> int:
        """The number of candidates to request up to now: the next size at which the rule may stop, or the one after
        it."""
        rule, policy = self.watch.rule, self.policy
        next_stop = self.watch.horizon(self.reranked)
        if next_stop <= self.requested:  # speculation: the requested candidates may not be enough
            next_stop = self.watch.horizon(self.requested)
        reach = min(rule.budget, next_stop)
        if self.expired:  # it expired before its first request, so one step is enough
            return min(reach, self.requested + rule.step)
        if not policy.anytime:
            return reach
        return min(reach, self.requested + (rule.step if policy.soon and not self.requested else AT_ONCE))

    def ready(self) -> int:
        """How many candidates may be committed: whole steps only, unless everything up to the next possible stop has
        arrived.

        It is never more than that, because reranking candidates after a stop is wasted, and MBR takes quadratic
        time.
        """
        rule = self.watch.rule
        if self.expired:
            return len(self.pool)
        if self.policy.final_only:
            most = rule.budget  # no earlier snapshot, however many pieces the candidates arrive in
        elif self.policy.anytime:
            at_once = max(rule.step, AT_ONCE // rule.step * rule.step)
            most = min(self.watch.horizon(self.reranked), self.reranked + at_once)
        else:
            most = min(self.requested, self.watch.horizon(self.reranked))
        arrived = min(len(self.pool), most)
        if arrived == most or self.ended:
            return arrived
        return arrived - arrived % self.policy.stride

    def ahead(self) -> int:
        """The number of candidates that may be requested before the arrived ones are reranked."""
        budget = self.watch.rule.budget
        if self.policy.speculate:
            return budget
        return min(budget, self.watch.horizon(self.reranked)) if self.policy.anytime else self.requested

    def collect(self, draw: Draw) -> None:
        """Append the candidates that continue the pool; keep early ones for later; drop duplicates."""
        if draw.anchors is not None and self.anchors is None:
            self.anchors = draw.anchors + user_anchors(self.segment)
        if draw.start == len(self.pool) and not self.early:
            self.pool.extend(draw.candidates)
            return
        for index, candidate in enumerate(draw.candidates, start=draw.start):
            if index >= len(self.pool):
                self.early.setdefault(index, candidate)
        while len(self.pool) in self.early:
            self.pool.append(self.early.pop(len(self.pool)))

    def outcome(self, stop_reason: StopReason, error: QuitmtError | None, effort: Effort | None) -> Outcome:
        snapshot, anchors = self.snapshot, self.anchors or ()
        # If there was no time for a score, the first anchor is the best known translation.
        index = snapshot.best if snapshot else -1 if anchors and stop_reason is StopReason.DEADLINE else None
        chosen = Candidate("") if index is None else at(index, anchors, self.pool)
        # An exhausted segment reports its number of candidates. One that stopped earlier may not know it yet.
        budget = len(self.pool) if stop_reason is StopReason.EXHAUSTED else self.watch.rule.budget
        size, signals = snapshot.size if snapshot else 0, self.watch.kept_signals
        generated = [one for one in anchors if one.origin != GIVEN]
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
            signature=self.policy.signature,
            error=str(error) if error else None,
            effort=effort,
            budget=budget,
            origin=chosen.origin,
            anchors=len(generated),
            signals=signals or (),
            tokens=None if signals is None else tokens_of([*generated, *self.pool[:size]]),
        )


def user_anchors(segment: Segment) -> tuple[Candidate, ...]:
    """The anchors that came with the segment, from the user."""
    return tuple(Candidate(text, origin=GIVEN) for text in segment.anchors)
