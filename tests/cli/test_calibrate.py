"""``quitmt calibrate`` and the profiles it writes, as a user meets them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran

from quitmt import generate
from quitmt.sampling import Sampling

Quitmt = Callable[..., Ran]
MODEL = generate.load("embedded:en-pt", Sampling()).signature.partition("|t:")[0]
OLD = ("--preset", "paper", "--support", "anchor")
"""As the pools here were sampled, and as they were judged."""


@pytest.fixture
def pools(tmp_path: Path, make_pool: Callable[[int, int], list[str]]) -> Path:
    path = tmp_path / "pools.jsonl"
    lines = [
        {"id": str(i), "source": f"s{i}", "candidates": make_pool(i, 64), "generator": f"{MODEL}|t:1.2|seed:3"}
        for i in range(40)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_from_pools_to_a_run_that_keeps_the_guarantee(
    quitmt: Quitmt, pools: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    profile = tmp_path / "chrf.json"
    words = ("--max-loss", "0.3sd", "-n", 64, "--src", "en", "--tgt", "pt")
    done = quitmt("calibrate", pools, "-o", profile, *words)
    assert done.code == 0, done.err
    found = json.loads(profile.read_text())
    assert "<- chosen" in done.out
    assert f"{found['rule']}: with 90% confidence, no more than 10% of segments lose more than" in done.out
    assert done.out.endswith(
        f"  quitmt translate --model {MODEL.partition('|')[0]} --src en --tgt pt --profile {profile} INPUT -o OUTPUT\n"
    )
    for words in (("-o", profile), ("-o", tmp_path / "x", "--jsonl", profile)):
        lost = quitmt("rerank", pools, "--profile", profile, *words)
        assert lost.code == 2 and "is an input of this run and would be overwritten" in lost.err
    assert (found["generator"], found["reranker"]) == (f"{MODEL}|t:1.2", "mbr:chrF2|c:6|s:anchor")

    by_profile = quitmt("rerank", pools, "--profile", profile, "--jsonl")
    by_rule = quitmt("rerank", pools, "--stop", found["rule"], "-n", 64, "--jsonl")
    assert by_profile.code == 0 and "need not hold" not in by_profile.err
    assert by_profile.err.startswith(f"quitmt: stopping by {found['rule']}: with 90% confidence, no more than 10%")
    sizes = [json.loads(line)["size"] for line in by_profile.out.splitlines()]
    assert sizes == [json.loads(line)["size"] for line in by_rule.out.splitlines()]
    [point] = [one for one in found["curve"] if one["rule"] == found["rule"]]
    assert sum(sizes) / len(sizes) == pytest.approx(point["mean_size"])

    text = tmp_path / "text.en"
    text.write_text("Yes.\n")
    other = quitmt("translate", text, *OLD, "--profile", profile, "--temperature", 0.7)
    assert other.code == 0
    told = f"they are for the candidates of {MODEL}|t:1.2, not of {MODEL}|t:0.7"
    assert f"the figures of this rule need not hold here: {told}" in caplog.text
    assert f"stopping by {found['rule']}, without the guarantee of its profile\n" in other.err
    assert "confidence" not in other.err
    caplog.clear()
    same = quitmt("translate", text, *OLD, "--profile", profile, "--seed", 8)
    assert same.code == 0 and "with 90% confidence" in same.err
    assert caplog.text == ""


def test_kept_pools_know_their_model(quitmt: Quitmt, tmp_path: Path) -> None:
    pools = tmp_path / "pools.jsonl"
    text = tmp_path / "text.en"
    text.write_text("Yes.\nNo.\n")
    run = quitmt("translate", text, "-n", 8, "--stop", "full", "--keep-pools", pools)
    assert run.code == 0, run.err
    generators = [json.loads(line)["generator"] for line in pools.read_text().splitlines()]
    assert generators == [f"{MODEL}|t:0.8|seed:0|a:greedy"] * 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-loss", "0.1", "--confidence", "high"], "--confidence must be a number between 0 and 1, or none"),
        (["--max-loss", "0.1", "-n", "128"], "the pool of segment 0 has 64 candidates, fewer than 128"),
        (["--max-loss", "0.1", "-o", "no/such/folder.json"], "cannot write no/such/folder.json"),
    ],
)
def test_what_cannot_be_guaranteed(quitmt: Quitmt, pools: Path, words: list[str], said: str) -> None:
    done = quitmt("calibrate", pools, "-n", 64, *words, "-q")
    assert done.code == 2
    assert done.err.startswith(f"quitmt: {said}") and done.err.count("\n") == 1


def test_a_loss_needs_no_profile_with_mbr(quitmt: Quitmt, pools: Path) -> None:
    wish = quitmt("rerank", pools, "--max-loss", "0.01", "-n", 64)
    rule = quitmt("rerank", pools, "--stop", "loss:most=0.01", "-k", 4, "-n", 64)
    assert wish.out == rule.out and wish.err == f"quitmt: stopping by loss:most=0.01\n{rule.err}"


def test_pools_are_not_written_over(quitmt: Quitmt, pools: Path) -> None:
    before = pools.read_text()
    done = quitmt("calibrate", pools, "--max-loss", "0.3", "-n", 64, "-o", pools)
    assert done.code == 2 and "is an input of this run and would be overwritten" in done.err
    assert pools.read_text() == before


def test_of_longer_pools_the_budget_counts(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    """A loss is one of the first n candidates, as for a run with -n: what comes after them changes nothing."""
    short = tmp_path / "short.jsonl"
    cut = [json.loads(line) for line in pools.read_text().splitlines()]
    short.write_text("".join(json.dumps({**one, "candidates": one["candidates"][:32]}) + "\n" for one in cut))
    found = []
    for path in (pools, short):
        done = quitmt("calibrate", path, "--max-loss", "0.3sd", "-n", 32, "-o", tmp_path / "p.json")
        assert done.code == 0, done.err
        found.append(json.loads((tmp_path / "p.json").read_text()))
    assert found[0] == found[1]
    assert next(one for one in found[0]["curve"] if one["rule"] == "fixed:32")["mean_loss"] == 0


def test_pools_of_several_seeds_are_of_one_model(quitmt: Quitmt, pools: Path) -> None:
    lines = pools.read_text().splitlines(keepends=True)
    pools.write_text("".join(line.replace("seed:3", f"seed:{i % 2}") for i, line in enumerate(lines)))
    done = quitmt("calibrate", pools, "--max-loss", "0.3sd", "-n", 64)
    assert done.code == 0, done.err
    pools.write_text(pools.read_text().replace("t:1.2", "t:0.9", 1))
    done = quitmt("calibrate", pools, "--max-loss", "0.3sd", "-n", 64)
    assert done.code == 2 and "the pools come from different models" in done.err


def test_a_fixed_number_of_a_profile_needs_no_warning(
    quitmt: Quitmt, pools: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "p.json"
    assert quitmt("calibrate", pools, "--max-loss", "0.3sd", "-n", 64, "--rule", "fixed", "-o", path).code == 0
    rule = json.loads(path.read_text())["rule"]
    assert rule.startswith("fixed:") and rule != "fixed:64"
    fitting = quitmt("rerank", pools, "--profile", path)
    assert fitting.code == 0 and "confidence" in fitting.err
    assert caplog.text == ""
    other = quitmt("rerank", pools, "--profile", path, "-n", 60)
    assert other.code == 0 and "confidence" not in other.err
    assert "they are for -k 8 -n 64, not for -k 8 -n 60" in caplog.text


def test_a_rule_of_ones_own_is_calibrated_and_used(
    quitmt: Quitmt, pools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_rule_to_calibrate.py").write_text(
        "from dataclasses import dataclass\nfrom quitmt.stop.loss import Loss\n\n\n"
        "@dataclass(frozen=True)\nclass Careful(Loss):\n    new: float = 0.2\n"
    )
    rule = ("--rule", "own_rule_to_calibrate:Careful:minimum=16", "--rule", "fixed")
    done = quitmt("calibrate", pools, "--max-loss", "0.3sd", "-n", 64, *rule, "-o", "p.json")
    assert done.code == 0 and "--profile p.json --allow-functions" in done.out, done.err
    found = json.loads(Path("p.json").read_text())
    curve = {point["rule"].partition("most=")[0] for point in found["curve"] if "own_rule" in point["rule"]}
    assert curve == {"own_rule_to_calibrate:Careful:minimum=16,"}
    by_rule = next(point["rule"] for point in found["curve"] if "own_rule" in point["rule"])
    Path("p.json").write_text(json.dumps({**found, "rule": by_rule}))
    ran = quitmt("rerank", pools, "--profile", "p.json", "--allow-functions", "--jsonl")
    assert ran.code == 0 and json.loads(ran.out.splitlines()[0])["signature"].startswith("loss|k:8|l:"), ran.err


def test_without_n_the_smallest_pool_says_how_many(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in pools.read_text().splitlines()]
    lines[3]["candidates"] = lines[3]["candidates"][:48]
    pools.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = []
    for words in ((), ("-n", 48)):
        done = quitmt("calibrate", pools, "--max-loss", "0.3sd", "-o", tmp_path / "p.json", *words)
        assert done.code == 0, done.err
        assert ("the smallest pool has 48 candidates: calibrating with -n 48\n" in done.err) == (not words)
        found.append(json.loads((tmp_path / "p.json").read_text()))
    assert found[0] == found[1] and found[0]["budget"] == 48
    assert "fewer than 64" in quitmt("calibrate", pools, "--max-loss", "0.3sd", "-n", 64).err


def test_pools_that_stopped_early_do_not_say_how_many(quitmt: Quitmt, pools: Path) -> None:
    lines = [json.loads(line) for line in pools.read_text().splitlines()]
    lines[3].update(candidates=lines[3]["candidates"][:8], stop="stable")
    pools.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = quitmt("calibrate", pools, "--max-loss", "0.3sd")
    assert done.code == 2 and "has 8 candidates, fewer than 64: its run stopped early" in done.err


def test_help_knows_its_own_defaults(quitmt: Quitmt) -> None:
    told = " ".join(quitmt("calibrate", "--help").out.split())
    assert "maximum candidates per segment [default: as many as the smallest pool has, 512 at most]" in told
    assert "with auto" not in told


def test_recorded_scores_without_texts_are_calibrated(quitmt: Quitmt, tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = [{"id": str(i), "scores": {"q": [rng.random() ** 0.2 for _ in range(24)]}} for i in range(120)]
    pools, profile = tmp_path / "scores.jsonl", tmp_path / "profile.json"
    pools.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--rerank", "qe:recorded:q")
    ran = quitmt("calibrate", str(pools), *words, "--max-loss", "1sd", "--risk", "0.3", "-o", str(profile))
    assert ran.code == 0 and "the first 24 pools only set the top of headroom" in ran.err
    assert json.loads(profile.read_text())["guarantee"]["segments"] == 96
    assert quitmt("rerank", str(pools), *words, "--profile", str(profile), "-o", str(tmp_path / "out"), "-q").code == 0
