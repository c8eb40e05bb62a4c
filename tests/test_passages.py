"""Texts taken apart and put together again: nothing but sentences is touched, and nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quitmt import passages
from quitmt.passages import LONGEST, split

TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\r\n\t .!?。\x00\x0c\u2028a1é中"), max_size=300
)


@given(TEXTS, st.sampled_from(["en", "pt", "zh", "xx", None, "pt-BR"]))
@example("a\r\n\rb\n", "en")
@example("One. Two.\x00Three. \x1f", "en")
@example("x" * 5000, "en")
@example("word " * 1000, "en")
def test_a_text_with_its_own_sentences_is_itself(text: str, language: str | None) -> None:
    passage = split(text, language)
    assert "".join(piece.text for piece in passage.pieces) == text
    for sentence in passage.sentences:
        assert sentence.text == sentence.text.strip() and 0 < len(sentence.text) <= LONGEST
        assert any(map(str.isalnum, sentence.text)) and not passages._CONTROL.search(sentence.text)
        assert "\n" not in sentence.text and "\r" not in sentence.text
    ids = [sentence.id for sentence in passage.sentences]
    assert len(set(ids)) == len(ids)


@given(TEXTS)
def test_only_sentences_change(text: str) -> None:
    passage = split(text, "en")
    changed = passage.joined(["#"] * len(passage.sentences), "en")
    assert [one for one in changed if not one.isalnum() and one not in "# "].count("\n") == text.count("\n")
    assert changed.count("\r") == text.count("\r")


@pytest.mark.parametrize(
    "text, ids",
    [
        ("Hello.", ["1"]),
        ("\n\nHello.\n", ["3"]),
        ("Hello. You.\r\nMe.", ["1.1", "1.2", "2"]),
        ("***\n—", []),
        ("Dr. Smith is here.", ["1"]),
        ("One.\x0cTwo.", ["1.1", "1.2"]),
    ],
)
def test_ids_are_the_numbers_of_lines(text: str, ids: list[str]) -> None:
    assert [sentence.id for sentence in split(text, "en").sentences] == ids


def test_lines_may_be_numbered_from_anywhere() -> None:
    passage = split("a\nb", "en", first=5)
    assert [sentence.id for sentence in passage.sentences] == ["5", "6"] and passage.lines == 2


def test_space_between_sentences_is_as_the_target_has_it() -> None:
    chinese = split("你好。我是谁？", "zh")
    assert len(chinese.sentences) == 2
    assert chinese.joined(["Hello.", "Who am I?"], "en") == "Hello. Who am I?"
    assert chinese.joined(["甲。", "乙？"], "ja") == "甲。乙？"
    english = split("Hello. Who am I?  So.", "en")
    assert english.joined(["你好。", "我是谁？", "好。"], "zh") == "你好。我是谁？  好。"
    assert english.joined(["Olá.", "Quem?", "Bem."], "pt") == "Olá. Quem?  Bem."


def test_a_translation_adds_no_lines() -> None:
    assert split("Hello.", "en").joined(["a\nb\r\nc"], "pt") == "a b c"


def test_what_no_sentence_is_as_long_as_is_cut_at_spaces() -> None:
    text = "word " * 500
    found = [sentence.text for sentence in split(text, "en").sentences]
    assert len(found) == 3 and " ".join(found) == text.strip()
