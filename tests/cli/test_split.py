"""``translate --split``: paragraphs sentence by sentence, one line out for each line in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SETTINGS = ("-q", "-n", "16", "-k", "8", "-w", "2")


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    path = tmp_path / "letter.en"
    path.write_text("Good morning. How are you?\n\n***\n  The house is old.\n", encoding="utf-8")
    return path


def test_each_sentence_is_a_segment_and_each_line_a_line(
    quitmt: Callable[..., Any], letter: Path, tmp_path: Path
) -> None:
    out, outcomes = tmp_path / "letter.pt", tmp_path / "o.jsonl"
    ran = quitmt("translate", letter, "--split", "-o", out, "--jsonl", outcomes, *SETTINGS)
    assert (ran.code, ran.err) == (0, "")
    found = [json.loads(line) for line in outcomes.read_text().splitlines()]
    assert [one["id"] for one in found] == ["1.1", "1.2", "2", "3", "4"]
    text = {one["id"]: one["translation"] for one in found}
    assert out.read_text() == f"{text['1.1']} {text['1.2']}\n\n***\n  {text['4']}\n"


def test_a_line_of_one_sentence_is_translated_as_without(quitmt: Callable[..., Any], tmp_path: Path) -> None:
    source = tmp_path / "a.en"
    source.write_text("The house is old.\nI saw a dog.\n", encoding="utf-8")
    assert quitmt("translate", source, "--split", *SETTINGS).out == quitmt("translate", source, *SETTINGS).out


def test_a_split_run_is_resumed_as_such_and_no_other(
    quitmt: Callable[..., Any], letter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mended_model.py").write_text(
        "from pathlib import Path\n"
        "def sample(source, start, stop):\n"
        "    if 'How' in source and not Path('mended').exists():\n"
        "        raise ValueError('no')\n"
        "    return [source.upper()] * (stop - start)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "letter.pt"
    run = ("translate", letter, "-o", out, "--model", "mended_model:sample", *SETTINGS)
    assert quitmt(*run, "--split").code == 1
    refused = quitmt(*run, "--resume")
    assert refused.code == 2 and "--split" in refused.err
    (tmp_path / "mended").touch()
    assert quitmt(*run, "--split", "--resume").code == 0
    assert out.read_text() == "GOOD MORNING. HOW ARE YOU?\n\n***\n  THE HOUSE IS OLD.\n"


def test_a_line_with_a_failed_sentence_is_blank(
    quitmt: Callable[..., Any], letter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fragile_model.py").write_text(
        "def sample(source, start, stop):\n"
        "    if 'How' in source:\n"
        "        raise ValueError('no')\n"
        "    return [source.upper()] * (stop - start)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    ran = quitmt("translate", letter, "--split", "--model", "fragile_model:sample", *SETTINGS)
    assert ran.code == 1 and ran.out == "\n\n***\n  THE HOUSE IS OLD.\n"
