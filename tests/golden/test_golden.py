"""What an earlier version said and left behind: today's says the same, and reads it.

``make.py`` wrote the golden files. Every field that they have is compared, numbers exactly; new fields may be added.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import quitmt as package
from quitmt.calibrate import profile
from tests.comet.folders import MODELS, make_folder
from tests.conftest import Ran
from tests.golden import commands
from tests.golden.running import GOLDEN, PRESET, outcomes, pools, portable, prepare

Quitmt = Callable[..., Ran]
MADE_BY = "0.1.0"
"""The version that made the files; it is part of live results' names."""


ROUNDING = 2e-6
"""Of float32 kernels, which are compiled for the processor at hand. On one machine results are equal bit for bit."""


def load(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / name).read_text("utf-8"))  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_same(found: Any, golden: Any, where: str = "") -> None:
    """Equal, but for fields that are new, and for what another processor rounds otherwise."""
    if isinstance(golden, dict):
        assert found.keys() >= golden.keys(), where
        for name, value in golden.items():
            assert_same(found[name], value, f"{where}.{name}")
    elif isinstance(golden, list) and any(isinstance(one, dict) for one in golden):
        assert len(found) == len(golden), where
        for place, (one, other) in enumerate(zip(found, golden, strict=True)):
            assert_same(one, other, f"{where}[{place}]")
    elif isinstance(golden, float) or (isinstance(golden, list) and any(isinstance(one, float) for one in golden)):
        assert found == pytest.approx(golden, rel=ROUNDING, abs=ROUNDING), where
    else:
        assert found == golden, where


def assert_outcomes(found: dict[str, Any], golden: dict[str, Any]) -> None:
    assert found["signature"] == portable(golden["signature"])
    assert_same(found["outcomes"], golden["outcomes"])


@pytest.mark.parametrize("name", commands.RERANK)
def test_reranking(name: str) -> None:
    assert_outcomes(outcomes("rerank", commands.RERANK[name]), load("rerank.json")[name])


@pytest.mark.parametrize("name", commands.TRANSLATE)
def test_translating(name: str) -> None:
    found = outcomes("translate", commands.TRANSLATE[name], "--keep-pools", "kept.jsonl")
    assert_outcomes(found, load("translate.json")[name])
    if name in commands.KEPT:
        assert_same(pools(Path("kept.jsonl")), pools(GOLDEN / f"pools {name}.jsonl"))


@pytest.mark.skipif(find_spec("torch") is None, reason="scoring models need torch")
def test_signatures_of_scoring_models(folder: Path) -> None:
    for name in MODELS:
        make_folder(folder, name)
    found = {
        name: outcomes("rerank", f"{words} {commands.FEW}")["signature"] for name, words in commands.NEURAL.items()
    }
    assert found == load("neural.json")


@pytest.mark.parametrize("name", commands.JOURNALS)
def test_an_interrupted_run_is_continued_or_refused(name: str, quitmt: Quitmt, folder: Path) -> None:
    """One translation of the journal is made up: whoever silently starts over cannot know it."""
    words = commands.JOURNALS[name].replace(" - ", {"translate": " sources.en ", "rerank": " pools.jsonl "}[name])
    journal, left = folder / "out.txt.journal", (GOLDEN / f"{name}.journal").read_bytes()
    journal.write_bytes(left)
    ran = quitmt(*words.split(), *PRESET, "--resume")
    assert "Traceback" not in ran.err
    assert ran.code == 0 or package.__version__ != MADE_BY, ran.err
    if ran.code == 0:
        assert (folder / "out.txt").read_bytes() == (GOLDEN / f"{name}.txt").read_bytes()
        assert not journal.exists()
        if name == "translate":
            assert_same(pools(folder / "out.pools"), pools(GOLDEN / "pools mbr.jsonl"))
    else:
        assert ran.code == 2 and ran.err.startswith("quitmt: ") and ran.err.count("\n") == 1
        assert "out.txt.journal" in ran.err and "delete" in ran.err  # what to do
        assert journal.read_bytes() == left and not (folder / "out.txt").exists()


@pytest.mark.parametrize("name", commands.PROFILES)
def test_calibrating(name: str, quitmt: Quitmt) -> None:
    ran = quitmt("calibrate", "pools.jsonl", *PRESET, *commands.PROFILES[name].split(), "-q", "-o", "profile.json")
    assert ran.code == 0, ran.err
    found, golden = (asdict(profile.read(str(path))) for path in ("profile.json", GOLDEN / f"profile {name}.json"))
    del golden["recipe"]  # it had none
    assert_same(found, golden)


@pytest.mark.parametrize("name", ["rerank mbr", "rerank qe", "translate mbr"])
def test_a_profile_still_chooses_its_rule(name: str) -> None:
    command, kind = name.split()
    profile = f"profile {kind}.json"
    shutil.copy(GOLDEN / profile, "profile.json")
    golden = load("by profile.json")[name]
    words = "--profile profile.json" + (" --rerank qe:recorded:q" if kind == "qe" else "")
    assert_outcomes(outcomes(command, words), golden)


def cached(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are not compared, and drawing them takes most of the time."""

    def savefig(self: Figure, target: Any, **_: Any) -> None:
        target.write(b'<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt" viewBox="0 0 1 1"></svg>')

    monkeypatch.setattr(Figure, "savefig", savefig)


@pytest.mark.usefixtures("quick")
def test_a_study_s_cache_is_used(quitmt: Quitmt, folder: Path) -> None:
    shutil.copytree(GOLDEN / "study" / "cache", folder / "study" / "cache")
    before = cached(folder / "study" / "cache")
    ran = quitmt("lab", "run", "study.toml", "-q")
    assert ran.code == 0, ran.err
    assert cached(folder / "study" / "cache") == before
    assert_tables(folder / "study", GOLDEN / "study" / "run")
    if package.__version__ == MADE_BY:
        ran = quitmt("lab", "live", "study.toml", "-q")
        assert ran.code == 0, ran.err
        assert cached(folder / "study" / "cache") == before
        assert_tables(folder / "study", GOLDEN / "study" / "live")


def assert_tables(study: Path, golden: Path) -> None:
    """The seconds too: they are in the cache."""
    found = {path.name: path for path in study.rglob("*.csv")}
    tables = sorted(golden.glob("*.csv"))
    assert len(tables) >= 5
    for path in tables:
        # Defaults of the rules at the time are given by their names now.
        own = found[path.name].read_text("utf-8").replace(",new=0.1,scale=1", "").replace(",top=1,looks=2", "")
        golden = path.read_text("utf-8")
        assert_same(*(list(csv.DictReader(text.splitlines())) for text in (own, golden)), path.name)
