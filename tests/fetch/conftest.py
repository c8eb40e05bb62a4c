"""A server with small models, and a cache of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bergamot.marian_writer import write_folder
from tests.servers.models import ModelServer, serving


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("small") / "model", quantized=True)


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same architecture with other weights."""
    return write_folder(tmp_path_factory.mktemp("other") / "model")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with serving() as served:
        monkeypatch.setenv("QUITMT_MODELS_URL", served.url)
        yield served


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where models go."""
    monkeypatch.setenv("QUITMT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"
