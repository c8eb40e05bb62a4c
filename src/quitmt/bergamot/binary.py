"""Reads Marian's binary model files.

Layout, all little-endian: u64 version, u64 count, then ``count`` headers of four u64 (length of the name, type, length
of the shape, length of the data), the names with a closing NUL, the shapes as int32, u64 padding with that many bytes,
and the data.

Invariants: nothing outside the file is read; damaged files raise ``ModelError``; each tensor has the orientation of its
shape (the file stores int8 matrices other than embeddings transposed).
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from quitmt.errors import ModelError

VERSION = 1
CONFIG = "special:model.yml"
INT8, FLOAT16, FLOAT32, QUANTIZED = 0x101, 0x402, 0x404, 0x4101
PLAIN = {INT8: np.int8, FLOAT16: np.float16, FLOAT32: np.float32}
_HEADER = struct.Struct("<4Q")
LONGEST_CONFIG = 1 << 16
"""Maximum bytes; published models need about 2,000."""
_LONGEST_NAME, _MOST_DIMENSIONS = 1 << 8, 8


@dataclass(frozen=True, slots=True)
class Tensor:
    """Weights as stored; the true weights are ``values × scale``."""

    values: npt.NDArray[Any]
    scale: float = 1.0

    def floats(self) -> npt.NDArray[np.float32]:
        return np.asarray(self.values, np.float32) * np.float32(self.scale)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file's configuration and its weights by name."""

    path: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]


def read(path: Path) -> ModelFile:
    """The model file at ``path``."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read the model file {path}: {error.strerror}") from error
    tensors = _Cursor(path, content).tensors()
    if CONFIG not in tensors:
        raise ModelError(f"{path} has no {CONFIG}, which describes the architecture")
    return ModelFile(path, _config(path, tensors.pop(CONFIG)), tensors)


def _config(path: Path, tensor: Tensor) -> dict[str, Any]:
    content = tensor.values.tobytes().rstrip(b"\0")
    if len(content) > LONGEST_CONFIG:
        raise ModelError(f"{path} is damaged: its {CONFIG} is longer than {LONGEST_CONFIG:,} bytes")
    try:
        config = yaml.load(content.decode(), _Loader)
        json.dumps(config, allow_nan=False, default=str)  # refuses numbers that can't be printed
        return dict(config)
    except (yaml.YAMLError, RecursionError, ValueError, ArithmeticError, TypeError) as error:
        reason = str(error).splitlines()[0][:200]
        raise ModelError(f"{path} is damaged: its {CONFIG} cannot be read: {reason}") from None


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without aliases, which let a short text describe a huge value, and without tags, whose
    constructors may raise any exception."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor is not None or getattr(event, "tag", None) is not None:  # an alias has its anchor's name
            raise ValueError("it has anchors, aliases or tags")
        return super().compose_node(parent, index)


class _Cursor:
    """A position in the file that only moves forward, and never past the end."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.content, self.offset = path, content, 0

    def take(self, size: int) -> memoryview:
        if size > len(self.content) - self.offset:
            raise ModelError(
                f"{self.path} is cut short: {len(self.content)} bytes, at least {self.offset + size} expected",
                hint="download it again",
            )
        self.offset += size
        return memoryview(self.content)[self.offset - size : self.offset]

    def number(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def damaged(self, what: str) -> ModelError:
        return ModelError(f"{self.path} is damaged: {what}", hint="download it again")

    def tensors(self) -> dict[str, Tensor]:
        version = self.number()
        if version != VERSION:
            raise ModelError(f"{self.path} is not a Marian model of version {VERSION}: its first number is {version}")
        headers = list(_HEADER.iter_unpack(self.take(self.number() * _HEADER.size)))
        for name_length, _, dimensions, _ in headers:
            if not 0 < name_length <= _LONGEST_NAME or dimensions > _MOST_DIMENSIONS:
                raise self.damaged("a header is invalid")
        names = [self.name(length) for length, *_ in headers]
        shapes = [struct.unpack(f"<{dimensions}i", self.take(4 * dimensions)) for _, _, dimensions, _ in headers]
        self.take(self.number())
        return {
            name: self.tensor(name, kind, shape, self.take(size))
            for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True)
        }

    def name(self, length: int) -> str:
        name = bytes(self.take(length)).rstrip(b"\0").decode(errors="replace")
        if not name.isprintable() or "\ufffd" in name:  # names appear in messages
            raise self.damaged("a name is not text")
        return name

    def tensor(self, name: str, kind: int, shape: tuple[int, ...], data: memoryview) -> Tensor:
        if any(extent < 1 for extent in shape):
            raise self.damaged(f"the shape of {name} is invalid")
        count = math.prod(shape)
        if kind == QUANTIZED:
            return self.quantized(name, shape, data)
        if kind not in PLAIN:
            raise ModelError(
                f"{self.path}: {name} is stored as type {kind:#x}, which is not supported",
                hint="float32, float16 and machine-independent intgemm8 are",
            )
        if count * np.dtype(PLAIN[kind]).itemsize > len(data):
            raise self.damaged(f"the data of {name} is shorter than its shape says")
        return Tensor(np.frombuffer(data, PLAIN[kind], count).reshape(shape))

    def quantized(self, name: str, shape: tuple[int, ...], data: memoryview) -> Tensor:
        """int8 values, then one float32, by which the true weights were multiplied."""
        count = math.prod(shape)
        if count + 4 > len(data) or len(shape) != 2:
            raise self.damaged(f"the data of {name} is shorter than its shape says")
        multiplier = float(np.frombuffer(data, "<f4", 1, count)[0])
        if name.endswith("_QuantMultA"):  # only int8 activations need it; quitmt's are floats
            return Tensor(np.zeros(shape, np.int8))
        if not math.isfinite(multiplier) or multiplier <= 0:
            raise self.damaged(f"the multiplier of {name} is {multiplier}")
        values = np.frombuffer(data, np.int8, count)
        if "Wemb" in name:
            return Tensor(values.reshape(shape), 1 / multiplier)
        return Tensor(values.reshape(shape[::-1]).T, 1 / multiplier)
