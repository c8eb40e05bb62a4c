"""Shared by all tests: a pool maker, and runs of the command line in this process."""

from __future__ import annotations

import gc
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

import hypothesis
import llvmlite.binding
import pytest

from quitmt.cli.main import main

# Whatever started the tests may have had signals ignored or blocked, as shells do for what runs in the background, and
# every process that a test starts would inherit that. Python itself ignores two, and gives them back to its children.
for one in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
    if signal.getsignal(one) == signal.SIG_IGN:
        signal.signal(one, signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, [])

# Before torch is imported: with tiny models on busy cores, its threads would mostly spin and wait for each other.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
if llvmlite.binding.get_host_cpu_features().get("avx2"):
    # As quitmt.compiled does; here also where a library that a test imports has used numba before.
    os.environ |= {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""}

# How long an example takes says more about the machine than about the code. The same examples each time: a stroke of
# bad luck is for `make test-hard` to find, which draws others.
hypothesis.settings.register_profile("quitmt", deadline=None, derandomize=True)
hypothesis.settings.register_profile("any", deadline=None, database=None)
hypothesis.settings.load_profile("quitmt")


def pytest_collection_finish() -> None:
    """Spare the garbage collector what importing all tests and libraries has left: hundreds of thousands of objects
    that stay. Scoring models that run out of memory collect garbage, which would take a fifth of a second each time."""
    gc.collect()
    gc.freeze()


WORDS = "o a um gato cão casa rua velha nova viu comeu dormiu perto longe de da do muito pouco hoje".split()


@pytest.fixture
def make_pool() -> Callable[[int, int], list[str]]:
    """A pool of texts that resemble each other, with repeats, as samples of one source do."""

    def make(seed: int, size: int) -> list[str]:
        rng = random.Random(seed)
        base = rng.choices(WORDS, k=8)
        pool = []
        for _ in range(size):
            words = [rng.choice(WORDS) if rng.random() < 0.2 else word for word in base]
            pool.append(" ".join(words))
        return pool

    return make


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def quitmt(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run the command line: ``quitmt("rerank", path, "-k", 8)``."""

    def run(*words: object) -> Ran:
        capfd.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return run
