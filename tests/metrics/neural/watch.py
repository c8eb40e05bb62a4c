"""Watches the forward passes of networks: what is computed, and what happens on a device with little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

POSITIONS = 64
"""Tables of at most this size are relative positions or kinds of text, not vocabularies."""


@contextmanager
def watching(look: Callable[[nn.Module, Tensor], object]) -> Iterator[None]:
    """Have ``look`` called with each module and its input before the module computes anything."""

    def before(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs and isinstance(inputs[0], Tensor):
            look(module, inputs[0])

    handle = register_module_forward_pre_hook(before)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def batches() -> Iterator[list[tuple[int, ...]]]:
    """The shapes of all batches of tokens that networks read."""
    seen: list[tuple[int, ...]] = []
    with watching(lambda module, given: seen.append(tuple(given.shape)) if _reads(module) else None):
        yield seen


@contextmanager
def layers() -> Iterator[set[nn.Module]]:
    """The layers of self-attention that are computed."""
    seen: set[nn.Module] = set()
    with watching(lambda module, _: seen.add(module) if type(module).__name__.endswith("SelfAttention") else None):
        yield seen


@contextmanager
def out_of_memory(when: Callable[[nn.Module, Tensor], bool]) -> Iterator[None]:
    """Let modules run out of memory, as on a small GPU. Nothing is collected then: it takes long, and frees nothing."""

    def look(module: nn.Module, given: Tensor) -> None:
        if when(module, given):
            raise torch.OutOfMemoryError("CUDA out of memory")

    with patch("quitmt.metrics.devices.release_memory"), watching(look):
        yield


def tokens_above(most: int) -> Callable[[nn.Module, Tensor], bool]:
    """Whether a network is given a batch of more than ``most`` tokens."""
    return lambda module, given: _reads(module) and given.numel() > most


def rows_above(most: int, kind: type[nn.Module]) -> Callable[[nn.Module, Tensor], bool]:
    """Whether a module of a kind is given more than ``most`` rows."""
    return lambda module, given: isinstance(module, kind) and len(given) > most


def _reads(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding) and module.num_embeddings > POSITIONS
