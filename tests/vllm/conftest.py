"""These tests need an environment with vLLM: `make test-vllm`. Elsewhere they are not collected."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

if importlib.util.find_spec("vllm") is None:
    collect_ignore_glob = ["test_*.py"]

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

ENGINE = {"max_model_len": 512, "max_num_seqs": 64, "enforce_eager": True}


@pytest.fixture(scope="session")
def smollm2() -> str:
    folder = Path(__file__).parents[2] / ".cache" / "smollm2"
    assert (folder / "config.json").exists(), "make test-vllm builds it"
    return str(folder)
