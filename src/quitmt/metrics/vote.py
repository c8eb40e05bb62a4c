"""Voting as a utility: 1 if two candidates give the same answer, else 0. MBR with it is self-consistency (Wang et al.
2022): the winner is the first candidate with the answer that most candidates give, and its score is their share.

A candidate without an answer agrees with no candidate, not even itself. Otherwise two copies of the same refusal would
beat every answer that was given once. So its score is 0, below the score of any answer, and it wins only if no
candidate has an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.metrics.final_answer import final_answer
from quitmt.metrics.function import signed
from quitmt.metrics.registry import Setup
from quitmt.names import attribute
from quitmt.protocols import Matrix, UtilityTraits
from quitmt.types import Segment

Ints = npt.NDArray[np.int64]
NO_ANSWER = -1
"""Stands for the missing answer."""


class VoteArena:
    __slots__ = ("answers", "numbers")

    def __init__(self) -> None:
        self.answers: Ints = np.empty(0, np.int64)
        """Each text's answer, by number."""
        self.numbers: dict[Hashable, int] = {}
        """Answer → number, in order of appearance."""


class Vote:
    """``answer(text)`` gives anything that can be hashed and compared, or None for no answer.
    ``final_answer`` is the default.

    >>> import quitmt
    >>> pool = ["It is 13.", "7 + 5 = 12", "", "", "7 plus 5 makes 12."]
    >>> outcome = quitmt.rerank_pool(pool, reranker=quitmt.mbr(Vote()))
    >>> outcome.translation, outcome.score
    ('7 + 5 = 12', 0.25)
    """

    traits = UtilityTraits(encodes_whole=True, votes=True)

    def __init__(self, answer: Callable[[str], Hashable | None] = final_answer, *, name: str | None = None) -> None:
        self._answer = answer
        named = "final" if answer is final_answer else signed(answer, name, "answer(text)", 1)
        self.signature = f"vote|answer:{named}"

    def open(self, segment: Segment) -> VoteArena:
        return VoteArena()

    def encode(self, batch: Sequence[tuple[VoteArena, Sequence[str]]]) -> None:
        # All answers before the first arena changes: the user's function may fail, or return something unhashable.
        found = [[self._checked(text) for text in texts] for _, texts in batch]
        for (arena, _), answers in zip(batch, found, strict=True):
            numbers = arena.numbers
            new = [NO_ANSWER if one is None else numbers.setdefault(one, len(numbers)) for one in answers]
            arena.answers = np.concatenate((arena.answers, np.array(new, np.int64)))

    def compare(self, arena: VoteArena, rows: range, columns: range) -> tuple[Matrix, Matrix]:
        found = self.block(arena, np.array(rows), columns)
        return found, found  # agreement is symmetric

    def block(self, arena: VoteArena, rows: Ints, columns: range) -> Matrix:
        return _agreement(arena.answers[rows][:, None], arena.answers[columns.start : columns.stop][None])

    def pairs(self, arena: VoteArena, rows: Ints, columns: Ints) -> Matrix:
        return _agreement(arena.answers[rows], arena.answers[columns])

    def _checked(self, text: str) -> Hashable | None:
        answer: Any = self._answer(text)
        if isinstance(answer, Coroutine):  # a coroutine equals only itself, so no candidates would agree
            answer.close()
            raise TypeError("the answer is a coroutine; functions for votes cannot be async")
        hash(answer)
        return answer  # type: ignore[no-any-return]


def _agreement(one: Ints, other: Ints) -> Matrix:
    return np.asarray((one == other) & (one != NO_ANSWER), np.float64)


def by_name(function: str, _: Setup) -> Vote:
    """The vote with an answer function by name (MODULE:NAME), or with ``final_answer``."""
    return Vote(attribute(function), name=function) if function else Vote()
