"""COMET checkpoints as published: ``hparams.yaml`` and ``checkpoints/model.ckpt`` in a folder or on the hub.

Weights are loaded as tensors only, never as code, and mapped from the file rather than copied. As in the original, the
settings come from the weights' file; ``hparams.yaml`` gives the class and corrects the "sparsemax" setting.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from quitmt.errors import ModelError
from quitmt.metrics.neural import hub

log = logging.getLogger(__name__)

CLASSES = {
    "regression_metric": "comet",
    "unified_metric": "kiwi",
    "xcomet_metric": "xcomet",
}
"""Checkpoint classes → the metrics that use them."""
_SAMPLED_VALUES = 64
_DECISIVE = (
    "encoder_model", "pool", "layer", "sent_layer", "word_layer", "layer_norm", "layer_transformation", "activations",
    "final_activation", "hidden_sizes", "input_segments",
)  # fmt: skip
"""Settings that change scores; others concern training or file names."""


class Settings(dict[str, Any]):
    """The hyper-parameters of a checkpoint; reading a missing one raises ModelError."""

    def __init__(self, model: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._model = model

    def __missing__(self, name: str) -> Any:
        raise ModelError(f"{self._model} has no setting {name}")


@dataclass(frozen=True)
class Checkpoint:
    """One loaded checkpoint. ``settings`` are its hyper-parameters, ``weights`` its tensors by name."""

    model: str
    settings: Mapping[str, Any]
    weights: Mapping[str, Any]

    def part(self, prefix: str) -> dict[str, Any]:
        """The weights whose names have a prefix, without it."""
        return {name.removeprefix(prefix): tensor for name, tensor in self.weights.items() if name.startswith(prefix)}

    def fingerprint(self, encoder: str) -> str:
        """Covers everything that changes a score: weights, settings, and the encoder's files by their digest."""
        settings = {name: self.settings.get(name) for name in _DECISIVE}
        return fingerprint(self.weights, json.dumps([settings, encoder], default=str))

    @property
    def pretrained(self) -> str:
        """The model with the encoder's configuration and tokenizer, or a subfolder of the checkpoint's folder."""
        name = str(self.settings["pretrained_model"])
        beside = Path(self.model).expanduser() / name
        return str(beside) if hub.is_folder(self.model) and beside.is_dir() else name


def load(model: str, wanted: str) -> Checkpoint:
    """The checkpoint of a model that must be of class ``wanted``, one of CLASSES."""
    title = {"comet": "COMET", "kiwi": "CometKiwi", "xcomet": "xCOMET"}[CLASSES[wanted]]
    beside = _hparams(hub.file(model, "hparams.yaml", purpose=title), model)
    found = beside.get("class_identifier")
    if found != wanted:
        hint = f"it goes with {CLASSES[found]}:{model}" if found in CLASSES else f"quitmt has {', '.join(CLASSES)}"
        raise ModelError(f"{model} is a checkpoint of class {found}, and {title} needs {wanted}", hint=hint)
    saved = _weights(hub.file(model, "checkpoints/model.ckpt", purpose=title), model)
    settings = Settings(model, {**beside, **saved.get("hyper_parameters", {})})
    if beside.get("layer_transformation") == "sparsemax_patch":  # these were trained with a softmax
        settings["layer_transformation"] = "softmax"
    return Checkpoint(model, settings, saved["state_dict"])


def _hparams(path: Path, model: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, ValueError, ArithmeticError, RecursionError) as error:  # dates, numbers, nesting
        raise ModelError(f"hparams.yaml of {model} cannot be read: {str(error).splitlines()[0]}") from None
    if not isinstance(found, dict) or not isinstance(found.get("class_identifier", ""), str):
        raise ModelError(f"hparams.yaml of {model} holds no settings")
    return found


def _weights(path: Path, model: str) -> dict[str, Any]:
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        log.debug("loading the checkpoint failed", exc_info=error)
        size = f"{path.stat().st_size / 1e6:,.1f} MB"
        hint = f"it has {size} and may be cut off; delete it and download it again"
        raise ModelError(f"checkpoints/model.ckpt of {model} cannot be read", hint=hint) from None
    if not (isinstance(found, dict) and isinstance(found.get("state_dict"), dict)):
        raise ModelError(f"checkpoints/model.ckpt of {model} holds no weights")
    return found


def fingerprint(weights: Mapping[str, Any], said: str = "") -> str:
    """A digest of a sample of each weight, and of ``said``, which holds all other settings that matter."""
    digest = hashlib.blake2b(said.encode(), digest_size=4)
    for name, weight in sorted(weights.items()):
        flat = weight.detach().reshape(-1)
        sample = flat[:: max(1, flat.numel() // _SAMPLED_VALUES)].float().cpu().numpy()
        digest.update(f"{name}{tuple(weight.shape)}".encode() + sample.tobytes())
    return digest.hexdigest()
