"""A package that adds names to quitmt: a generator, two rerankers and a stopping rule."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from quitmt import Candidate, Draw, Request, Segment, Snapshot, StopReason
from quitmt.sampling import Sampling


class Shuffle:
    """``shuffle:SEPARATOR``: the words of the source in any order."""

    def __init__(
        self,
        model: str,
        sampling: Sampling,
        *,
        languages: tuple[str | None, str | None] = (None, None),
        capitals: bool = False,
    ) -> None:
        self._separator, self._sampling, self._capitals = model, sampling, capitals
        self.signature = f"shuffle:{model}|capitals:{capitals}|{sampling.signature}"

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        for request in requests:
            texts = (self._text(request.segment, index) for index in range(request.start, request.stop))
            yield Draw(request.segment, request.start, tuple(map(Candidate, texts)))

    def close(self, segment: Segment) -> None:
        """Nothing is kept."""

    def _text(self, segment: Segment, index: int) -> str:
        """Fixed by seed, segment and index, so that pools are nested and runs can be resumed."""
        words = segment.source.split()
        random.Random(self._sampling.seed_of(segment.content, index)).shuffle(words)
        text = self._separator.join(words)
        return text.title() if self._capitals else text


def overlap(hypothesis: str, reference: str) -> float:
    """A utility for MBR: how many words stand at the same place."""
    pairs = list(zip(hypothesis.split(), reference.split(), strict=False))
    return sum(one == other for one, other in pairs) / max(1, len(pairs))


def brevity(source: str, candidate: str) -> float:
    """A quality estimator: shorter is better."""
    return -len(candidate) / max(1, len(source))


@dataclass(frozen=True)
class Patience:
    """Stop when the best score has not risen for some steps."""

    step: int = 8
    budget: int = 512
    steps: int = 3

    @property
    def signature(self) -> str:
        return f"patience|k:{self.step}|steps:{self.steps}|n:{self.budget}"

    def open(self) -> Waiting:
        return Waiting(self)


class Waiting:
    """The rule at work on one segment."""

    def __init__(self, rule: Patience) -> None:
        self._rule, self._best, self._waited = rule, float("-inf"), 0

    def observe(self, snapshot: Snapshot) -> StopReason | None:
        self._waited = 0 if snapshot.score > self._best else self._waited + 1
        self._best = max(self._best, snapshot.score)
        if self._waited >= self._rule.steps:
            return StopReason.STABLE
        return StopReason.BUDGET if snapshot.size >= self._rule.budget else None

    def horizon(self, size: int) -> int:
        """The next size at which it could stop: everything up to it may be generated at once."""
        return min(self._rule.budget, size + self._rule.step * (self._rule.steps - self._waited))
