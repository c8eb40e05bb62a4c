"""``quitmt lab`` as a user runs it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran
from tests.lab.studies import write_pools, write_tsv

from quitmt.lab import drawing, pipeline
from quitmt.lab.study import load

Quitmt = Callable[..., Ran]
PICTURE = b'<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt" viewBox="0 0 1 1"></svg>'


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "encoded", lambda figure, form: PICTURE)


def study_file(folder: Path, *, model: str = "pools", metrics: str = '"chrf++"') -> Path:
    """Three segments, with recorded pools or 24 candidates of the embedded model."""
    write_tsv(folder / "test.tsv", 3)
    pools = write_pools(folder / "pools.jsonl", 3, 16)
    source = f"pools = {json.dumps(str(pools))}\nbudget = 16" if model == "pools" else "budget = 24"
    path = folder / "study.toml"
    path.write_text(
        f"output = {json.dumps(str(folder / 'out'))}\n"
        f"[test_set]\ntsv = {json.dumps(str(folder / 'test.tsv'))}\n[model]\n{source}\n"
        '[rerank]\nrerankers = ["mbr:chrf"]\naccelerated = []\n'
        "[rules]\nk = 2\nwindows = [2]\nalphas = [1e-3]\nalpha_windows = [2]\nsteps = [2]\n"
        f"[evaluate]\nmetrics = [{metrics}]\nresamples = 20\n[live]\nwindows = [2]\nlimit = 2\n",
        "utf-8",
    )
    return path


def test_init_writes_a_study_that_loads(quitmt: Quitmt, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    ran = quitmt("lab", "init", path, "--tsv", 'my "news".tsv', "--limit", 9, "--output", "results")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"quitmt: wrote {path}; run it with: quitmt lab run {path}\n"
    study = load(str(path))
    assert (study.test_set.tsv, study.test_set.limit, study.output) == ('my "news".tsv', 9, "results")


def test_init_overwrites_nothing(quitmt: Quitmt, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text("mine")
    ran = quitmt("lab", "init", path)
    assert ran.code == 2 and ran.err == f"quitmt: {path} already exists (name another file)\n"
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["init", "x.toml", "--limit", "0"], "--limit must be 1 or more, not 0"),
        (["run", "nowhere.toml"], "cannot read nowhere.toml: No such file or directory (quitmt lab init writes one)"),
        (["walk"], "unknown command 'walk'"),
    ],
)
def test_bad_usage(
    words: list[str], message: str, quitmt: Quitmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = quitmt("lab", *words)
    assert ran.code == 2 and message in ran.err and ran.err.count("\n") == 1 and ran.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("action", "old", "new", "message"),
    [
        ("run", "[rules]", "[rule]", "study.toml: unknown field of a study 'rule' (did you mean 'rules'?)"),
        ("live", "pools.jsonl", "pools.jsonl", "a study of recorded pools cannot be run live"),
    ],
)
def test_bad_studies(action: str, old: str, new: str, message: str, quitmt: Quitmt, tmp_path: Path) -> None:
    path = study_file(tmp_path)
    path.write_text(path.read_text().replace(old, new))
    ran = quitmt("lab", action, path)
    assert ran.code == 2 and message in ran.err and ran.err.count("\n") == 1 and ran.out == ""
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("quiet", [[], ["--quiet"], ["-q"]])
def test_a_run_says_where_its_report_is(quiet: list[str], quitmt: Quitmt, tmp_path: Path) -> None:
    ran = quitmt("lab", "run", study_file(tmp_path), *quiet)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"quitmt: {tmp_path / 'out' / 'report.html'}\n"  # no bar without a terminal
    assert "Good morning." in (tmp_path / "out" / "report.html").read_text("utf-8")


@pytest.mark.usefixtures("quick")
def test_interrupted_and_continued(quitmt: Quitmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = study_file(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "_evaluated", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        ran = quitmt("lab", "run", path)
    assert ran.code == 130 and ran.err == "quitmt: interrupted\n"
    assert quitmt("lab", "run", path).code == 0


def test_a_folder_that_cannot_be_written(quitmt: Quitmt, tmp_path: Path) -> None:
    path = study_file(tmp_path)
    (tmp_path / "out").write_text("in the way")
    ran = quitmt("lab", "run", path)
    assert ran.code == 2 and ran.err.startswith("quitmt: cannot write") and ran.err.count("\n") == 1


@pytest.mark.slow
def test_live_on_a_terminal(tmp_path: Path) -> None:
    """Every stage has a bar with the time left, on a terminal and unless it is to be quiet."""
    path = study_file(tmp_path, model="embedded")
    command = [sys.executable, "-c", SLOWLY, "lab", "live", str(path)]
    code, shown = on_a_terminal(command)
    assert code == 0
    for stage in ("sampling", "scoring with mbr:chrf", "evaluating with chrf++", "mbr:chrf, live"):
        assert re.search(rf"{re.escape(stage)}: +\d+%.*\[\d\d:\d\d<\d\d:\d\d", shown), stage
    assert "translations/s" in shown and "segments/s" in shown
    assert "run live on 2 segments and used the same candidates" in (tmp_path / "out" / "results.md").read_text("utf-8")
    code, shown = on_a_terminal([*command, "-q"])
    assert code == 0 and "%" not in shown and "report.html" in shown


SLOWLY = """
import sys
from tqdm import tqdm
from quitmt.cli import lab, main
from quitmt.lab import drawing

drawing.encoded = lambda figure, form: b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'

class Eager(tqdm):  # draws at once and each time, however fast the stage is
    def __init__(self, *args, **more):
        super().__init__(*args, **{**more, "delay": 0, "mininterval": 0, "miniters": 1})

lab.tqdm = Eager
sys.exit(main.main(sys.argv[1:]))
"""


def on_a_terminal(command: list[str]) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    shown = b""
    with subprocess.Popen(command, stderr=theirs) as process:
        os.close(theirs)
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # how Linux says that the other end is closed
            pass
        os.close(ours)
    return process.returncode, shown.decode()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("action", ["run", "live"])
def test_functions_are_refused_and_not_imported_unless_they_are_allowed(
    action: str, quitmt: Quitmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evil_metrics.py").write_text("open('imported', 'w').close()\ndef score(translation, reference): return 1.0\n")
    path = study_file(tmp_path, metrics='"evil_metrics:score"')
    ran = quitmt("lab", action, path)
    assert ran.code == 2 and not Path("imported").exists()
    assert f"{path}, [evaluate], metrics: 'evil_metrics:score' names a function" in ran.err
    assert "--allow-functions" in ran.err
    assert quitmt("lab", "run", path, "--allow-functions", "-q").code == 0


def test_a_recipe_s_functions_are_refused_before_they_are_imported(
    quitmt: Quitmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evil_recipe_module.py").write_text("raise SystemExit('imported')\n")
    Path("news.tsv").write_text("a\tb\n")
    Path("my.toml").write_text(
        "[rerank]\nname = 'qe:evil_recipe_module:score'\n[stop]\nrule = 'evil_recipe_module:R'\n"
    )
    Path("study.toml").write_text("recipe = 'my.toml'\n[test_set]\ntsv = 'news.tsv'\n")
    ran = quitmt("lab", "run", "study.toml")
    assert ran.code == 2 and "names a function" in ran.err
