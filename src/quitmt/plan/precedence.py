"""Presets, and what a stronger source replaces in a weaker one: default < preset < file < flags or keywords.

A value replaces the same field of a weaker source. It also removes fields there that it contradicts: a target is
another answer to the question which rule to stop by, so it removes the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quitmt.defaults import ALPHA, BUDGET, PAPER_TEMPERATURE, STEP, WINDOW
from quitmt.errors import unknown

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "paper": {
        "model.temperature": PAPER_TEMPERATURE,
        "model.anchors": "none",
        "rerank.support": "all",
        "stop.rule": "quit",
        "stop.k": STEP,
        "stop.n": BUDGET,
        "stop.w": WINDOW,
        "stop.alpha": ALPHA,
    },
}
MEANINGS = {
    "default": "the best that we know: anchors, safe sampling, and a rule that stops by the loss it expects",
    "paper": "QUIT as published: samples at temperature 1.2 that judge each other, and no anchors",
}
_QUIT = ("stop.w", "stop.alpha")
REMOVES: Mapping[str, tuple[str, ...]] = {
    "stop.rule": ("stop.max_loss", "stop.max_cost", "stop.profile", *_QUIT),
    "stop.max_loss": ("stop.rule", "stop.max_cost", *_QUIT),
    "stop.max_cost": ("stop.rule", "stop.max_loss", *_QUIT),
    "stop.profile": ("stop.rule", *_QUIT),
    "model.source_language": ("model.name", "model.target_language"),
    "model.target_language": ("model.name", "model.source_language"),
}
"""The fields of weaker sources that a field removes. Languages remove only an embedded model, which has a pair."""
REMOVES_OF_PRESETS = {"stop.rule": ("stop.k", "stop.n"), "stop.profile": ("stop.k", "stop.n")}
"""Also removed, but only from presets: a preset's k and n belong to its rule, those of a file are the user's."""


def preset(name: str) -> Mapping[str, Any]:
    """The fields that a preset sets, by their full names."""
    if name not in PRESETS:
        error = unknown("preset", name, PRESETS)
        error.args = (f"preset: {error.args[0]}",)
        raise error
    return PRESETS[name]


def removed(said: Iterable[str], weaker: Mapping[str, Any], *, is_preset: bool = False, rule: Any = None) -> set[str]:
    """The fields of a ``weaker`` source (values by full name) that these fields remove; ``rule`` is the new rule."""
    fields = set(said)
    found = {one for name in fields for one in REMOVES.get(name, ())}
    if is_preset:
        found |= {one for name in fields for one in REMOVES_OF_PRESETS.get(name, ())}
    if rule == "auto":
        found -= {"stop.max_loss", "stop.max_cost", "stop.profile"}
    if not str(weaker.get("model.name") or "").startswith("embedded:"):
        found -= {"model.name", "model.source_language", "model.target_language"}
    return (found & weaker.keys()) - fields
