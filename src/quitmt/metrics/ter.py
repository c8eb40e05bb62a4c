"""TER as a utility for MBR: 1 − sacrebleu's sentence TER / 100, so that higher is better.

1 means the same text; 0 means as many edits as the reference has words, and more edits give negative scores. Each
ordered pair of texts costs a search for shifts in Python, some thousand pairs per second, so it suits pools of tens of
candidates, not hundreds.
"""

from __future__ import annotations

from quitmt.metrics.function import FunctionUtility


class Ter(FunctionUtility):
    """The utility ``mbr:ter``: TER's default, which lowercases all words."""

    def __init__(self) -> None:
        from sacrebleu.metrics.ter import TER

        self._ter = TER()
        super().__init__(self._utility)
        self.signature = "TER|case:lc"

    def _utility(self, hypothesis: str, reference: str) -> float:
        return 1 - float(self._ter.sentence_score(hypothesis, [reference]).score) / 100
