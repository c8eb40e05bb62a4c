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
        (("--keep", "8"), "--keep goes with --filter"),
        (("--metric-dtype", "float16"), "--metric-dtype goes with scoring models such as mbr:comet, not with mbr:chrf"),
    ],
)
@pytest.mark.parametrize("command", ["translate", "rerank"])
def test_bad_methods(command: str, words: tuple[str, ...], message: str, quitmt: Quitmt, text: Path) -> None:
    ran = quitmt(command, text, *words)
    assert ran.code == 2 and ran.out == ""
    assert message in ran.err and ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "stopping by loss:most=0.005, with at most 256 samples: the default for mbr:chrf (--stop chooses)"),
        ("--rerank qe:length", "stopping by headroom:top=auto,reach=16, with at most 512 samples: the default"),
        ("--max-loss 0.1", "stopping by loss:most=0.1\n"),
        ("--stop fixed:2", None),
        ("-w 4", None),
        ("--preset paper", None),
        ("-q", None),
    ],
)
def test_a_run_says_which_rule_it_stops_by_unless_the_user_chose_it(
    quitmt: Quitmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, told: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rule_told.py").write_text("def length(source, candidate):\n    return float(len(candidate))\n")
    Path("pools").write_text(json.dumps({"id": "1", "source": "x", "candidates": ["a", "b", "a b"]}) + "\n")
    ran = quitmt("rerank", "pools", *words.replace("qe:length", "qe:rule_told:length").split())
    assert ran.code == 0
    assert told in ran.err if told else "stopping by" not in ran.err
