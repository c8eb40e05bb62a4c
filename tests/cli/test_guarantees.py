"""``quitmt calibrate --equivalent``, as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest
from tests.conftest import Ran

from quitmt.calibrate.profile import Point, Profile, QualityGuarantee
from quitmt.cli import guarantees

Quitmt = Callable[..., Ran]
SEGMENTS, SIZE = 60, 32


@pytest.fixture
def pools(tmp_path: Path, make_pool: Callable[[int, int], list[str]], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pools, and references beside them: each the last candidate but one."""
    monkeypatch.chdir(tmp_path)
    texts = [make_pool(i, SIZE) for i in range(SEGMENTS)]
    lines = [{"id": str(i), "source": f"s{i}", "candidates": pool} for i, pool in enumerate(texts, start=1)]
    (tmp_path / "pools.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "ref.pt").write_text("".join(f"{pool[-2]}\n" for pool in texts))
    return tmp_path / "pools.jsonl"


def test_from_references_to_a_run_that_keeps_the_guarantee(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    profile = tmp_path / "p.json"
    asked = ("--not-worse", "0.5sd", "-r", "ref.pt", "-m", "chrf++", "-m", "bleu", "-n", SIZE, "-q")
    done = quitmt("calibrate", pools, *asked, "-o", profile)
    assert done.code == 0, done.err
    found = json.loads(profile.read_text())
    guarantee = "with 95% confidence, the mean quality is not worse than the whole pool's by more than 0.5 sd by"
    assert f"{found['rule']}: {guarantee} chrF++ and BLEU.\n" in done.out
    assert "kept <- chosen" in done.out and "Assumptions: the segments are a random sample" in done.out
    assert (found["guarantee"]["confidence"], found["guarantee"]["segments"]) == (0.95, SEGMENTS)
    assert set(found["guarantee"]["metrics"]) == {"chrF++", "BLEU"}

    run = quitmt("rerank", pools, "--profile", profile, "--jsonl")
    assert run.err.startswith(f"quitmt: stopping by {found['rule']}: {guarantee} chrF++ and BLEU")
    sizes = [json.loads(line)["size"] for line in run.out.splitlines()]
    [point] = [one for one in found["curve"] if one["rule"] == found["rule"]]
    assert sum(sizes) / len(sizes) == pytest.approx(point["mean_size"]) and point["mean_size"] < SIZE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a guarantee"),
        (["--equivalent", "0.1sd", "--max-loss", "0.1"], "--max-loss and --equivalent are different guarantees"),
        (["--equivalent", "0.1sd"], "the metric chrf++ needs references"),
        (
            ["--equivalent", "0.1sd", "-m", "gemba:openai:x", "-r", "ref.pt"],
            "the metric gemba:openai:x needs both languages",
        ),
        (["--equivalent", "0.1sd", "-r", "ref.pt", "-m", "bleu", "-m", "bleu"], "the metric bleu is named twice"),
        (["--equivalent", "0.1sd", "-r", "ref.pt", "--risk", "0.1"], "--risk goes with --max-loss, not with --equiv"),
        (["--equivalent", "0.1sd", "-r", "ref.pt", "--confidence", "none"], "--confidence none goes with --max-loss"),
        (["--max-loss", "0.1", "-r", "ref.pt"], "--references goes with --equivalent and --not-worse"),
        (["--max-loss", "0.1", "-m", "bleu"], "--metric goes with --equivalent and --not-worse"),
        (["--equivalent", "0.1sd", "-r", "ref.pt", "-o", "ref.pt"], "ref.pt is an input of this run and would be"),
    ],
)
def test_bad_wishes_are_one_sentence(quitmt: Quitmt, pools: Path, words: list[str], said: str) -> None:
    Path("short.pt").write_text("a\nb\nc\n")
    done = quitmt("calibrate", pools, "-n", SIZE, "-q", *words)
    assert done.code == 2
    assert done.err.startswith(f"quitmt: {said}") and done.err.count("\n") == 1


def test_a_metric_that_is_not_installed(quitmt: Quitmt, pools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quitmt.names.importlib.util.find_spec", lambda *_: None)
    done = quitmt("calibrate", pools, "-n", SIZE, "-q", "--equivalent", "0.1sd", "-r", "ref.pt", "-m", "comet")
    assert done.code == 2
    assert done.err.startswith("quitmt: the metric comet needs torch and transformers (pip install 'quitmt[comet]')")


def test_pools_without_sources(quitmt: Quitmt, pools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.loads(line) | {"source": ""} for line in pools.read_text().splitlines()]
    pools.write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("own_metric.py").write_text("def score(source, translation, reference):\n    return 1.0\n")
    monkeypatch.syspath_prepend(str(pools.parent))
    asked = ("--equivalent", "0.1sd", "-r", "ref.pt", "-m", "own_metric:score")
    done = quitmt("calibrate", pools, "-n", SIZE, "-q", *asked)
    assert done.code == 2 and "needs the sources, but these pools have none" in done.err


def test_a_metric_before_the_pools_is_one_metric(quitmt: Quitmt, pools: Path) -> None:
    done = quitmt("calibrate", "-q", "--not-worse", "0.5sd", "-r=ref.pt", "-m", "chrf++", pools, "-n", SIZE)
    assert done.code == 0, done.err


def test_of_rules_that_cost_about_the_same_the_one_that_is_easiest_to_prove_is_named() -> None:
    points = [
        Point(rule, size, 0.0, None, rule == "fixed:64", {"chrF++": 0.0}, segments)
        for rule, size, segments in (
            ("fixed:64", 64, 100),
            ("fixed:16", 16, 900),
            ("loss:most=1", 17, 300),
            ("x", 24, 200),
        )
    ]
    guarantee = QualityGuarantee(0.02, False, 0.95, 100, {"chrF++": 15.0}, {"chrF++": "s"})
    profile = Profile("fixed:64", 8, 512, "g", "r", None, None, guarantee, 1.0, tuple(points))
    last = guarantees.lines(profile, guarantee, points, points[0])[-1]
    assert last == "With more segments: loss:most=1 could be proven with about 300, and takes 17 candidates."


def test_after_the_first_failure_of_a_chain_nothing_is_tested(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    asked = ("--equivalent", "0.07sd", "-r", "ref.pt", "-n", SIZE, "-q", "-o", tmp_path / "p.json")
    done = quitmt("calibrate", pools, *asked, "--rule", "loss:minimum=8", "--rule", "loss", "--rule", "fixed")
    assert done.code == 0, done.err
    rows = [line.split(maxsplit=4) for line in done.out.partition("\nRules are tested")[0].splitlines()[1:]]
    assert guarantees.IN_ORDER in done.out
    for chain in ("loss:minimum=8,most=", "loss:most=", "fixed:"):
        marks = [row[4].partition(" <-")[0] for row in rows if row[0].startswith(chain)]
        assert [mark for mark, _ in groupby(marks) if mark != "kept"] in (["not proven"], ["not proven", "not tested"])
        assert marks.count("not proven") == 1 and sorted(marks) == marks, marks
    assert sum(row[4] == "not tested" for row in rows) > 1
