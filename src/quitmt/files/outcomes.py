"""Outcomes as JSON lines and back, and n-best lists as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from quitmt.files.outputs import one_line
from quitmt.types import Effort, Outcome, Ranked, Seconds, StopReason

BAR = "|||"


def format_outcome(outcome: Outcome) -> str:
    return json.dumps(to_fields(outcome), ensure_ascii=False)


def to_fields(outcome: Outcome) -> dict[str, Any]:
    """The fields in reading order. ``budget`` and the fields after ``signature`` are left out if they are empty."""
    fields: dict[str, Any] = {
        "id": outcome.id,
        "source": outcome.source,
        "translation": outcome.translation,
        "index": outcome.index,
        "score": outcome.score,
        "size": outcome.size,
        "budget": outcome.budget,
        "stop": outcome.stop.value,
        "trajectory": outcome.trajectory,
        "seconds": {
            "generate": round(outcome.seconds.generate, 6),
            "rerank": round(outcome.seconds.rerank, 6),
        },
        "signature": outcome.signature,
    }
    if outcome.budget is None:
        del fields["budget"]
    optional = {
        "anchors": outcome.anchors or None,
        "origin": outcome.origin or None,
        "copied": outcome.copied or None,
        "nbest": [nbest_fields(one) for one in outcome.nbest] or None,
        "warnings": outcome.warnings or None,
        "effort": None if outcome.effort is None else asdict(outcome.effort),
        "signals": outcome.signals or None,
        "tokens": outcome.tokens,
        "recipe": outcome.recipe,
        "error": outcome.error,
    }
    return fields | {name: value for name, value in optional.items() if value is not None}


def nbest_fields(one: Ranked) -> dict[str, Any]:
    """An entry of an n-best list; ``log_probability`` and ``origin`` are left out if they are empty."""
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


def nbest_lines(number: int, nbest: Iterable[Ranked]) -> Iterator[str]:
    """The n-best list of segment ``number`` (from 0) in the format of Moses and Marian, best first.

    >>> next(nbest_lines(4, [Ranked(2, "um ||| dois", 0.5, 3)]))
    '4 ||| um | | | dois ||| Score= 0.5 Count= 3 ||| 0.5'
    """
    for one in nbest:
        features = f"Score= {one.score!r} Count= {one.count}"
        if one.log_probability is not None:
            features += f" LogProbability= {one.log_probability!r}"
        text = one_line(one.text).replace(BAR, "| | |")
        yield f"{number} {BAR} {text} {BAR} {features} {BAR} {one.score!r}"
