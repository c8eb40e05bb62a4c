"""``make test-hard``: the order of a seed, and the command that repeats a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests import hard


def order(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("HARD_SEED", str(seed))
    items: list[Any] = [SimpleNamespace(nodeid=f"{file}.py::test_{i}") for file in "abcdef" for i in range(6)]
    hard.pytest_collection_modifyitems(items)
    return [item.nodeid for item in items]


def test_a_seed_is_an_order_in_which_files_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    found = order(7, monkeypatch)
    assert order(7, monkeypatch) == found != order(8, monkeypatch)
    files = [name[0] for name in found]
    assert files == [file for file in dict.fromkeys(files) for _ in range(6)] != sorted(files)
    assert found[:6] != sorted(found[:6])


def test_a_run_that_fails_says_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hard.Run, "_pytest", lambda run, *_: setattr(run, "failed", run.seed == 4))
    words = ["--only", "signals+locale", "zone", "--runs", "2", "--seed", "3", "--", "tests/a.py", "-k", "b or c"]
    assert hard.main(words) == 1
    table = capfd.readouterr().out.partition("=== all runs\n")[2]
    assert [line[:40].split(",")[0] for line in table.splitlines() if line[0] != " "] == [
        "passed signals+locale", "FAILED zone", "passed signals+locale", "passed zone",
    ]  # fmt: skip
    again = "python -m tests.hard --only zone --runs 1 --seed 4 --parallel -- tests/a.py -k 'b or c'"
    assert f"to repeat it: {again}\n" in table
