"""Outcomes as lines of JSON, and back."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from quitmt.types import Effort, Outcome, Ranked, Seconds, StopReason


def format_outcome(outcome: Outcome) -> str:
    return json.dumps(to_fields(outcome), ensure_ascii=False)


def to_fields(outcome: Outcome) -> dict[str, Any]:
    """In the order people read them; ``budget``, ``anchors``, ``origin``, ``nbest``, ``warnings``, ``effort``,
    ``signals``, ``tokens``, ``recipe`` and ``error`` only where there are any."""
    fields: dict[str, Any] = {
        "id": outcome.id,
        "source": outcome.source,
        "translation": outcome.translation,
        "index": outcome.index,
        "score": outcome.score,
        "size": outcome.size,
        **({} if outcome.budget is None else {"budget": outcome.budget}),
        "stop": outcome.stop.value,
        "trajectory": outcome.trajectory,
        "seconds": {
            "generate": round(outcome.seconds.generate, 6),
            "rerank": round(outcome.seconds.rerank, 6),
        },
        "signature": outcome.signature,
    }
    if outcome.anchors:
        fields["anchors"] = outcome.anchors
    if outcome.origin:
        fields["origin"] = outcome.origin
    if outcome.nbest:
        fields["nbest"] = [nbest_fields(one) for one in outcome.nbest]
    if outcome.warnings:
        fields["warnings"] = outcome.warnings
    if outcome.effort is not None:
        fields["effort"] = asdict(outcome.effort)
    if outcome.signals:
        fields["signals"] = outcome.signals
    if outcome.tokens is not None:
        fields["tokens"] = outcome.tokens
    if outcome.recipe is not None:
        fields["recipe"] = outcome.recipe
    if outcome.error is not None:
        fields["error"] = outcome.error
    return fields


def nbest_fields(one: Ranked) -> dict[str, Any]:
    """An entry of an n-best list; ``log_probability`` and ``origin`` only where there are any."""
    fields: dict[str, Any] = {"index": one.index, "text": one.text, "score": one.score, "count": one.count}
    if one.log_probability is not None:
        fields["log_probability"] = one.log_probability
    if one.origin:
        fields["origin"] = one.origin
    return fields


def from_fields(fields: dict[str, Any]) -> Outcome:
    known = dict(fields)
    known["stop"] = StopReason(known["stop"])
    known["trajectory"] = tuple(known["trajectory"])
    known["seconds"] = Seconds(**known["seconds"])
    known["effort"] = Effort(**known["effort"]) if "effort" in known else None
    known["nbest"] = tuple(Ranked(**one) for one in known.get("nbest", ()))
    known["warnings"], known["signals"] = (tuple(known.get(name, ())) for name in ("warnings", "signals"))
    return Outcome(**known)
