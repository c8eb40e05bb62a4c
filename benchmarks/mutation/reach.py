"""Which tests reach which statements: a run with modules that count their statements.

numba does not compile such counters. So a kernel is taken as reached wherever a statement mentions its name, or the
name of a kernel that mentions it.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import json
import sys
import time
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.mutation.changes import Mutant, core

TESTS = [f"tests/{name}" for name in ("engine", "stop", "rerank", "contract", "files", "calibrate", "loops",
                                      "metrics/test_chrf.py")]  # fmt: skip
WITHOUT = "not Neural and not comet and not Embedded"
"""Tests with torch or with the embedded models take long to begin, and the core has others."""


class Loader(importlib.machinery.SourceFileLoader):
    code: types.CodeType

    def get_code(self, fullname: str) -> types.CodeType:
        return self.code


class Finder:
    """Finds changed modules, given by the paths of their files."""

    def __init__(self, code: dict[str, types.CodeType]) -> None:
        self.code = code

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name.startswith("quitmt.") else None
        if spec is None or spec.origin not in self.code:
            return None
        spec.loader = Loader(name, spec.origin)
        spec.loader.code = self.code[spec.origin]
        return spec


def is_kernel(node: ast.AST) -> bool:
    made = [one.func if isinstance(one, ast.Call) else one for one in getattr(node, "decorator_list", ())]
    return any(isinstance(one, ast.Name) and one.id in ("kernel", "intrinsic") for one in made)


def mentioned(node: ast.AST) -> set[str]:
    return {getattr(one, "id", None) or getattr(one, "attr", "") for one in ast.walk(node)}


class Statements:
    """The statements in functions of the core, by number, and the names of what numba compiles or importing runs."""

    def __init__(self, src: Path) -> None:
        self.count = 0
        self.lines: dict[str, list[tuple[int, int, int]]] = defaultdict(list)  # first line, last line, number
        self.mentions: dict[str, set[int]] = defaultdict(set)
        self.kernels: dict[str, set[str]] = {}  # a kernel, and the names that it mentions
        self.tops: dict[str, list[ast.stmt]] = {}
        self.trees = {str(src / "quitmt" / file): self._counted(src, file) for file in core(src)}

    def _counted(self, src: Path, file: str) -> ast.Module:
        tree = ast.parse((src / "quitmt" / file).read_text("utf-8"))
        self.tops[file] = tree.body.copy()
        self._visit(tree, file, False)
        return ast.fix_missing_locations(tree)

    def _visit(self, node: ast.AST, file: str, inside: bool) -> None:
        if is_kernel(node):
            self.kernels[node.name] = mentioned(node)  # type: ignore[attr-defined]
            return
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            block = getattr(node, name, [])
            for one in list(block) if isinstance(block, list) else []:
                text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
                if inside and isinstance(one, ast.stmt) and not text:
                    self._count(one, block, file)
                self._visit(one, file, inside)

    def _count(self, statement: ast.stmt, block: list[ast.stmt], file: str) -> None:
        self.lines[file].append((statement.lineno, statement.end_lineno or 0, self.count))
        for name in mentioned(statement):
            self.mentions[name].add(self.count)
        hit = ast.parse(f"__hit__({self.count})").body[0]
        block.insert(block.index(statement), hit)
        self.count += 1

    def at(self, mutant: Mutant) -> tuple[set[int], bool]:
        """A mutant's statement; if it is in none, those that mention its kernel, class or constant, or belong to it.
        And whether kernels must be compiled again for it."""
        around = [one for one in self.lines[mutant.file] if one[0] <= mutant.line and mutant.end_line <= one[1]]
        if around:
            return {max(around)[2]}, False
        top = next(one for one in self.tops[mutant.file] if one.lineno <= mutant.line <= (one.end_lineno or 0))
        targets = getattr(top, "targets", [getattr(top, "target", None)])
        names = {getattr(one, "name", None) or getattr(one, "id", "") for one in [top, *targets]} - {""}
        while more := {name for name, used in self.kernels.items() if used & names} - names:
            names |= more
        inside = {one[2] for one in self.lines[mutant.file] if top.lineno <= one[0] <= (top.end_lineno or 0)}
        found = inside.union(*(self.mentions.get(name, set()) for name in names))
        return found or {one[2] for one in self.lines[mutant.file]}, bool(names & self.kernels.keys())


class Reached:
    """A pytest plugin: the statements that each test reaches, and its CPU seconds."""

    def __init__(self) -> None:
        self.hits: set[int] = set()
        self.tests: dict[str, tuple[float, list[int]]] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.hits.clear()
        begun = time.process_time()
        yield
        self.tests[item.nodeid] = round(time.process_time() - begun, 4), sorted(self.hits)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


def run_pytest(plugin: object, files: Iterable[str] = TESTS) -> None:
    words = ["-q", "-s", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-m", "not slow", "-k", WITHOUT]
    words += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported already
    pytest.main([*words, *files], plugins=[plugin])


def find_reached(statements: Statements, out: Path) -> None:
    plugin = Reached()
    code = {path: compile(tree, path, "exec", dont_inherit=True) for path, tree in statements.trees.items()}
    sys.meta_path.insert(0, Finder(code))
    builtins.__hit__ = plugin.hits.add  # type: ignore[attr-defined]
    run_pytest(plugin)
    fit = {name: found for name, found in plugin.tests.items() if name not in plugin.failed}
    out.write_text(json.dumps({"failed": sorted(plugin.failed), "tests": fit}), "utf-8")


def warming(statements: Statements, tests: dict[str, Any]) -> list[str]:
    """Cheap tests that together use every kernel."""
    missing = set[int]().union(*(statements.mentions.get(name, set()) for name in statements.kernels))
    found = []
    for name, (seconds, hits) in sorted(tests.items(), key=lambda test: test[1][0]):
        if seconds < 1 and not missing.isdisjoint(hits):
            missing -= set(hits)
            found.append(name)
    return found
