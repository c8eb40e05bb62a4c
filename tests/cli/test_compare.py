"""``quitmt compare`` as a user runs it."""

from __future__ import annotations

import csv
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import Ran

from quitmt.evaluate.equivalence import LEAST, Pair, compare

Quitmt = Callable[..., Ran]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_pool: Callable[[int, int], list[str]]) -> Path:
    """A folder with a reference, a base, one that is nearly the same, and one that is much shorter."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_metrics", raising=False)  # that of another test
    draw = random.Random(0)
    pools = [make_pool(seed, 3) for seed in range(80)]
    texts = {
        "ref": [pool[0] for pool in pools],
        "full": [pool[1] for pool in pools],
        "quit": [pool[1 if draw.random() < 0.8 else 2] for pool in pools],
        "short": [" ".join(pool[1].split()[:4]) for pool in pools],
    }
    for name, column in texts.items():
        Path(name).write_text("\n".join(column) + "\n")
    Path("my_metrics.py").write_text(
        "def missing(translation, reference): return max(0, len(reference) - len(translation))\n"
        "missing.lower_is_better = True\n"
        "def broken(translation, reference): raise ValueError('no')\n"
    )
    return tmp_path


def comparisons(ran: Ran) -> list[dict[str, Any]]:
    assert (ran.code, ran.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(ran.out)["comparisons"]
    return found


@pytest.mark.usefixtures("here")
def test_numbers_are_those_of_the_library(quitmt: Quitmt) -> None:
    words = ("-r", "ref", "-m", "chrf", "my_metrics:missing")
    scores = json.loads(quitmt("score", "-t", "full", "quit", "short", *words, "--format", "json", "--segments").out)
    found = comparisons(quitmt("compare", "full", "quit", "short", *words, "--format", "json"))
    assert [(row["metric"], row["system"]) for row in found] == [
        ("chrF", "quit"), ("chrF", "short"), ("missing", "quit"), ("missing", "short"),
    ]  # fmt: skip
    for row in found:
        base, other = (scores["systems"][name][row["metric"]] for name in ("full", row["system"]))
        segments = (np.array(system["segments"]) for system in (base, other))
        (expected,) = compare([Pair(*segments, row["metric"] == "missing")])
        assert row["difference"] == expected.difference == pytest.approx(row["mean"] - row["base_mean"])
        assert tuple(row["interval_95"]) == expected.interval and tuple(row["interval_90"]) == expected.tost_interval
        assert (row["sigma"], tuple(row["p_values"])) == (expected.sigma, expected.p_values)
        assert tuple(row["equivalent_within"]) == expected.within
        assert (row["wins"], row["ties"], row["losses"]) == (expected.wins, expected.ties, expected.losses)
        assert (row["base_score"], row["score"]) == (base["system"], other["system"])
    assert found[1]["equivalent_within"] == [] and found[1]["losses"] > 70
    assert found[3]["difference"] > 0 and found[3]["losses"] > 70  # lower is better


@pytest.mark.usefixtures("here")
def test_the_table(quitmt: Quitmt) -> None:
    Path("same").write_text(Path("full").read_text())
    ran = quitmt("compare", "full", "same", "short", "-r", "ref", "-m", "chrf++", "my_metrics:missing")
    out = ran.out.splitlines()
    assert out[0] == "base: full; 80 segments, 10,000 resamples, seed 0"
    heading, same, short, fewer = (line.split() for line in out[2:6])
    assert heading == ["metric", "system", "base", "other", "difference", "95%", "interval", "σ", "win/tie/loss"]
    assert same[:3] == ["chrF++", "↑", "same"] and same[3] == same[4]
    assert same[5:8] == ["+0.00", "[+0.00,", "+0.00]"] and same[9:] == ["††", "0/80/0"]
    assert short[2] == "short" and float(short[5]) < -10 and "†" not in "".join(short) and short[-1].endswith("0/80")
    assert fewer[:3] == ["missing", "↓", "same"]
    assert "† within 0.05σ, †† within 0.02σ: the 5th to 95th percentile" in ran.out
    assert "scores of whole corpora for chrF++, not means of segments" in ran.out
    assert "lower is better for missing: a negative difference is an improvement" in ran.out


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("segments", "marks"), [(LEAST - 1, 0), (LEAST, 2)])
def test_few_segments_decide_nothing(segments: int, marks: int, quitmt: Quitmt) -> None:
    for name in ("full", "ref"):
        Path(name).write_text("".join(Path(name).read_text().splitlines(keepends=True)[:segments]))
    Path("same").write_text(Path("full").read_text())
    ran = quitmt("compare", "full", "same", "-r", "ref")
    assert ran.code == 0 and ran.out.splitlines()[3].count("†") == marks
    told = f"{segments} segments are too few to decide about equivalence: a mark needs {LEAST} or more"
    assert (told in ran.out) == (marks == 0)
    [found] = comparisons(quitmt("compare", "full", "same", "-r", "ref", "--format", "json"))
    assert len(found["equivalent_within"]) == marks and max(found["p_values"]) < 0.05


@pytest.mark.usefixtures("here")
def test_margins_resamples_and_seed_count(quitmt: Quitmt) -> None:
    words = ("compare", "full", "quit", "-r", "ref", "--format", "json")
    usual = comparisons(quitmt(*words))[0]
    assert comparisons(quitmt(*words, "--seed", 0, "--resamples", 10_000, "--margins", 0.02, 0.05))[0] == usual
    assert comparisons(quitmt(*words, "--seed", 1))[0]["interval_95"] != usual["interval_95"]
    assert comparisons(quitmt(*words, "--resamples", 50))[0]["interval_95"] != usual["interval_95"]
    wide = comparisons(quitmt(*words, "--margins", 0.001, 9, 99))[0]
    assert wide["equivalent_within"] == [99, 9] and len(wide["p_values"]) == 3
    assert "†† " in quitmt(*words[:-2], "--margins", 0.001, 9, 99).out


@pytest.mark.usefixtures("here")
def test_recorded_scores(quitmt: Quitmt) -> None:
    words = ("-r", "ref", "-m", "chrf++", "my_metrics:missing")
    quitmt("score", "-t", "full", "quit", "short", *words, "--format", "json", "--segments", "-o", "scores.json")
    assert quitmt("compare", "scores.json").out == quitmt("compare", "full", "quit", "short", *words).out
    turned = comparisons(quitmt("compare", "scores.json", "--base", "short", "--format", "json"))
    assert [row["system"] for row in turned] == ["full", "quit"] * 2
    assert turned[0]["difference"] > 0 and turned[2]["difference"] < 0


@pytest.mark.usefixtures("here")
def test_csv(quitmt: Quitmt) -> None:
    words = ("compare", "full", "quit", "short", "-r", "ref", "-m", "chrf", "bleu", "--format")
    rows = list(csv.DictReader(quitmt(*words, "csv").out.splitlines()))
    found = comparisons(quitmt(*words, "json"))
    assert len(rows) == 4
    for row, expected in zip(rows, found, strict=True):
        assert [float(row["interval_95_low"]), float(row["interval_95_high"])] == expected["interval_95"]
        assert [float(row["p_0.05"]), float(row["p_0.02"])] == expected["p_values"]
        assert row["equivalent_within"] == str(min(expected["equivalent_within"], default=""))
        assert float(row["difference"]) == expected["difference"] and int(row["wins"]) == expected["wins"]


@pytest.mark.usefixtures("here")
def test_finished_metrics_survive_one_that_fails(quitmt: Quitmt) -> None:
    words = ("compare", "full", "quit", "-r", "ref", "-m", "chrf")
    ran = quitmt(*words, "my_metrics:broken")
    assert (ran.code, ran.out) == (1, quitmt(*words).out)
    assert ran.err == "quitmt: my_metrics:broken failed at segment 1: ValueError: no\n"


def scored(**systems: object) -> str:
    return json.dumps({"metrics": {"m": {"signature": "", "lower_is_better": False}}, "systems": systems})


GOOD = {"m": {"system": 1.0, "segments": [1.0, 2.0]}}
NO_SCORES = "scores.json isn't a file with the scores of systems and their segments"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("just text", "there is nothing to compare scores.json with"),
        ('{"translation": "x"}', "there is nothing to compare scores.json with"),
        (
            "{broken",
            "scores.json isn't a file with the scores of systems and their segments (quitmt score --format json",
        ),
        ("{}", NO_SCORES),
        (scored(), "all systems must have scores"),
        (scored(a=GOOD), "scores.json has the scores of one system only"),
        (scored(a=GOOD, b={"m": {"system": 1.0}}), NO_SCORES),
        (scored(a=GOOD, b={"n": {}}), NO_SCORES),
        (scored(a=GOOD, b={"m": {"system": 1, "segments": [1]}}), "scores for the same number of segments"),
        (scored(a=GOOD, b={"m": {"system": 1, "segments": [1, "x"]}}), NO_SCORES),
        (scored(a=GOOD, b={"m": {"system": 1, "segments": [1, 10**400]}}), NO_SCORES),
        (scored(a=GOOD, b={"m": {"system": 1, "segments": [1, -1e308]}}), NO_SCORES),
        (scored(a=GOOD, b={"m": {"system": 1, "segments": [None, None]}}), NO_SCORES),
        (scored(a=GOOD, b={"m": {"system": 1e101, "segments": [1, 1]}}), NO_SCORES),
    ],
)
def test_bad_scores(content: str, message: str, quitmt: Quitmt) -> None:
    Path("scores.json").write_text(content + "\n")
    ran = quitmt("compare", "scores.json")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("quitmt: ") and message in ran.err and ran.err.count("\n") == 1


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["full", "full", "-r", "ref"], "the file full is named twice"),
        (["full", "quit", "-r", "ref", "--base", "qit"], "unknown system 'qit' (did you mean 'quit'?)"),
        (["full", "quit", "-r", "ref", "--resamples", "0"], "there must be 1 to 10,000,000 resamples, not 0"),
        (
            ["full", "quit", "-r", "nowhere", "--resamples", "1000000000000"],
            "there must be 1 to 10,000,000 resamples, not 1,000,000,000,000",
        ),
        (["full", "quit", "-r", "ref", "--seed", "-1"], "--seed must be 0 or more, not -1"),
        (["full", "quit", "-r", "ref", "--margins", "nan"], "a margin must be a positive number, not nan"),
        (["full", "quit", "-r", "ref", "-o", "quit"], "quit is an input of this run"),
        (["good.json", "-r", "ref"], "-r goes with translations; good.json has its scores already"),
        *(
            (["good.json", option, "7"], f"{option} goes with translations; good.json has its scores already")
            for option in ("--device", "--dtype", "--batch-tokens", "--src", "--tgt", "--gemba-cache")
        ),
        (["good.json", "-o", "good.json"], "good.json is an input of this run"),
        ([], "the following arguments are required: BASE"),
    ],
)
def test_bad_input(words: list[str], message: str, quitmt: Quitmt) -> None:
    Path("good.json").write_text(scored(a=GOOD, b=GOOD))
    before = Path("quit").read_text()
    ran = quitmt("compare", *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("quitmt") and message in ran.err and ran.err.count("\n") == 1
    assert Path("quit").read_text() == before
