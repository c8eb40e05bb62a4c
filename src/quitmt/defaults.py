"""The defaults of a run, each written once. ``quitmt.plan.precedence`` says what replaces them."""

from __future__ import annotations

RERANKER = "mbr:chrf"
STEP, BUDGET = 8, 512
"""k and n: candidates per step, and the most candidates of a segment."""
WINDOW, ALPHA = 8, 1e-3
"""w and alpha of QUIT."""
AUTO_STEP, AUTO_BUDGET = 4, 256
"""k and n of the automatic rule with exact MBR. Anchored pools need few candidates, so the rule looks and gives up
sooner."""
RULES = {"rivals": "auto", "running best": "auto", "comparable": "quit", "incomparable": "fixed:64"}
"""The stopping rule by what the reranker's scores can tell (``quitmt.plan.choose.usual_rule``)."""
KEEP = 64
"""Candidates that a filter keeps for MBR."""
IN_FLIGHT, RECORDED_IN_FLIGHT = 16, 64
"""Segments at a time with a function of the user's and with recorded pools; each engine declares its own number."""
PAPER_TEMPERATURE = 1.2
"""The sampling temperature of the paper; each engine declares the temperature that is safe for it."""
LANGUAGES = ("en", "pt")
"""Source and target of the embedded model that comes with quitmt."""
