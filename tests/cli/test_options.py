"""The method's options: the same for translate and rerank, and refused where they would do nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import Ran

from quitmt.metrics import scorer
from quitmt.metrics.devices import Hardware
from quitmt.metrics.scorer import Example

Quitmt = Callable[..., Ran]
SMALL = ("-n", 24, "-k", 4, "-w", 3)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_metric_on_the_command_line.py").write_text(
        "def near(source, candidate):\n    return -abs(len(source) - len(candidate))\n"
    )
    (tmp_path / "in").write_text("Good morning.\nThe door is open.\n")
    return tmp_path / "in"


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Hardware]]:
    """Scoring models, all of which like long translations, and what they were loaded with."""
    found: list[tuple[str, Hardware]] = []

    class Fake:
        signature = "fake"

        def score(self, examples: Sequence[Example], progress: object = None) -> Any:
            return np.array([float(len(one.translation)) for one in examples])

    def load(spec: str, hardware: Hardware) -> Fake:
        found.append((spec, hardware))
        return Fake()

    monkeypatch.setattr(scorer, "load", load)
    return found


METHODS = [
    ("--filter", "qe:likelihood", "--keep", 5),
    ("--filter", "qe:own_metric_on_the_command_line:near"),
    ("--rerank", "qe:0.7*likelihood+0.01*own_metric_on_the_command_line:near"),
    ("--rerank", "qe:own_metric_on_the_command_line:near"),
]


@pytest.mark.parametrize("method", METHODS)
def test_translate_and_rerank_do_the_same(method: tuple[object, ...], quitmt: Quitmt, text: Path) -> None:
    live = quitmt("translate", text, *SMALL, *method, "--keep-pools", "pools", "--jsonl", "live", "-o", "/dev/null")
    replay = quitmt("rerank", "pools", *SMALL, *method, "--jsonl", "replay", "-o", "/dev/null")
    assert live.code == replay.code == 0
    kept = ("id", "translation", "index", "score", "size", "trajectory")
    found = [
        [{name: json.loads(line)[name] for name in kept} for line in Path(path).read_text().splitlines()]
        for path in ("live", "replay")
    ]
    assert found[0] == found[1] and len(found[0]) == 2


def test_the_signature_has_the_filter(quitmt: Quitmt, text: Path) -> None:
    ran = quitmt("translate", text, *SMALL, "--filter", "qe:likelihood", "--keep", 5, "--jsonl")
    signature = json.loads(ran.out.splitlines()[0])["signature"]
    assert "rerank:mbr:chrF2,c:6,filter:likelihood,embedded:pt-en" in signature and ",m:5,s:others|" in signature


def test_device_goes_to_whoever_takes_it(quitmt: Quitmt, text: Path, loaded: list[tuple[str, Hardware]]) -> None:
    words = ("translate", text, *SMALL, "--rerank", "qe:kiwi", "--device", "cpu")
    assert quitmt(*words, "--metric-dtype", "bfloat16", "--batch-tokens", 99).code == 0
    assert loaded == [("kiwi", Hardware("cpu", "bfloat16", 99))]
    ran = quitmt("translate", text, *SMALL, "--device", "cpu")
    assert ran.code == 2 and "--device goes with hf:, ct2: not with embedded:" in ran.err


def test_rerank_has_scoring_models_too(quitmt: Quitmt, text: Path, loaded: list[tuple[str, Hardware]]) -> None:
    Path("pools").write_text('{"id": "1", "source": "s", "candidates": ["a", "abc", "ab"]}\n')
    ran = quitmt("rerank", "pools", "--rerank", "mbr:chrf", "--filter", "qe:xcomet", "--keep", 1, "--device", "cpu")
    assert (ran.code, ran.out) == (0, "abc\n")
    assert loaded == [("xcomet-qe", Hardware("cpu"))]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rerank", "qe:likelihood", "--filter", "qe:likelihood"), "--filter goes with an mbr: reranker"),
        (("--keep", "8"), "--keep goes with --filter"),
        (("--filter", "qe:likelihood", "--keep", "0"), "at least 1 candidate"),
        (("--filter", "mbr:chrf"), "the filter 'mbr:chrf' is no QE metric"),
        (("--metric-dtype", "float16"), "--metric-dtype goes with scoring models such as mbr:comet, not with mbr:chrf"),
        (("--batch-tokens", "9"), "--batch-tokens goes with scoring models"),
        (("--rerank", "qe:nowhere_at_all:f"), "there is no module nowhere_at_all"),
        (("--rerank", "qe:0.7*likelihood+x*likelihood"), "'x' in '0.7*likelihood+x*likelihood' is not a weight"),
    ],
)
@pytest.mark.parametrize("command", ["translate", "rerank"])
def test_bad_methods(command: str, words: tuple[str, ...], message: str, quitmt: Quitmt, text: Path) -> None:
    ran = quitmt(command, text, *words)
    assert ran.code == 2 and ran.out == ""
    assert message in ran.err and ran.err.count("\n") == 1


def test_rerank_refuses_a_device_that_nobody_takes(quitmt: Quitmt, text: Path) -> None:
    ran = quitmt("rerank", text, "--device", "cpu")
    assert ran.code == 2 and "--device goes with scoring models" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("translate x --stop fxied:4", "there is no 'fxied', and no module of that name (did you mean 'fixed'?)"),
        ("translate x --stop los:most=0.1", "unknown stopping rule 'los:most=0.1' (did you mean 'loss'?)"),
        ("translate x --stop loss:mots=0.1", "unknown option of the stopping rule loss 'mots' (did you mean 'most'?)"),
        ("translate x --stop mine.py:Rule", "there is no module mine.py (write mine, without .py)"),
        ("translate x --rerank mbr:commet:MODEL", "no module of that name (did you mean 'comet'?)"),
        ("translate x --rerank mbr:chfr++", "unknown reranker 'mbr:chfr++' (did you mean 'mbr:chrf++'?)"),
        ("translate x --rerank mbr:0.5*chrf+0.5*blue", "unknown reranker 'mbr:blue' (did you mean 'mbr:bleu'?)"),
        ("translate x --rerank qe", "'qe' lacks a metric (there is qe:likelihood, "),
        ("translate x --model embeded:en-pt", "unknown model 'embeded:en-pt' (did you mean 'embedded:en-pt'?)"),
        ("translate x --preset papr", "unknown preset 'papr' (did you mean 'paper'?)"),
        (
            "translate x --filtre qe:kiwi",
            "unrecognized arguments: --filtre qe:kiwi (did you mean --filter?; see quitmt tr",
        ),
        ("translate x y", "quitmt translate: unrecognized arguments: y (see quitmt translate --help)"),
        ("score -t x -r x -m commet:MODEL", "no module of that name (did you mean 'comet'?)"),
        ("score -t x -r x -m blue", "unknown metric 'blue' (did you mean 'bleu'?)"),
        ("score -t x -r x --format jsno", "unknown value of --format 'jsno' (did you mean 'json'?)"),
        ("export x --as dop -o y.jsonl", "unknown format 'dop' (did you mean 'dpo'?)"),
        ("trnslate x", "unknown command 'trnslate' (did you mean 'translate'?)"),
        ("zzz", "unknown command 'zzz' (there is batch, calibrate, "),
    ],
)
def test_a_misspelt_name_is_told_the_nearest_one(
    words: str, message: str, quitmt: Quitmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_text("Yes.\n")
    ran = quitmt(*words.split())
    assert ran.code == 2 and message in ran.err and ran.err.count("\n") == 1, ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
