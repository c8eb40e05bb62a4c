"""Batches by tokens: what they hold, and what happens when memory runs out."""

from __future__ import annotations

import pytest
import torch

from quitmt.errors import ModelError
from quitmt.metrics import devices
from quitmt.metrics.neural.batches import Batcher

CPU = torch.device("cpu")
LENGTHS = [3, 9, 1, 4, 4, 9, 2, 30, 7, 1]


@pytest.fixture(autouse=True)
def released(monkeypatch):
    """How often memory was released, which takes long with as many objects as tests have."""
    times = []
    monkeypatch.setattr(devices, "release_memory", lambda: times.append(1))
    return times


def run(batcher, lengths=LENGTHS, most=10**9, error=None):
    """All batches that were computed, checked for completeness and their results."""
    batches = []

    def compute(batch):
        if len(batch) * max(lengths[index] for index in batch) > most:
            raise error or torch.OutOfMemoryError("out of memory")
        batches.append(batch)
        return [index * 10 for index in batch]

    found = {}
    for batch, results in batcher.run(lengths, compute):
        found.update(zip(batch, results, strict=True))
    assert found == {index: index * 10 for index in range(len(lengths))}
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    return batches


@pytest.mark.parametrize("tokens", [1, 5, 12, 40, 1000])
def test_batches_fit_the_budget_padding_included(tokens):
    for batch in run(Batcher(CPU, tokens)):
        assert len(batch) == 1 or len(batch) * max(LENGTHS[index] for index in batch) <= tokens


def test_the_longest_come_first_and_equals_in_their_order():
    batches = run(Batcher(CPU, 18))
    assert batches == [[7], [1, 5], [8, 3], [4, 0, 6, 2], [9]]


def test_padding_is_counted():
    batcher = Batcher(CPU, 18)
    run(batcher)
    assert batcher.real_tokens == sum(LENGTHS)
    assert batcher.padding == pytest.approx(1 - 70 / (30 + 18 + 14 + 16 + 1))
    assert Batcher(CPU).padding == 0


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), RuntimeError("MPS backend out of memory"),
     RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")],
)  # fmt: skip
def test_a_lack_of_memory_halves_the_budget_for_good(error, released):
    batcher = Batcher(CPU, 1000)
    assert max(len(batch) for batch in run(batcher, [4] * 50, most=40, error=error)) <= 10
    assert batcher.tokens <= 40 and len(released) > 2
    again = run(batcher, [4] * 50, most=40)
    assert len(again) == -(-50 // (batcher.tokens // 4))  # nothing had to be tried twice


def test_one_that_does_not_fit_alone_is_an_error():
    with pytest.raises(
        ModelError, match=r"no memory for one text of 30 tokens \(take a smaller model, hardware.device='cpu'"
    ):
        run(Batcher(CPU, 1000), most=20)


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="something else"):
        run(Batcher(CPU, 1000), most=20, error=RuntimeError("something else"))


def test_progress_is_told_after_each_batch():
    told: list[int] = []
    list(Batcher(CPU, 18).run(LENGTHS, lambda batch: batch, told.append))
    assert told == [1, 2, 2, 4, 1]


def test_nothing_is_nothing():
    assert list(Batcher(CPU).run([], lambda batch: batch)) == []


@pytest.mark.parametrize(("kind", "tokens"), [("cpu", 4096), ("mps", 8192), ("cuda", 16384)])
def test_a_device_has_its_budget(kind, tokens):
    assert Batcher(torch.device(kind)).tokens == tokens
    assert Batcher(torch.device(kind), 7).tokens == 7
