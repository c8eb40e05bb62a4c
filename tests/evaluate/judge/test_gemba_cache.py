"""The judge's answers on disk: damaged ones are not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from quitmt.evaluate.judge.cache import Answers

KNOWN = {f"key-{i}": f"Critical:\nno-error\nMajor:\naccuracy/omission – '{i}'\nMinor:\nno-error" for i in range(4)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    answers = Answers(tmp_path / "judge.jsonl")
    for key, answer in KNOWN.items():
        answers.put(key, answer, {"source": "olá", "temperature": 0.0})
    answers.close()
    return tmp_path / "judge.jsonl"


def test_a_flipped_bit_is_never_believed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = path.read_bytes()
    for place in range(0, len(data) * 8, 3):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        caplog.clear()
        answers = Answers(path)
        found = {key: answers.get(key) for key in KNOWN}
        assert all(answer in (None, KNOWN[key]) for key, answer in found.items())
        lost = list(found.values()).count(None)
        assert lost <= 2
        assert not lost or "are damaged or cut off and are not used" in caplog.text


def test_an_answer_that_is_no_text_is_kept_as_well_as_it_can_be(path: Path) -> None:
    answers = Answers(path)
    answers.put("half", "half of a pair: \ud83d", {"error": "\udcff"})
    answers.close()
    assert Answers(path).get("half") == "half of a pair: \ufffd"
