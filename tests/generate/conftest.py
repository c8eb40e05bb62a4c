"""Shared by the tests of generators: tiny models of every family, each made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.models.zoo import Zoo


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    from tests.models.zoo import Zoo

    return Zoo(tmp_path_factory.mktemp("zoo"))
