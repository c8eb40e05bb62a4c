"""Devices and number formats of torch, and running out of memory. Imports torch only when called."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

from quitmt.errors import UsageError

DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Hardware:
    """Device, number format and batch size of a scoring model; None means the default."""

    device: str | None = None
    dtype: str | None = None
    """None means float32, so that half precision is the user's choice."""
    batch_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise UsageError(f"a batch must have 1 token or more, not {self.batch_tokens}")


def device(name: str | None) -> Any:
    """The named device, or the fastest available."""
    import torch

    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name is None:
        return torch.device(next(kind for kind, there in available.items() if there))
    try:
        found = torch.device(name)
    except RuntimeError:
        raise UsageError(f"unknown device {name!r}", hint=f"there is {', '.join(available)}") from None
    try:
        if not available.get(found.type, found.type != "meta"):
            raise RuntimeError
        torch.empty(1, device=found)  # works for any kind and number of device
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UsageError(f"there is no device {name} here", hint="omit device to use the fastest one") from None
    return found


def dtype(name: str) -> Any:
    import torch

    if name not in DTYPES:
        raise UsageError(f"unknown dtype {name!r}", hint=f"there is {', '.join(DTYPES)}")
    return getattr(torch, name)


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error reports exhausted memory. On MPS and CPUs that is a plain RuntimeError."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    messages = ("out of memory", "can't allocate memory")
    return isinstance(error, RuntimeError) and any(message in str(error) for message in messages)


def release_memory() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
