"""What a visitor of the repository finds: the files that other programs read are what those programs expect."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def test_the_workflow_runs_what_we_run_on_every_python_that_we_name() -> None:
    job = read(".github/workflows/ci.yml")["jobs"]["check"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run", "make dist"]
    pythons = job["strategy"]["matrix"]["python"]
    assert f">={pythons[0]}" == PROJECT["requires-python"]
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)]
    assert pythons == named


@pytest.mark.parametrize("name", ["bug", "idea"])
def test_issue_forms(name: str) -> None:
    form = read(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert form["name"] and form["description"]
    identifiers = [part["id"] for part in form["body"]]
    assert len(set(identifiers)) == len(identifiers) > 0
    assert all(part["type"] == "textarea" and part["attributes"]["label"] for part in form["body"])


def test_the_citation_names_the_paper_and_its_authors() -> None:
    found = read("CITATION.cff")
    assert found["cff-version"] == "1.2.0" and found["title"] == PROJECT["name"]
    assert found["license"] == PROJECT["license"]
    paper = found["preferred-citation"]
    assert paper["title"].startswith("Quit While You're Ahead: QUIT for Efficient Candidate Generation")
    assert [one["family-names"] for one in paper["authors"]] == "Chen Lyu Kamigaito Funakoshi Okumura".split()


@pytest.mark.parametrize("name", ["Containerfile", "Containerfile.cuda"])
def test_container_files_copy_what_there_is_and_ask_for_extras_that_exist(name: str) -> None:
    text = (ROOT / "containers" / name).read_text("utf-8")
    copied = [path for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for path in line.split()]
    assert {"pyproject.toml", "README.md", "LICENSE", "src"} <= {*copied}
    assert all((ROOT / path).exists() for path in copied)
    extras = [extra for found in re.findall(r"\[([a-z0-9,]+)\]", text) for extra in found.split(",")]
    assert extras and {*extras} <= {*PROJECT["optional-dependencies"]}
    assert "What was tried:" in text
