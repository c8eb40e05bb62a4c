"""The terms that a segment is worked on by: its rule, how it is paced, and what its outcome is signed with.

All segments of a run have the same. Those of a server's requests may differ, and still share the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from quitmt.engine.guarded import GuardedRule
from quitmt.engine.pace import Pace
from quitmt.protocols import RerankerTraits, StoppingRule


@dataclass(frozen=True, slots=True)
class Terms:
    rule: GuardedRule
    pace: Pace
    signature: str = ""
    ranked: bool = False
    """Whether the scores of all candidates are wanted, and not only that of the best one."""

    @classmethod
    def of(
        cls,
        rule: StoppingRule,
        reranker: RerankerTraits,
        *,
        signature: str = "",
        speculate: bool = False,
        anytime: bool = False,
        soon: bool = False,
        ranked: bool = False,
    ) -> Self:
        guarded = GuardedRule(rule)
        pace = Pace.of(guarded, reranker, speculate=speculate, anytime=anytime, soon=soon)
        return cls(guarded, pace, signature, ranked)
