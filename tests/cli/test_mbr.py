"""``--mbr`` as a user gives it: faster kinds of MBR, live, replayed and resumed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.comet.folders import make_folder
from tests.conftest import Ran

from quitmt.files import journal

Quitmt = Callable[..., Ran]
KINDS = ["prune", "lowrank", "aggregate"]


@pytest.fixture
def pools(tmp_path: Path, make_pool: Callable[[int, int], list[str]]) -> Path:
    path = tmp_path / "pools.jsonl"
    lines = [
        json.dumps({"id": f"p{i}", "source": f"s{i}", "candidates": make_pool(i, 64), "scores": {"q": [1.0] * 64}})
        for i in range(6)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def outcomes(text: str) -> list[dict[str, Any]]:
    return [{**json.loads(line), "seconds": None} for line in text.splitlines()]


def test_effort_is_told_and_summed_up(quitmt: Quitmt, pools: Path) -> None:
    words = ("rerank", pools, "--jsonl", "--stop", "full", "-k", 64)
    exact, pruned = quitmt(*words), quitmt(*words, "--mbr", "prune")
    efforts = [one["effort"] for one in outcomes(pruned.out)]
    for effort, before in zip(efforts, outcomes(exact.out), strict=True):
        assert effort["possible"] == 64**2 and effort["encoded"] == before["effort"]["encoded"] <= 64
        assert 8 * effort["encoded"] / 2 <= effort["evaluations"] < before["effort"]["evaluations"]
        assert before["effort"]["evaluations"] == effort["encoded"] ** 2
    share = sum(effort["evaluations"] for effort in efforts) / (6 * 64**2)
    assert f"; {share:.1%} of all pairs compared\n" in pruned.err
    assert re.search(r"; [\d.]+% of all pairs compared\n$", exact.err)
    signature = outcomes(pruned.out)[0]["signature"]
    assert "rerank:mbr:chrF2,c:6,prune,c:0.99,b:500,seed:0,s:others|" in signature
    assert signature != outcomes(exact.out)[0]["signature"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_winner_is_good_and_the_same_each_time(kind: str, quitmt: Quitmt, pools: Path) -> None:
    words = ("rerank", pools, "--jsonl", "--stop", "full", "-n", 64, "-k", 32)
    exact = outcomes(quitmt(*words).out)
    found = outcomes(quitmt(*words, "--mbr", kind, "--in-flight", 1).out)
    assert found == outcomes(quitmt(*words, "--mbr", kind, "--in-flight", 6).out)
    assert [len(one["trajectory"]) for one in found] == [1] * 6  # the whole pool once, not every 32
    same = sum(one["translation"] == other["translation"] for one, other in zip(found, exact, strict=True))
    assert same >= 4


def test_an_option_that_changes_everything(quitmt: Quitmt, pools: Path) -> None:
    words = ("rerank", pools, "--jsonl", "--stop", "full", "-k", 64)
    exact, whole = quitmt(*words), quitmt(*words, "--mbr", "prune:schedule=64")
    assert [one["score"] for one in outcomes(whole.out)] == [one["score"] for one in outcomes(exact.out)]
    assert outcomes(quitmt(*words, "--mbr", "exact").out) == outcomes(exact.out)


@pytest.mark.parametrize("kind", ["prune", "lowrank"])
def test_a_live_run_is_the_replay_of_its_pools(kind: str, quitmt: Quitmt, tmp_path: Path) -> None:
    text = tmp_path / "in.en"
    text.write_text("The door is open.\nWhere is the station?\nI would like a glass of water.\n")
    settings = ("-k", 8, "-w", 2, "-n", 48, "--mbr", kind)
    files = ("-o", tmp_path / "live", "--jsonl", tmp_path / "live.jsonl", "--keep-pools", tmp_path / "pools")
    assert quitmt("translate", text, *settings, *files).code == 0
    ran = quitmt("rerank", tmp_path / "pools", *settings, "--jsonl", tmp_path / "replay", "-o", "/dev/null")
    assert ran.code == 0
    live, replay = (outcomes((tmp_path / name).read_text()) for name in ("live.jsonl", "replay"))
    for one, other in zip(live, replay, strict=True):
        same = ("id", "source", "translation", "index", "score", "size", "trajectory", "effort")
        assert {key: one[key] for key in same} == {key: other[key] for key in same}
    assert len(live) == 3 and all(one["size"] >= 16 for one in live)


@pytest.mark.parametrize(
    ("began", "goes_on"),
    [([], ["--mbr", "prune"]), (["--mbr", "prune"], ["--mbr", "lowrank"])],
)
def test_resuming_with_another_kind_is_refused(
    began: list[str], goes_on: list[str], quitmt: Quitmt, pools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = journal.Journal.close

    def close(self: journal.Journal, *, done: bool) -> None:
        shutil.copy(self.path, tmp_path / "kept")
        original(self, done=done)

    with monkeypatch.context() as patch:
        patch.setattr(journal.Journal, "close", close)
        assert quitmt("rerank", pools, "-o", tmp_path / "out", *began).code == 0
    whole = (tmp_path / "out").read_text()
    shutil.copy(tmp_path / "kept", tmp_path / "out.journal")
    ran = quitmt("rerank", pools, "-o", tmp_path / "out", "--resume", *goes_on)
    assert ran.code == 2 and f"cannot resume: --mbr was {began[-1] if began else 'exact'}" in ran.err
    assert quitmt("rerank", pools, "-o", tmp_path / "out", "--resume", *began).code == 0
    assert (tmp_path / "out").read_text() == whole


def test_centroids_of_comet(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    model = make_folder(tmp_path, "regression")
    words = ("rerank", pools, "--jsonl", "--stop", "full", "-n", 40, "-k", 40, "--rerank", f"mbr:comet:{model}")
    ran = quitmt(*words, "--device", "cpu", "--mbr", "centroid:centroids=8", "--support", "all")
    assert ran.code == 0
    for one in outcomes(ran.out):
        texts = one["effort"]["encoded"]
        assert 8 < texts <= 40 and one["effort"] == {"evaluations": 8 * texts, "possible": 1600, "encoded": texts}
