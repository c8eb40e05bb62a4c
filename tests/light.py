"""A pytest plug-in for `make check`: the tests that are quick and need no heavy library.

- Whatever imports a heavy library is skipped at that moment, so nobody needs to mark anything: a test module that
  imports torch as a whole, a test that comes to it by way of the code that it tests just there. What only asks whether
  a library is installed goes on, and so do the processes that a test starts.
- What takes long for another reason is marked ``slow``. A test that is not, and should be, is named at the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import pytest

HEAVY = {"torch", "transformers", "ctranslate2", "aiohttp", "vllm", "ray"}
LONG = 3.0
"""CPU seconds, those of child processes too."""

_long: list[tuple[float, str]] = []


class _Skip(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        pytest.skip(f"needs {spec.name}: make test", allow_module_level=True)

    def exec_module(self, module: ModuleType) -> None:
        raise AssertionError("no module was made")


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in HEAVY or PathFinder.find_spec(name, path) is None:
            return None
        return ModuleSpec(name, _Skip())


sys.meta_path.insert(0, _Finder())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("slow")])
    items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = sum(os.times()[:4])
    result = yield
    taken = sum(os.times()[:4]) - before
    if taken > LONG:
        _long.append((taken, item.nodeid))
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for taken, test in sorted(_long, reverse=True):
        terminalreporter.write_line(f"{taken:5.1f} CPU s: {test} (if that is so each time, mark it slow)")
