"""Threads: as many as there are cores, or fewer."""

from __future__ import annotations

import pytest

from quitmt.cores import cores, threads


@pytest.mark.parametrize("told", ["1", " 1 ", "1,4"])
def test_fewer_threads(told: str) -> None:
    assert threads({"OMP_NUM_THREADS": told}) == 1


@pytest.mark.parametrize("told", ["", "0", "-2", "many", "100000"])
def test_no_more_than_there_are_cores(told: str) -> None:
    assert threads({"OMP_NUM_THREADS": told}) == threads({}) == cores() >= 1
