"""``quitmt rerank`` as a user runs it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran

Quitmt = Callable[..., Ran]


@pytest.fixture
def pools(tmp_path: Path, make_pool: Callable[[int, int], list[str]]) -> Path:
    path = tmp_path / "pools.jsonl"
    with path.open("w") as file:
        for number in range(20):
            texts = make_pool(number, 30 + number)
            pool = {"id": f"p{number}", "source": "s", "candidates": texts, "scores": {"len": [len(t) for t in texts]}}
            file.write(json.dumps(pool, ensure_ascii=False) + "\n")
    return path


def outcomes(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def timeless(text: str) -> list[dict[str, Any]]:
    return [{**fields, "seconds": None} for fields in outcomes(text)]


def test_an_outcome_line_has_what_is_guaranteed(quitmt: Quitmt, pools: Path) -> None:
    ran = quitmt("rerank", pools, "--jsonl", "-k", 4, "-w", 2, "-n", 32)
    first = outcomes(ran.out)[0]
    assert list(first) == [
        "id", "source", "translation", "index", "score", "size", "budget", "stop", "trajectory", "seconds",
        "signature", "effort", "recipe",
    ]  # fmt: skip
    assert set(first["effort"]) == {"evaluations", "possible", "encoded"}
    assert first["id"] == "p0" and first["stop"] in ("stable", "budget", "exhausted")
    assert set(first["seconds"]) == {"generate", "rerank"}
    assert first["signature"].startswith("quit|k:4|w:2|a:0.001|n:32|gen:recorded|rerank:mbr:chrF2")
    assert ran.code == 0 and len(outcomes(ran.out)) == 20


def test_text_and_jsonl_agree_and_keep_the_order(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    quitmt("rerank", pools, "-o", tmp_path / "out.txt", "--jsonl", tmp_path / "out.jsonl")
    chosen = (tmp_path / "out.txt").read_text().splitlines()
    found = outcomes((tmp_path / "out.jsonl").read_text())
    assert chosen == [fields["translation"] for fields in found]
    assert [fields["id"] for fields in found] == [f"p{number}" for number in range(20)]
    assert not list(tmp_path.glob("*.journal"))


def test_jsonl_before_the_pools_does_not_overwrite_them(quitmt: Quitmt, pools: Path) -> None:
    before = pools.read_text()
    ran = quitmt("rerank", "--jsonl", pools)
    assert ran.code == 2 and "rerank needs a file of pools" in ran.err
    assert pools.read_text() == before


def test_gzip_and_standard_input(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    (tmp_path / "pools.gz").write_bytes(gzip.compress(pools.read_bytes()))
    plain = quitmt("rerank", pools).out
    assert quitmt("rerank", tmp_path / "pools.gz").out == plain
    piped = subprocess.run(
        [sys.executable, "-m", "quitmt", "rerank", "-"], input=pools.read_bytes(), capture_output=True, check=True
    )
    assert piped.stdout.decode() == plain


def test_recorded_scores_and_rules(quitmt: Quitmt, pools: Path) -> None:
    for spec, size in (("full", 30), ("fixed:8", 8)):
        ran = quitmt("rerank", pools, "--jsonl", "--rerank", "qe:recorded:len", "--stop", spec, "-n", 30)
        first = outcomes(ran.out)[0]
        assert (first["size"], first["stop"]) == (size, "budget")
        texts = json.loads(pools.read_text().splitlines()[0])["candidates"][:size]
        assert first["translation"] == max(texts, key=len)


def test_plain_text_pools(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "samples").write_text("a\nb\nb\nc\nd\nd\n")
    (tmp_path / "sources").write_text("x\ny\n")
    ran = quitmt("rerank", tmp_path / "samples", "--num-candidates", 3, "--sources", tmp_path / "sources", "--jsonl")
    assert [(o["source"], o["translation"]) for o in outcomes(ran.out)] == [("x", "b"), ("y", "d")]


def test_line_breaks_inside_a_candidate_stay_one_line(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "p").write_text(json.dumps({"id": 1, "candidates": ["a\r\nb\u2028c\nd"]}) + "\n")
    assert quitmt("rerank", tmp_path / "p").out == "a b\u2028c d\n"


def test_show_is_for_people(quitmt: Quitmt, pools: Path) -> None:
    out = quitmt("rerank", pools, "--show", "-k", 2, "--stop", "quit").out
    assert "p0. s\n" in out and "30 of 30 candidates · exhausted: the recorded pool ended" in out
    assert any(bar in out for bar in "▁█")


def test_a_bad_pool_midway_loses_nothing(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    good = quitmt("rerank", pools).out
    bad = tmp_path / "bad.jsonl"
    bad.write_text(pools.read_text() + '{"id": "x", "candidates": []}\n')
    ran = quitmt("rerank", bad, "-o", tmp_path / "out")
    assert ran.code == 2
    assert ran.err.endswith(f"\nquitmt: {bad}, line 21: the pool has no candidates\n")
    assert (tmp_path / "out").read_text() == good
    # Mend the file and go on where it stopped.
    bad.write_text(pools.read_text() + '{"id": "x", "candidates": ["mended"]}\n')
    resumed = quitmt("rerank", bad, "-o", tmp_path / "out", "--resume")
    assert "continuing after 20 finished segments" in resumed.err
    assert (tmp_path / "out").read_text() == good + "mended\n"


def test_failed_segments_are_reported_and_retried(quitmt: Quitmt, tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text('{"id": 1, "candidates": ["a"], "scores": {"q": [1]}}\n{"id": 2, "candidates": ["b"]}\n')
    words = ("rerank", path, "--rerank", "qe:recorded:q", "--jsonl", tmp_path / "out", "-o", "/dev/null")
    ran = quitmt(*words)
    assert ran.code == 1 and "1 segment failed with: " in ran.err
    assert "quitmt: to retry: quitmt rerank" in ran.err
    failed = outcomes((tmp_path / "out").read_text())[1]
    assert (failed["stop"], failed["error"]) == ("failed", "segment 2: no recorded score 'q' (its pool has none)")
    again = quitmt(*words, "--resume")
    assert again.code == 1 and "continuing after 1 finished" in again.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-k", "0"], "k must be a whole number of at least 1, not 0"),
        (["--num-candidates", "0"], "--num-candidates must be at least 1, not 0"),
        (["--sources", "x"], "--sources goes with --num-candidates"),
        (["--resume"], "--resume needs a file to continue"),
        (["--show", "--jsonl"], "--show and --jsonl both use the main output"),
    ],
)
def test_bad_settings(words: list[str], message: str, quitmt: Quitmt, pools: Path) -> None:
    ran = quitmt("rerank", pools, *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("quitmt: ") and message in ran.err and ran.err.count("\n") == 1


def test_outputs_that_would_overwrite_something(quitmt: Quitmt, pools: Path, tmp_path: Path) -> None:
    assert "is an input of this run" in quitmt("rerank", pools, "-o", pools).err
    assert "two outputs" in quitmt("rerank", pools, "-o", tmp_path / "x", "--jsonl", tmp_path / "x").err
    assert len(pools.read_text().splitlines()) == 20


def test_a_closed_pipe(pools: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "quitmt", "rerank", str(pools)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout and process.stderr
    process.stdout.close()
    error = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait() == 141
    assert error.splitlines()[1:] == ["quitmt: the program that read the output has closed the pipe"]


def test_savings_are_counted_from_what_the_pools_have(quitmt: Quitmt, tmp_path: Path) -> None:
    """Pools of 256 with a budget of 512: what is saved is a share of 256."""
    path = tmp_path / "short.jsonl"
    texts = [f"candidate {index % 7}" for index in range(256)]
    lines = [{"id": str(number), "candidates": texts, "scores": {"q": [0.5] * 256}} for number in range(10)]
    lines[0]["scores"] = {"q": [index / 256 for index in range(256)]}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = quitmt("rerank", path, "--rerank", "qe:recorded:q", "-k", 4, "-w", 56, "--show")
    assert (
        "10 segments, 227.2 of 256 candidates per segment (11.3% saved); "
        "9 stable (the best score stopped moving), 1 exhausted (the recorded pool ended)"
    ) in ran.err
    assert "256 of 256 candidates · exhausted" in ran.out and ran.out.count("224 of 256 candidates · stable") == 9


def test_savings_of_pools_of_all_sizes(quitmt: Quitmt, pools: Path) -> None:
    ran = quitmt("rerank", pools, "--stop", "full", "-o", "/dev/null")
    assert "39.5 candidates per segment; 20 exhausted" in ran.err
    ran = quitmt("rerank", pools, "--stop", "fixed:16", "-o", "/dev/null")
    assert "16.0 candidates per segment; 20 budget" in ran.err


def test_plain_text_is_told_from_pools(quitmt: Quitmt, tmp_path: Path) -> None:
    (tmp_path / "news.en").write_text("Good morning.\n")
    ran = quitmt("rerank", tmp_path / "news.en")
    assert ran.code == 2 and "news.en has no recorded pools: line 1 is not a JSON object (quitmt translate" in ran.err
    assert "--keep-pools FILE writes such JSON lines" in ran.err
