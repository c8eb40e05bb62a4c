"""Texts of support on the command line: from files, in pools, in what is resumed, and where they are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics import CHRF
from tests.conftest import Ran

Quitmt = Callable[..., Ran]
LINES = ("Good morning.", "", "The door is open and the window is closed.")
FIRST = ("Bom dia.", "", "A porta está aberta e a janela está fechada.")
SECOND = ("", "", "A porta aberta, a janela fechada.")
FEW = ("-n", 16, "--stop", "fixed:8")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    paths = tmp_path / "in.en", tmp_path / "first", tmp_path / "second"
    for path, lines in zip(paths, (LINES, FIRST, SECOND), strict=True):
        path.write_text("\n".join(lines) + "\n")
    return paths


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def best(pool: dict[str, Any]) -> float:
    every = [*pool["candidates"], *pool.get("anchors", ())]
    chrf = CHRF()
    scores = [[chrf.sentence_score(text, [one]).score / 100 for one in pool["support"]] for text in every]
    return max(sum(row) / len(row) for row in scores)


def test_translate_keeps_them_in_pools_and_rerank_does_the_same(
    quitmt: Quitmt, files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    text, first, second = files
    support = ("--support-from", first, "--support-from", second)
    outputs = ("-o", tmp_path / "out", "--jsonl", tmp_path / "live", "--keep-pools", tmp_path / "pools")
    assert quitmt("translate", text, *FEW, *support, *outputs).code == 0
    live, pools = [one for one in read(tmp_path / "live") if one["size"]], read(tmp_path / "pools")
    assert [pool["support"] for pool in pools] == [[FIRST[0]], [FIRST[2], SECOND[2]]]
    assert all(set(pool["origins"]) == {"greedy"} for pool in pools)  # the texts are no anchors
    assert [one["score"] for one in live] == pytest.approx([best(pool) for pool in pools], abs=1e-9)
    assert ",s:given" in live[0]["signature"]
    (tmp_path / "one").write_text(f"{FIRST[0]}\n{FIRST[2]}\n")
    (tmp_path / "two").write_text(f"\n{SECOND[2]}\n")
    bare = [{name: value for name, value in pool.items() if name != "support"} for pool in pools]
    (tmp_path / "bare").write_text("".join(json.dumps(pool) + "\n" for pool in bare))
    from_files = ("--support-from", tmp_path / "one", "--support-from", tmp_path / "two")
    for words in ((tmp_path / "pools", "--support", "given"), (tmp_path / "bare", *from_files)):
        ran = quitmt("rerank", *words, *FEW, "--jsonl", tmp_path / "again", "-o", "/dev/null")
        assert ran.code == 0, ran.err
        for name in ("translation", "index", "score"):
            assert [one[name] for one in read(tmp_path / "again")] == [one[name] for one in live]


def test_files_take_the_place_of_what_was_recorded(quitmt: Quitmt, tmp_path: Path) -> None:
    pool = {"id": "1", "source": "x", "candidates": ["aaaa bbbb", "cccc dddd"], "support": ["aaaa bbbb"]}
    (tmp_path / "pools").write_text(json.dumps(pool) + "\n")
    (tmp_path / "file").write_text("cccc dddd\n")
    assert quitmt("rerank", tmp_path / "pools", "--support", "given").out == "aaaa bbbb\n"
    assert quitmt("rerank", tmp_path / "pools", "--support-from", tmp_path / "file").out == "cccc dddd\n"


def test_a_segment_without_any_fails_alone(quitmt: Quitmt, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    text, _, second = files
    ran = quitmt("translate", text, *FEW, "--support-from", second, "--jsonl", tmp_path / "live", "-o", tmp_path / "o")
    assert ran.code == 1 and "segment 1 has no text of support" in ran.err
    assert [one["stop"] for one in read(tmp_path / "live")] == ["failed", "stable", "budget"]
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(("lines", "told"), [(1, "has 1 lines, fewer than"), (4, "has more than 3 lines, more than")])
def test_another_number_of_lines(
    quitmt: Quitmt, files: tuple[Path, Path, Path], tmp_path: Path, lines: int, told: str
) -> None:
    (tmp_path / "other").write_text("Bom dia.\n" * lines)
    ran = quitmt("translate", files[0], *FEW, "--support-from", tmp_path / "other", "-o", tmp_path / "out")
    assert ran.code == 2 and f"other {told} the input" in ran.err
    pools = [json.dumps({"id": str(number), "source": "x", "candidates": ["a"]}) for number in range(3)]
    (tmp_path / "pools").write_text("\n".join(pools))
    ran = quitmt("rerank", tmp_path / "pools", "--support-from", tmp_path / "other", "-o", tmp_path / "out2")
    assert ran.code == 2 and f"other {told} there are pools" in ran.err
    assert "Traceback" not in ran.err


def test_a_changed_text_is_noticed_on_resume(quitmt: Quitmt, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    own, out = tmp_path / "own", tmp_path / "out"
    own.write_text("Bom dia.\n")
    words = ("translate", files[0], *FEW, "--support-from", own, "-o", out)
    assert quitmt(*words).code == 2
    own.write_text("Boa noite.\n\nA porta.\n")
    ran = quitmt(*words, "--resume")
    assert ran.code == 2 and "line 1 of the input has changed" in ran.err
    own.write_text("Bom dia.\n\nA porta.\n")
    assert quitmt(*words, "--resume").code == 0
    assert out.read_text().count("\n") == 3


def test_a_changed_text_of_a_pool_is_noticed_on_resume(quitmt: Quitmt, tmp_path: Path) -> None:
    pools, own = tmp_path / "pools", tmp_path / "own"
    pools.write_text("".join(json.dumps({"id": one, "source": "x", "candidates": ["a"]}) + "\n" for one in "12"))
    own.write_text("Bom dia.\n")
    words = ("rerank", pools, "--support-from", own, "-o", tmp_path / "out")
    assert quitmt(*words).code == 2
    own.write_text("Boa noite.\nA porta.\n")
    ran = quitmt(*words, "--resume")
    assert ran.code == 2 and "line 1 of the input has changed" in ran.err
    own.write_text("Bom dia.\nA porta.\n")
    assert quitmt(*words, "--resume").code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--mbr", "prune"), "--support given goes with exact MBR, not with --mbr prune"),
        (("--support", "others"), "--support-from and --support others do not go together"),
        (("--split",), "--support-from goes by lines, and --split by sentences"),
    ],
)
def test_refusals(quitmt: Quitmt, files: tuple[Path, Path, Path], words: tuple[str, ...], told: str) -> None:
    ran = quitmt("translate", files[0], "--support-from", files[1], *words)
    assert ran.code == 2 and told in ran.err
    assert ran.err.count("\n") <= 2 and "Traceback" not in ran.err


def test_refused_where_there_are_no_texts(quitmt: Quitmt, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    ran = quitmt("translate", files[0], "--support", "given")
    assert ran.code == 2 and "--support given needs the texts (give --support-from FILE)" in ran.err
    (tmp_path / "r.toml").write_text('[rerank]\nsupport = "given"\n')
    (tmp_path / "pools").write_text('{"id": "1", "source": "x", "candidates": ["a", "b"]}\n')
    ran = quitmt("serve", "--recipe", tmp_path / "r.toml")
    assert ran.code == 2 and "needs texts for each segment, and a server has none" in ran.err
    ran = quitmt("calibrate", tmp_path / "pools", "--recipe", tmp_path / "r.toml", "-o", tmp_path / "profile")
    assert ran.code == 2 and "needs texts for each segment, and a replay has none" in ran.err
