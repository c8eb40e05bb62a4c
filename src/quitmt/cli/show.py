"""Outcomes for people to look at: the translation, what it cost, why it stopped, and how the best score moved."""

from __future__ import annotations

from collections.abc import Sequence

from quitmt.types import Outcome, StopReason

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 64

MEANINGS = {
    StopReason.STABLE: "the best score stopped moving",
    StopReason.DECIDED: "enough by the rule",
    StopReason.BUDGET: "all candidates used",
    StopReason.EXHAUSTED: "the recorded pool ended",
    StopReason.DEADLINE: "time was up",
}
"""Of stop reasons, in a few words; a failure has its own."""


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """One bar a value, from the lowest to the highest; longer sequences are thinned out evenly.

    >>> sparkline([0.1, 0.4, 0.8, 0.8])
    '▁▄██'
    """
    if len(values) > width:
        values = [values[round(i * (len(values) - 1) / (width - 1))] for i in range(width)]
    low, high = min(values, default=0.0), max(values, default=0.0)
    span = high - low
    return "".join(BARS[int((value - low) / span * (len(BARS) - 1) + 0.5) if span else -1] for value in values)


def describe(outcome: Outcome, budget: int) -> str:
    """A few lines about one outcome; ``budget`` is the run's, for one that says nothing of its own."""
    lines = [f"{outcome.id}. {outcome.source}".rstrip(), f"   → {outcome.translation}".rstrip()]
    if outcome.cost or outcome.error:
        reason = f"{outcome.stop.value}: {outcome.error or MEANINGS[outcome.stop]}"
        anchors = f" and {outcome.anchors} anchor{'s' * (outcome.anchors > 1)}" if outcome.anchors else ""
        chosen = f" · chose {outcome.origin}" if outcome.origin else ""
        lines.append(f"   {outcome.size} of {outcome.budget or budget} candidates{anchors}{chosen} · {reason}")
    if outcome.trajectory:
        lines.append(f"   {sparkline(outcome.trajectory)} {outcome.trajectory[0]:.4f} → {outcome.trajectory[-1]:.4f}")
    if outcome.warnings:
        lines.append(f"   warnings: {', '.join(outcome.warnings)}")
    return "\n".join(lines) + "\n"
