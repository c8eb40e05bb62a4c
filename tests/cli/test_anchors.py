"""Anchors on the command line: from the model, from a file, in kept pools and in what is resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran

Quitmt = Callable[..., Ran]
LINES = ("Good morning.", "", "The door is open and the window is closed.")
FEW = ("-n", 16, "--stop", "fixed:8")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.en"
    path.write_text("\n".join(LINES) + "\n")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_outcomes_and_pools_have_them_and_a_replay_uses_them(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    files = ("-o", tmp_path / "out", "--jsonl", tmp_path / "live", "--keep-pools", tmp_path / "pools")
    assert quitmt("translate", text, *FEW, "--anchors", "greedy,2@0.3", *files).code == 0
    live = [one for one in read(tmp_path / "live") if one["size"]]
    assert all(one["anchors"] == 3 and one["size"] == 8 for one in live)
    pools = read(tmp_path / "pools")
    assert [pool["origins"] for pool in pools] == [["greedy", "2@0.3", "2@0.3"]] * 2
    assert all(len(pool["anchors"]) == 3 and len(pool["candidates"]) == 8 for pool in pools)
    assert ",a:greedy,2@0.3" in live[0]["signature"] and "s:anchor" in live[0]["signature"]
    for words, same in (((), True), (("--anchors", "none"), False), (("--preset", "paper"), False)):
        replay = tmp_path / "replay"
        assert quitmt("rerank", tmp_path / "pools", *FEW, *words, "--jsonl", replay, "-o", "/dev/null").code == 0
        kept = ("translation", "index", "score", "size", "origin")
        found = [[[one.get(name) for name in kept] for one in each] for each in (read(replay), live)]
        assert found[0] == found[1] or not same
        assert all(("anchors" in one) is same for one in read(replay))


def test_translations_of_ones_own(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    drafts, more = tmp_path / "drafts", tmp_path / "more"
    drafts.write_text("Bom dia.\n\nA porta está aberta e a janela está fechada.\n")
    more.write_text("\n\nA porta aberta.\n")
    words = ("--anchors", "none", "--anchors-from", drafts, "--anchors-from", more)
    assert quitmt("translate", text, *FEW, *words, "--keep-pools", tmp_path / "pools").code == 0
    pools = read(tmp_path / "pools")
    assert [pool["anchors"] for pool in pools] == [
        ["Bom dia."],
        ["A porta está aberta e a janela está fechada.", "A porta aberta."],
    ]
    assert pools[0]["origins"] == ["given"]


def test_a_changed_draft_is_noticed_on_resume(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    drafts, out = tmp_path / "drafts", tmp_path / "out"
    drafts.write_text("Bom dia.\n")
    words = ("translate", text, *FEW, "--anchors-from", drafts, "-o", out)
    assert quitmt(*words).code == 2
    drafts.write_text("Boa noite.\n\n\n")
    ran = quitmt(*words, "--resume")
    assert ran.code == 2 and "line 1 of the input has changed" in ran.err
    drafts.write_text("Bom dia.\n\n\n")
    assert quitmt(*words, "--resume").code == 0
    assert out.read_text().count("\n") == 3


def test_preset_and_recipe_do_not_go_together(quitmt: Quitmt, text: Path, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("[stop]\nw = 4\n")
    ran = quitmt("translate", text, "--preset", "paper", "--recipe", tmp_path / "r.toml")
    assert ran.code == 2 and 'write preset = "paper" at the top of the file' in ran.err


def test_lines_of_ones_own_do_not_go_with_sentences(quitmt: Quitmt, text: Path) -> None:
    ran = quitmt("translate", text, "--split", "--anchors-from", text)
    assert ran.code == 2 and "--anchors-from goes by lines, and --split by sentences" in ran.err
