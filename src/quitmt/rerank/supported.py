"""MBR with pseudo-references from the user: only the texts that came with the segment judge its candidates.

r(h) = mean of u(h, t) over the texts t of ``Segment.support``; a text that is there twice counts twice. Samples don't
judge: the texts replace them, and a mean over both would depend on the number of samples. So no score changes as the
pool grows, and the best score is a running maximum, as with QE.

Each distinct text is encoded once, and each distinct candidate is compared once, only with the support. Sums run over
the support one by one in its order, so a score doesn't depend on the steps in which the pool grew, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Generic

import numpy as np

from quitmt.errors import InputError, QuitmtError, RerankError
from quitmt.loops.faults import FAULTS
from quitmt.protocols import Arena, RerankerTraits, Update, Utility, UtilityTraits, traits_of
from quitmt.rerank.anchors import TEXTS, best_first
from quitmt.rerank.cells import block
from quitmt.rerank.pairs import BLOCK, encode, failed
from quitmt.rerank.qe import Ranking, snapshots
from quitmt.types import Candidate, Effort, Segment, Snapshot


class SupportedRanking(Ranking, Generic[Arena]):
    """One segment's candidates so far, and the arena of its texts, which starts with the support."""

    __slots__ = ("anchors", "arena", "judges", "number")

    def __init__(self, segment: Segment, arena: Arena) -> None:
        super().__init__(segment)
        self.arena = arena
        self.anchors = 0
        self.number: dict[str, int] = {}
        """Distinct text → its place in the arena."""
        self.judges: list[int] = []
        """The place of each text of the support."""

    def add(self, candidates: Sequence[Candidate]) -> list[str]:
        """Number the texts; return those that are new to the arena."""
        known, support = len(self.number), self.scored.segment.support
        if not self.judges:
            self.judges = [self.number.setdefault(text, len(self.number)) for text in support]
        for candidate in candidates:
            self.number.setdefault(candidate.text, len(self.number))
        return list(self.number)[known:]

    def judge(self, utility: Utility[Arena], candidates: Sequence[Candidate]) -> list[float]:
        """Return the scores of candidates that are encoded."""
        scores = self.scored.scores
        new = list(dict.fromkeys(one.text for one in candidates if one.text not in scores))
        across = range(max(self.judges) + 1)
        for start in range(0, len(new), BLOCK):
            texts = new[start : start + BLOCK]
            utilities = block(utility, self.arena, np.array([self.number[text] for text in texts], np.int64), across)
            sums = np.zeros(len(texts))
            for place in self.judges:
                sums += utilities[:, place]
            for text, score in zip(texts, (sums / len(self.judges)).tolist(), strict=True):
                if not np.isfinite(score):
                    raise RerankError(f"segment {self.scored.segment.id}: the score of candidate {text!r} is {score}")
                scores[text] = score
        return [scores[one.text] for one in candidates]


class SupportedMbr(Generic[Arena]):
    """Exact MBR whose judges are the texts of ``Segment.support``."""

    TRAITS = RerankerTraits("mbr", running_best=True, takes_anchors=True, gives_scores=True)

    def __init__(self, utility: Utility[Arena]) -> None:
        self.utility, self.scores_with = utility, (utility,)
        self.traits = replace(self.TRAITS, needs_source=traits_of(utility, UtilityTraits).needs_source)
        self.signature = f"mbr:{utility.signature}|s:{TEXTS}"

    def open(self, segment: Segment) -> SupportedRanking[Arena]:
        return SupportedRanking(segment, self.utility.open(segment))

    def effort(self, state: SupportedRanking[Arena]) -> Effort:
        distinct, judges = len(set(state.judges)), len(state.judges)
        return Effort(len(state.scored.scores) * distinct, (state.size + state.anchors) * judges, len(state.number))

    def ranked(self, state: SupportedRanking[Arena]) -> list[tuple[int, float]]:
        return best_first(state.first.values())

    def extend(self, updates: Sequence[Update[SupportedRanking[Arena]]]) -> list[list[Snapshot] | QuitmtError]:
        new = [(update.state.arena, _new_texts(update)) for update in updates]
        errors = encode(self.utility, new)
        return [self._judged(update, error) for update, error in zip(updates, errors, strict=True)]

    def _judged(
        self, update: Update[SupportedRanking[Arena]], error: BaseException | None
    ) -> list[Snapshot] | QuitmtError:
        state, segment = update.state, update.state.scored.segment
        if not segment.support:
            hint = 'give it pseudo-references, or a list "support" in its pool'
            return InputError(f"segment {segment.id} has no text of support", hint=hint)
        try:
            if error is not None:
                raise error
            scores = state.judge(self.utility, [*update.anchors, *update.candidates])
        except FAULTS as fault:
            return failed(segment, fault)
        state.anchors += len(update.anchors)
        return snapshots(update, scores)


def _new_texts(update: Update[SupportedRanking[Arena]]) -> list[str]:
    """Return the update's new texts; none if the segment has no support to judge them."""
    state = update.state
    return state.add([*update.anchors, *update.candidates]) if state.scored.segment.support else []
