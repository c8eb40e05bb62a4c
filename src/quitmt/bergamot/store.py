"""The store of fetched models: one folder per language pair in the user's cache. Nothing here uses the network.

    CACHE/models/en-de/      model.bin, vocab.spm (or srcvocab.spm and trgvocab.spm), quitmt.json

``quitmt.fetch`` fills it. Models that the user added manually are valid too; they have no quitmt.json, which only
records a model's origin.

While a model is replaced, the old one is moved to ``.en-de.old`` for a moment, and used from there until the new one is
in place.

Invariant: a fetched folder gets its final name only after everything in it was checked.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from quitmt.errors import UsageError, unknown

EMBEDDED = ("en-pt", "pt-en")
"""Pairs included in quitmt: small models, of the architecture that Mozilla calls tiny."""
VARIABLE = "QUITMT_CACHE"
"""The environment variable for another cache folder."""
MANIFEST = "quitmt.json"
_LANGUAGE = "[A-Za-z]{2,3}(?:_[A-Za-z0-9]{2,8})*"
_PAIR = re.compile(f"{_LANGUAGE}-{_LANGUAGE}")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A model's origin, according to the publisher's index."""

    architecture: str = ""
    status: str = ""
    hash: str = ""
    """SHA-256 of the model file."""
    origin: str = ""
    """The address that the model file came from."""
    metrics: dict[str, float] = field(default_factory=dict)


def root() -> Path:
    """The folder of all pairs; it may not exist."""
    if folder := os.environ.get(VARIABLE):
        return Path(folder).expanduser() / "models"
    from platformdirs import user_cache_path

    return user_cache_path("quitmt", appauthor=False) / "models"


def is_pair(text: str) -> bool:
    """Whether a text looks like a language pair: ``en-de``, ``en-zh_hant``. Only such texts become folder names."""
    return _PAIR.fullmatch(text) is not None


def place(pair: str) -> Path:
    """The final folder of a pair's model."""
    return root() / pair


def aside(pair: str) -> Path:
    """The folder of a pair's old model while it is replaced."""
    return root() / f".{pair}.old"


def folder(pair: str) -> Path:
    """The folder that a pair's model is in, or will be in."""
    final = place(pair)
    return aside(pair) if aside(pair).is_dir() and not final.is_dir() else final


def has(pair: str) -> bool:
    return is_pair(pair) and folder(pair).is_dir()


def pairs() -> list[str]:
    try:
        names = {path.name.removeprefix(".").removesuffix(".old") for path in root().iterdir() if path.is_dir()}
        return sorted(name for name in names if has(name))
    except OSError:
        return []


def manifest(pair: str) -> Manifest | None:
    """A model's manifest; None if the model was added manually."""
    try:
        found = json.loads((folder(pair) / MANIFEST).read_text("utf-8"))
        return Manifest(**found) if isinstance(found, dict) else None
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def require(name: str) -> None:
    """Raise, with instructions, if the model ``embedded:PAIR`` isn't installed."""
    kind, _, pair = name.partition(":")
    if kind == "embedded" and (pair in EMBEDDED or has(pair)):
        return
    if kind == "embedded" and is_pair(pair):
        raise UsageError(f"the model {name} is not on this machine", hint=f"quitmt models get {pair}")
    raise unknown("model", name, [*(f"embedded:{pair}" for pair in (*EMBEDDED, *pairs())), "bergamot:FOLDER"])
