"""Every regular expression of the package takes time in proportion to its text, whatever that is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.backtracking import superlinear

SOURCES = Path(__file__).parents[1] / "src"
ALLOWED = {
    ("quitmt/batch/storage.py", "glob_translate(path)"): "made from the user's own pattern, for names of files",
    ("quitmt/serve/spans.py", r"'^\\W+|\\W+\\Z'"): "of texts with a fixed limit",
    ("quitmt/serve/spans.py", "pattern"): "a text with every character escaped",
}
"""By file and expression: those that may be slow, and why that does no harm."""
METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
CALLS = {f"re.{name}" for name in ("compile", *METHODS)}


@dataclass(frozen=True)
class Expression:
    file: str
    line: int
    written: str
    pattern: str | bytes
    flags: int
    method: str
    """The one that costs most of those it is used with."""


def expressions(path: Path) -> Iterator[Expression]:
    tree = ast.parse(path.read_text("utf-8"))
    names: dict[str, Any] = {"re": re}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names.setdefault(node.targets[0].id, _value(node.value, names))
    named = {id(node.value): node.targets[0].id for node in ast.walk(tree) if _is_named(node)}  # type: ignore[attr-defined]
    file = path.relative_to(SOURCES).as_posix()
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS):
            continue
        written, found = ast.unparse(node.args[0]), _value(node.args[0], names)
        if (file, written) in ALLOWED:
            continue
        assert isinstance(found, str | bytes), f"{file}, line {node.lineno}: cannot tell what {written} is"
        method = node.func.attr  # type: ignore[attr-defined]
        flags = [one.value for one in node.keywords if one.arg == "flags"]
        if method == "compile":
            flags += node.args[1:]
            method = _costliest(tree, named.get(id(node)))
        yield Expression(file, node.lineno, written, found, int(_value(flags[0], names)) if flags else 0, method)


def _is_named(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)


def _value(node: ast.AST, names: dict[str, Any]) -> Any:
    """What an expression of constants gives; None if it has anything else in it."""
    try:
        return eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}, names)  # type: ignore[arg-type]
    except Exception:
        return None


def _costliest(tree: ast.Module, name: str | None) -> str:
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    } & set(METHODS)
    if not used or used - {"match", "fullmatch"}:
        return "search"
    return "fullmatch" if "fullmatch" in used else "match"


EXPRESSIONS = [one for path in sorted(SOURCES.rglob("*.py")) for one in expressions(path)]


@pytest.mark.parametrize("one", EXPRESSIONS, ids=lambda one: f"{one.file}:{one.line}")
def test_no_text_makes_an_expression_slow(one: Expression) -> None:
    word = superlinear(one.pattern, one.flags, method=one.method)
    assert word is None, f"{one.file}, line {one.line}: {one.method} of {one.written} is slow on many {word}"


@pytest.mark.parametrize(
    ("pattern", "method", "slow"),
    [
        (r"\n\s*\n\s*note\b.*", "search", True),  # what chat answers were cleaned with
        (r"<think>.*?</think>", "search", True),
        (r"<think>.*?</think>", "match", False),
        (r"\s+$", "search", True),
        (r"\s+$", "match", False),
        (r"\w+", "finditer", False),
        (r"\w+$", "fullmatch", False),
        (r"(a*)*b", "match", True),
        (r"(a|a)*b", "match", True),
        (r"(?:a+)+b", "match", True),
        (r"(?:a+b)+c", "match", False),
        (r"a*a*b", "match", True),
        (r"a*+a*b", "match", False),
        (r"a*a{0,99}b", "match", False),
        (r"a(?:.*c)?", "finditer", True),  # each match is short, and each looks at the whole rest
        (r"[.?]++\s", "search", True),
        (r"(?<![.?])[.?]++\s", "search", False),
        (r"\b\w+\s", "search", False),
        (r"(?<=a)a+b", "search", True),
        (r"x(?=.*y)", "finditer", True),
        (r"^.*y", "search", False),
        (r"(a+)\1*b", "match", True),
    ],
)
def test_the_scanner_tells_slow_expressions_from_others(pattern: str, method: str, slow: bool) -> None:
    assert (superlinear(pattern, method=method) is not None) is slow
