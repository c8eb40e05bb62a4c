"""What a short command loads: nothing that makes it wait. Counted in modules, since seconds depend on the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quitmt.cli.main import COMMANDS

HEAVY = {"numba", "llvmlite", "torch", "scipy", "matplotlib", "pyarrow", "transformers", "sacrebleu", "aiohttp"}
SLOW = HEAVY | {"numpy", "asyncio", "tqdm"}

AFTER_COMMAND = """
import sys
sys.argv[0] = "quitmt"
from quitmt.cli.main import main
try:
    code = main()
except SystemExit as leaving:
    code = leaving.code
"""
LIST = "\nprint('loaded', *sys.modules)"


def loaded(code: str, *words: str) -> tuple[list[str], set[str]]:
    """The lines that were printed, and the names of the modules there are afterwards."""
    done = subprocess.run([sys.executable, "-c", code + LIST, *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    return lines, set(last.split()[1:])


def test_importing_loads_no_compiler() -> None:
    used = {"quitmt.api", "quitmt.rerank", "quitmt.bergamot.network", "quitmt.stop.loss"}
    _, modules = loaded(f"import sys, {', '.join(used)}")
    assert used < modules and "numpy" in modules
    assert not HEAVY & modules


def test_the_package_itself_loads_next_to_nothing() -> None:
    _, modules = loaded("import sys, quitmt")
    assert not {"numba", "torch", "numpy", "sentencepiece", "asyncio", "transformers"} & modules


def test_help_says_what_each_command_does_and_loads_none() -> None:
    lines, modules = loaded(AFTER_COMMAND, "--help")
    assert lines[0].startswith("usage: quitmt")
    text = " ".join(" ".join(lines).split())
    for command, meaning in COMMANDS.items():
        assert f"{command} {' '.join(meaning.split())}" in text
    assert not SLOW & modules
    assert not {f"quitmt.cli.{command}" for command in COMMANDS} & modules


def test_the_version_loads_no_command() -> None:
    lines, modules = loaded(AFTER_COMMAND, "--version")
    assert lines[0].startswith("quitmt ") and not SLOW & modules


def test_the_list_of_models_loads_no_model() -> None:
    lines, modules = loaded(AFTER_COMMAND, "models")
    assert any("embedded:en-pt" in line for line in lines)
    assert not HEAVY & modules


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself_and_loads_little(command: str) -> None:
    lines, modules = loaded(AFTER_COMMAND, command, "--help")
    assert lines[0].startswith(f"usage: quitmt {command} ")
    assert not HEAVY & modules
    others = {f"quitmt.cli.{other}" for other in COMMANDS if other != command}
    assert len(others & modules) <= 1  # compare prints as score does
