"""TER as a utility for MBR: 1 − sacrebleu's sentence TER / 100, so that higher is better.

1 is the same text; 0 is as many edits as the reference has words, and below 0 are more. Each ordered pair of texts
costs a search for shifts in Python, some thousand pairs a second: for pools of tens of candidates, not of hundreds.
"""

from __future__ import annotations

from quitmt.metrics.function import FunctionUtility


class Ter(FunctionUtility):
    """The utility ``mbr:ter``: words in lower case, as TER has them unless told otherwise."""

    def __init__(self) -> None:
        from sacrebleu.metrics.ter import TER

        self._ter = TER()
        super().__init__(self._utility)
        self.signature = "TER|case:lc"

    def _utility(self, hypothesis: str, reference: str) -> float:
        return 1 - float(self._ter.sentence_score(hypothesis, [reference]).score) / 100
