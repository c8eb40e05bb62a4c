"""Models that several tests use, loaded once."""

from __future__ import annotations

from pathlib import Path

import pytest

from quitmt.bergamot.models import LoadedModel, load

from .marian_writer import write_folder


@pytest.fixture(scope="session")
def embedded() -> LoadedModel:
    return load("embedded:en-pt")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("tiny") / "model", quantized=True)


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> LoadedModel:
    return load(f"bergamot:{tiny_folder}")
