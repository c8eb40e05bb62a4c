"""Examples in Python that readers see are run: in docstrings, in the README and in docs. (Commands: test_pages.py.)"""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import quitmt
from tests.documents import PAGES, ROOT

MODULES = [info.name for info in pkgutil.walk_packages(quitmt.__path__, "quitmt.") if "__main__" not in info.name]


def examples(module: str) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder().find(importlib.import_module(module)) if test.examples]


def run(test: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test)
    assert runner.failures == 0


@pytest.mark.parametrize("test", [test for module in MODULES for test in examples(module)], ids=lambda test: test.name)
def test_docstring(test: doctest.DocTest) -> None:
    run(test)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_on_a_page(page: Path) -> None:
    text = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert test.examples or "python" not in text
    run(test)


def test_the_reference_is_what_the_entries_say() -> None:
    from quitmt.cli.reference import page

    assert (ROOT / "docs" / "reference.md").read_text() == page(), "run make reference"


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
COMMANDS_OF_OTHERS = (
    "--include",
    "--local-dir",
    "hf download",
    "pip install",
    "sacrebleu",
    "quitmt ",
    "ct2-transformers-converter",
)


def test_messages_below_the_command_line_name_no_flags() -> None:
    """Python users read them too: they have ``setting("field")`` instead. Docstrings may speak of flags."""
    found = []
    for path in sorted((ROOT / "src" / "quitmt").rglob("*.py")):
        if "cli" in path.parts:
            continue
        tree = ast.parse(path.read_text())
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in texts:
                flagged = FLAG.search(node.value) and not any(word in node.value for word in COMMANDS_OF_OTHERS)
                if flagged and not re.fullmatch(r"(-\w )?--[a-z-]+", node.value):  # a flag itself, where it is declared
                    found.append(f"{path.name}:{node.lineno}: {node.value}")
    assert found == []


def test_no_class_name_exists_twice() -> None:
    places: dict[str, list[str]] = {}
    for path in (ROOT / "src" / "quitmt").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
