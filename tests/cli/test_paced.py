"""``--max-cost`` without a known curve: the same result whatever is in flight, and wherever a run is resumed."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran

from quitmt.files import journal

Quitmt = Callable[..., Ran]
ASKED = ("--rerank", "mbr:chrf:order=3", "--max-cost", "10", "-k", "2", "-n", "24")


@pytest.fixture
def pools(tmp_path: Path, make_pool: Callable[[int, int], list[str]]) -> Path:
    """Some with fewer candidates, and with anchors; tokens are recorded."""
    path, lines = tmp_path / "pools.jsonl", []
    for i in range(60):
        size = 24 if i % 7 else 9
        pool: dict[str, Any] = {"id": i, "source": f"s{i}", "candidates": make_pool(i, size)}
        pool["scores"] = {"tokens": [5 + i % 3] * size}
        if i % 5 == 0:
            pool |= {"anchors": ["the cat sat"], "origins": ["greedy"], "anchor_scores": {"tokens": [5]}}
        lines.append(json.dumps(pool))
    path.write_text("\n".join(lines) + "\n")
    return path


def told(text: str) -> list[dict[str, Any]]:
    """Outcomes without what a clock says."""
    return [{**json.loads(line), "seconds": None} for line in text.splitlines()]


def test_the_same_whatever_is_in_flight(quitmt: Quitmt, pools: Path) -> None:
    one, few, many = (quitmt("rerank", pools, *ASKED, "--jsonl", "--in-flight", count) for count in (1, 5, 64))
    assert told(one.out) == told(few.out) == told(many.out)
    assert "stopping by loss, paced to 10 candidates per segment on average" in one.err
    outcomes = told(one.out)
    assert {outcome["signature"].partition("|")[0] for outcome in outcomes} == {"paced"}
    sizes = [outcome["size"] for outcome in outcomes if outcome["stop"] == "decided"]
    assert len(set(sizes)) > 2
    # What comes after does not matter for what came before.
    lines = pools.read_text().splitlines(keepends=True)
    pools.write_text("".join([*lines[:30], *reversed(lines[30:])]))
    again = told(quitmt("rerank", pools, *ASKED, "--jsonl").out)
    assert again[:30] == outcomes[:30] and again != outcomes


def test_what_is_left_is_shared_where_the_length_is_known(quitmt: Quitmt, pools: Path) -> None:
    """As of a plain file, and not of one that would have to be unpacked first."""
    outcomes = told(quitmt("rerank", pools, *ASKED, "--jsonl").out)
    costs = [outcome["size"] + outcome.get("anchors", 0) for outcome in outcomes]
    assert sum(costs) / len(costs) == pytest.approx(10, rel=0.03)
    packed = pools.with_suffix(".gz")
    packed.write_bytes(gzip.compress(pools.read_bytes()))
    unknown = told(quitmt("rerank", packed, *ASKED, "--jsonl").out)
    assert unknown[:2] == outcomes[:2] and unknown != outcomes


def test_resumed_wherever_it_was_cut(
    quitmt: Quitmt, pools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    original = journal.Journal.close

    def close(self: journal.Journal, *, done: bool) -> None:
        shutil.copy(self.path, kept)
        original(self, done=done)

    with monkeypatch.context() as patch:
        patch.setattr(journal.Journal, "close", close)
        assert quitmt("rerank", pools, *ASKED, "-o", tmp_path / "whole", "--jsonl", tmp_path / "whole.jsonl").code == 0
    written, whole = kept.read_bytes(), told((tmp_path / "whole.jsonl").read_text())
    lines = written.splitlines(keepends=True)
    shuffled = [lines[0], *random.Random(3).sample(lines[1:], 30)]  # segments finish in any order
    for number, held in enumerate([lines[:20], lines[:45], shuffled]):
        out = tmp_path / f"out{number}"
        Path(f"{out}.journal").write_bytes(b"".join(held))
        ran = quitmt("rerank", pools, *ASKED, "-o", out, "--jsonl", f"{out}.jsonl", "--resume")
        assert ran.code == 0 and "continuing after" in ran.err
        assert told(Path(f"{out}.jsonl").read_text()) == whole


def test_prices_in_tokens(quitmt: Quitmt, pools: Path) -> None:
    asked = ("--rerank", "mbr:chrf:order=3", "--max-cost", "60tokens", "-k", "2", "-n", "24", "--jsonl")
    ran = quitmt("rerank", pools, *asked)
    assert "paced to 60 tokens per segment" in ran.err
    tokens = [outcome["tokens"] for outcome in told(ran.out)]
    assert 45 < sum(tokens) / len(tokens) < 75
    pools.write_text("\n".join(json.dumps({"id": i, "candidates": ["a", "b"] * 12}) for i in range(9)) + "\n")
    ran = quitmt("rerank", pools, *asked)
    assert ran.code == 2 and "these candidates come without a number of tokens" in ran.err


def test_blank_and_failed_lines(quitmt: Quitmt, tmp_path: Path) -> None:
    """They take their turn, and nobody waits for them."""
    text = tmp_path / "text"
    text.write_text("\n".join("" if i % 3 else f"Line number {i}." for i in range(40)) + "\n")
    ran = quitmt(
        "translate", text, "--rerank", "mbr:chrf:order=3", "--max-cost", "16", "-n", "64", "--jsonl", "-k", "4"
    )
    outcomes = told(ran.out)
    assert ran.code == 0 and len(outcomes) == 40
    assert [bool(outcome["size"]) for outcome in outcomes] == [i % 3 == 0 for i in range(40)]
