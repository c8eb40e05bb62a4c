"""What pyproject.toml declares, as the workflow and the containers use it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_workflow_runs_on_every_python_that_we_name() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]["check"]
    pythons = job["strategy"]["matrix"]["python"]
    assert f">={pythons[0]}" == PROJECT["requires-python"]
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)]
    assert pythons == named


@pytest.mark.parametrize("name", ["Containerfile", "Containerfile.cuda"])
def test_container_files_copy_what_there_is_and_ask_for_extras_that_exist(name: str) -> None:
    text = (ROOT / "containers" / name).read_text("utf-8")
    copied = [path for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for path in line.split()]
    assert "src" in copied and all((ROOT / path).exists() for path in copied)
    extras = [extra for found in re.findall(r"\[([a-z0-9,]+)\]", text) for extra in found.split(",")]
    assert extras and {*extras} <= {*PROJECT["optional-dependencies"]}
