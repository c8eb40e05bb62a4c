"""What the files of a sentence-embedding model say: its parts, as sentence-transformers publishes them.

``modules.json`` lists them: an encoder of transformers, pooling, and perhaps dense layers. A folder without it is a
plain encoder, whose tokens are averaged, as sentence-transformers has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quitmt.errors import ModelError
from quitmt.metrics.neural import hub

PURPOSE = "embedding"
MODULES = "modules.json"
LIMITS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""Names of the file with the longest length; the first for all kinds of networks but for those saved long ago."""
POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""How settings say what newer ones call by one word, in the order in which several are put side by side."""
SUPPORTED = ("cls", "max", "mean")
PARTS = ("Transformer", "Pooling", "Dense", "Normalize")


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """How a model makes a vector of a text."""

    encoder: str
    """The model itself, or the folder in it that has the encoder."""
    pooling: tuple[str, ...] = ("mean",)
    longest: int | None = None
    """Tokens of a text; None if it is not said."""
    lower: bool = False
    prompt: str = ""
    """Stands before each text."""
    after: tuple[tuple[str, str], ...] = ()
    """What comes after pooling: kinds of parts and their folders."""


def read(model: str) -> SentenceModel:
    if (found := _optional(model, MODULES)) is None:
        return SentenceModel(model)
    parts = [_part(model, part) for part in _parsed(found, model, list)]
    kinds = [kind for kind, _ in parts]
    for kind in kinds:
        if kind not in PARTS:
            raise ModelError(f"{model} has a part of the kind {kind}", hint=f"quitmt has {', '.join(PARTS)}")
    if kinds[:2] != ["Transformer", "Pooling"] or {"Transformer", "Pooling"} & {*kinds[2:]}:
        hint = "they must begin with Transformer and Pooling"
        raise ModelError(f"{model} has the parts {', '.join(kinds) or 'of nothing'}", hint=hint)
    encoder, within = _encoder(model, parts[0][1])
    path = f"{parts[1][1]}/config.json"
    pooling = _parsed(hub.file(model, path, purpose=PURPOSE), model, dict, path)
    prompt = _prompt(model)
    if prompt and not pooling.get("include_prompt", True):
        raise ModelError(f"{model} leaves its prompt out of pooling", hint="quitmt does not have that")
    limits = _settings(model, *(f"{within}{name}" for name in LIMITS))
    return SentenceModel(
        encoder,
        _pooling(model, pooling),
        limits.get("max_seq_length"),
        bool(limits.get("do_lower_case")),
        prompt,
        tuple(parts[2:]),
    )


def tokens_allowed(encoder: str) -> int | None:
    """What the tokenizer's settings say of the longest length, if they say anything."""
    allowed = _settings(encoder, "tokenizer_config.json").get("model_max_length")
    return int(allowed) if isinstance(allowed, int | float) and allowed < 1e9 else None  # a huge one means none


def settings_of(model: str, path: str) -> Mapping[str, Any]:
    """The settings in a file that must be there."""
    found: Mapping[str, Any] = _parsed(hub.file(model, path, purpose=PURPOSE), model, dict, path)
    return found


def _encoder(model: str, folder: str) -> tuple[str, str]:
    """The model with the encoder's own files, and what comes before their names; older models keep them in a folder."""
    if not folder:
        return model, ""
    if hub.is_folder(model):
        return str(Path(model).expanduser() / folder), f"{folder}/"
    hint = f"`hf download {model} --local-dir FOLDER`, and name that folder"
    raise ModelError(f"{model} has its encoder in {folder}, which works only from a folder of yours", hint=hint)


def _part(model: str, part: Any) -> tuple[str, str]:
    """The kind of a part, by the last word of its class, and its folder."""
    try:
        return str(part["type"]).rpartition(".")[2], str(part["path"])
    except (TypeError, LookupError):
        raise ModelError(f"{MODULES} of {model} cannot be read") from None


def _pooling(model: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    said = settings.get("pooling_mode")
    if said is None:
        said = [mode for name, mode in POOLINGS.items() if settings.get(name)] or ["mean"]
    modes = (said,) if isinstance(said, str) else tuple(said)
    for mode in modes:
        if mode not in SUPPORTED:
            raise ModelError(f"{model} pools by {mode!r}", hint=f"quitmt has {', '.join(SUPPORTED)}")
    return modes


def _prompt(model: str) -> str:
    settings = _settings(model, "config_sentence_transformers.json")
    name = settings.get("default_prompt_name")
    return "" if name is None else str((settings.get("prompts") or {}).get(name, ""))


def _settings(model: str, *names: str) -> dict[str, Any]:
    """The settings in the first of some files that is there; none if none is."""
    for name in names:
        if path := _optional(model, name):
            found: dict[str, Any] = _parsed(path, model, dict, name)
            return found
    return {}


def _optional(model: str, name: str) -> Path | None:
    """A file that a model may have. If the hub cannot be asked, a model whose list of parts is at hand was downloaded
    as a whole."""
    try:
        return hub.file(model, name, purpose=PURPOSE)
    except hub.Absent:
        return None
    except ModelError:
        if hub.has_file(model, MODULES):
            return None
        raise


def _parsed(path: Path, model: str, kind: type, name: str | None = None) -> Any:
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, kind):
        raise ModelError(f"{name or path.name} of {model} cannot be read")
    return found
