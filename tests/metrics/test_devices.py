"""Devices: what is there, and one sentence for what is not."""

from __future__ import annotations

import weakref

import pytest

from quitmt.errors import UsageError
from quitmt.metrics import devices


def test_the_best_there_is() -> None:
    assert devices.device(None).type in ("cuda", "mps", "cpu")
    assert devices.device("cpu").type == "cpu"


@pytest.mark.parametrize("name", ["meta", "xpu", "cuda:99"])
def test_what_is_not_there(name: str) -> None:
    with pytest.raises(UsageError, match=f"there is no device {name} here"):
        devices.device(name)


def test_what_nobody_has_heard_of() -> None:
    with pytest.raises(UsageError, match="unknown device 'tpu9000'"):
        devices.device("tpu9000")
    with pytest.raises(UsageError, match="unknown dtype 'int3'"):
        devices.dtype("int3")


def test_released_memory_is_that_of_cycles_too() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.own = self

    gone = weakref.ref(Cycle())
    devices.release_memory()
    assert gone() is None


def test_a_batch_has_a_token() -> None:
    with pytest.raises(UsageError, match="a batch must have 1 token or more, not 0"):
        devices.Hardware(batch_tokens=0)
