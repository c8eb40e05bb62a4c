"""The committed checkpoints where quitmt looks for them: in folders with their encoders, and in a cache of the hub."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

CHECKPOINTS = Path(__file__).parent / "checkpoints"
MODELS = ("regression", "regression-norm", "unified", "xcomet")
ENCODERS = ("encoder", "encoder-xl")


def make_folder(root: Path, name: str) -> Path:
    """A copy of a checkpoint that brings its encoder along."""
    folder = root / name
    shutil.copytree(CHECKPOINTS / name, folder)
    encoder = yaml.safe_load((folder / "hparams.yaml").read_text())["pretrained_model"]
    shutil.copytree(CHECKPOINTS / encoder, folder / encoder)
    return folder


def make_hub(root: Path) -> Path:
    """A cache as huggingface_hub has it, with the checkpoints as ``Unbabel/tiny-…`` and the encoders by their names."""
    for name in (*MODELS, *ENCODERS):
        add_to_hub(root, name if name in ENCODERS else f"Unbabel/tiny-{name}", CHECKPOINTS / name)
    return root


def add_to_hub(root: Path, model: str, folder: Path) -> None:
    repository = root / f"models--{model.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0123abcd")
    shutil.copytree(folder, repository / "snapshots" / "0123abcd")


def rewrite(folder: Path, **settings: Any) -> None:
    """Change settings of a checkpoint, in both places that have them; None takes one out."""
    import torch

    path, file = folder / "checkpoints" / "model.ckpt", folder / "hparams.yaml"
    saved, beside = torch.load(path, weights_only=True), yaml.safe_load(file.read_text())
    for found in (saved["hyper_parameters"], beside):
        found.update(settings)
        for name in [name for name, value in settings.items() if value is None]:
            del found[name]
    torch.save(saved, path)
    file.write_text(yaml.safe_dump(beside))
