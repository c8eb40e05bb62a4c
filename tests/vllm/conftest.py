"""These tests need an environment with vLLM: `make test-vllm`. Elsewhere they are not collected."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

os.environ.setdefault("HF_HUB_OFFLINE", "1")
if importlib.util.find_spec("vllm") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    # Threads that do not spin while they wait, and go where the system puts them, as others want the cores.
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")

ENGINE = {"max_model_len": 512, "max_num_seqs": 64, "enforce_eager": True}


@pytest.fixture(scope="session")
def smollm2() -> str:
    return _built("smollm2")


@pytest.fixture(scope="session")
def smollm2_cut() -> str:
    """Its first three layers: nonsense, but several times as fast."""
    return _built("smollm2-3")


def _built(name: str) -> str:
    folder = Path(__file__).parents[2] / ".cache" / name
    assert (folder / "config.json").exists(), "make test-vllm builds it"
    return str(folder)
