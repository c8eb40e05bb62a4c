"""Recipes by name: what stands where nothing else is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quitmt.errors import setting, unknown

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "paper": {
        "model.temperature": 1.2,
        "model.anchors": "none",
        "rerank.support": "all",
        "stop.rule": "quit",
        "stop.k": 8,
        "stop.n": 512,
        "stop.w": 8,
        "stop.alpha": 1e-3,
    },
}
MEANINGS = {
    "default": "the best that we know: anchors, safe sampling, and a rule that stops by the loss it expects",
    "paper": "QUIT as it was published: samples at temperature 1.2 that judge each other, and no anchors",
}


_INSTEAD = {
    "stop.rule": ("stop.k", "stop.n", "stop.w", "stop.alpha"),
    "stop.max_loss": ("stop.rule", "stop.w", "stop.alpha"),
    "stop.max_cost": ("stop.rule", "stop.w", "stop.alpha"),
    "stop.profile": ("stop.rule", "stop.k", "stop.n", "stop.w", "stop.alpha"),
}
"""Rules and wishes, and what they decide."""


def preset(name: str, given: Iterable[str] = ()) -> Mapping[str, Any]:
    """The fields that a preset sets, by their full names, without those that are ``given`` or decided by these."""
    if name not in PRESETS:
        error = unknown("preset", name, PRESETS)
        error.args = (f"{setting('preset')}: {error.args[0]}",)
        raise error
    taken = {field for one in given for field in (one, *_INSTEAD.get(one, ()))}
    return {field: value for field, value in PRESETS[name].items() if field not in taken}
