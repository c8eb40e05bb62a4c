"""Files are data: a recipe or a profile runs code of others only where that is allowed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quitmt
from quitmt.calibrate import profile as profiles
from quitmt.errors import InputError, UsageError
from quitmt.plan import Recipe, files
from tests.conftest import Ran

Quitmt = Callable[..., Ran]
CODE = """
from pathlib import Path

from quitmt.stop.fixed import Fixed

Path("imported").touch()

def rule():
    return Fixed(4, 4)

def score(source, candidate):
    return float(len(candidate))
"""


@pytest.fixture(autouse=True)
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that says when it is imported; what another test imported is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "evil_code", raising=False)
    Path("evil_code.py").write_text(CODE)


def profile(rule: str) -> str:
    """As ``quitmt calibrate`` writes one for ``qe:likelihood``, but for its rule."""
    fields: dict[str, Any] = {
        "profile": profiles.VERSION, "rule": rule, "step": 4, "budget": 8, "generator": "", "reranker": "own_length",
        "source_language": None, "target_language": None, "spread": 1.0, "curve": [],
        "guarantee": {"max_loss": 0.1, "risk": 0.1, "confidence": None, "segments": 10},
    }  # fmt: skip
    Path("profile.json").write_text(json.dumps(fields))
    return "profile.json"


@pytest.mark.parametrize(
    ("section", "field", "spec"),
    [
        ("model", "name", "evil_code:make"),
        ("rerank", "name", "qe:evil_code:score"),
        ("rerank", "name", "mbr:vote:evil_code:answer"),
        ("rerank", "filter", "qe:0.5*likelihood+0.5*evil_code:score"),
        ("stop", "rule", "os:abort"),
    ],
)
def test_a_recipe_file_with_a_function_is_refused_by_its_line(section: str, field: str, spec: str) -> None:
    Path("my.toml").write_text(f'[{section}]\n{field} = "{spec}"\n')
    with pytest.raises(UsageError, match=r"my.toml, line 2: .* names a function, and files may not run code"):
        files.load("my.toml")
    allowed = files.load("my.toml", allow_functions=True)
    assert list(files.functions_in(allowed)) == [(f"{section}.{field}", spec)] and allowed.run.allow_functions
    assert not Path("imported").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"model.name": "openai:org/model:free"},
        {"rerank.name": "qe:0.7*kiwi+0.3*likelihood", "rerank.filter": "qe:recorded:q"},
        {"rerank.name": "mbr:comet:org/model", "stop.rule": "loss:most=0.0005"},
        {"rerank.name": "mbr:rank:chrf+vote", "stop.rule": "fixed:64"},
        {"rerank.name": "mbr:1*chrf+"},  # no name at all: whoever builds it says so
    ],
)
def test_names_of_ours_are_no_functions(change: dict[str, str]) -> None:
    assert list(files.functions_in(Recipe().changed(change))) == []


def test_a_file_cannot_allow_itself_to_run_code() -> None:
    Path("my.toml").write_text("[run]\nallow_functions = true\n")
    with pytest.raises(InputError, match="a file cannot allow itself to run code"):
        files.load("my.toml", allow_functions=True)
    assert "allow_functions" not in files.to_toml(Recipe())


@pytest.mark.parametrize("rule", ["evil_code:rule", "os:abort"])
def test_a_profile_with_a_function_is_refused(rule: str) -> None:
    with pytest.raises(UsageError, match=f"profile.json, rule: '{rule}' names a function"):
        profiles.read(profile(rule))
    assert profiles.read("profile.json", allow_functions=True).rule == rule
    assert not Path("imported").exists()


def test_rules_of_a_profile_s_curve_count_as_well() -> None:
    found = json.loads(Path(profile("fixed:4")).read_text())
    found["curve"] = [{"rule": "os:abort", "mean_size": 1.0, "mean_loss": 0.0, "exceeding": 0.0, "proven": True}]
    Path("profile.json").write_text(json.dumps(found))
    with pytest.raises(UsageError, match="names a function"):
        profiles.read("profile.json")


def test_a_profile_runs_code_only_where_python_allows_it() -> None:
    settings: dict[str, Any] = {"reranker": "qe:likelihood", "profile": profile("evil_code:rule")}
    with pytest.raises(UsageError, match=r"names a function.*allow_functions"):
        quitmt.Translator("embedded:en-pt", **settings)
    assert not Path("imported").exists()


def test_what_a_user_types_is_allowed_and_what_a_file_says_is_not(quitmt: Quitmt) -> None:
    Path("pools").write_text(json.dumps({"id": "1", "source": "x", "candidates": ["a", "abc", "ab", "a", "b"]}) + "\n")
    Path("my.toml").write_text('[rerank]\nname = "qe:evil_code:score"\n[stop]\nrule = "evil_code:rule"\n')
    ran = quitmt("rerank", "pools", "--recipe", "my.toml")
    assert ran.code == 2 and "my.toml, line 2" in ran.err and "--allow-functions" in ran.err
    assert not Path("imported").exists()
    assert quitmt("rerank", "pools", "--recipe", "my.toml", "--allow-functions").out == "abc\n"
    assert quitmt("rerank", "pools", "--rerank", "qe:evil_code:score", "--stop", "evil_code:rule").out == "abc\n"


def test_a_server_s_recipe_is_a_file_too() -> None:
    service = pytest.importorskip("quitmt.serve.service")
    Path("my.toml").write_text('[stop]\nrule = "evil_code:rule"\n')
    with pytest.raises(UsageError, match="names a function"):
        service.load(["my.toml"])
    assert not Path("imported").exists()
