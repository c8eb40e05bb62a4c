"""Examples that readers see are run: those in docstrings, and the Python and shell ones of the README and docs."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import quitmt

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_a_page(page: Path) -> None:
    text = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert test.examples or "python" not in text
    run(test)


def test_every_option_of_the_readme_exists(capsys: pytest.CaptureFixture[str]) -> None:
    from quitmt.cli.main import main

    known = ""
    for command in (
        ["translate"],
        ["rerank"],
        ["recipe"],
        ["calibrate"],
        ["score"],
        ["compare"],
        ["lab", "init"],
        ["lab", "run"],
    ):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        known += capsys.readouterr().out
    shell = "\n".join(re.findall(r"```(?:sh|console)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL))
    used = {word for line in shell.splitlines() if "quitmt " in line for word in re.findall(r"(?<!\S)--[a-z-]+", line)}
    assert used and {option for option in used if option not in known} == set()


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
