"""Warnings on what a translation may have lost, from the two texts alone."""

from __future__ import annotations

import pytest

from quitmt.warnings import (
    ADVICE,
    APART,
    PARTLY,
    has_several_sentences,
    is_copy,
    is_much_shorter,
    kind,
    loses_markup,
    lost_characters,
    unknown_characters,
    warnings,
)

LONG = "The committee will publish its findings about the incident next week."


@pytest.mark.parametrize(
    "text",
    [
        "It is late. We go home.",
        "Stop! Who goes there?",
        'He said "no." She left.',
        "It was the end.  ¿Quién sabe?",
        "Wait… What?",
        "He plays in the band. Élodie sings.",
        "The first line\nand another one",
        "今天天气很好。我们去公园。",
        "آیا؟ بله",
    ],
)
def test_several_sentences(text: str) -> None:
    assert has_several_sentences(text)


@pytest.mark.parametrize(
    "text",
    [
        "It is late.",
        "Mr. Smith met Prof. J. Doe of Acme Inc. Tuesday.",
        "The U.S. Navy left at 5 p.m. Sunday.",
        "It costs 3.50 euros, No. 7 says.",
        "Wait... he said.",
        "Is it? he asked.",
        "今天天气很好。",
        "One line\n",
        "",
    ],
)
def test_one_sentence(text: str) -> None:
    assert not has_several_sentences(text)


def test_only_a_model_of_single_sentences_is_warninged_on() -> None:
    texts = "It is late. We go home.", "É tarde. Vamos para casa."
    assert warnings(*texts, sentence_level=True) == ("several sentences",)
    assert warnings(*texts) == ()


def test_much_shorter() -> None:
    assert is_much_shorter(LONG, "O comitê publicará.")
    assert not is_much_shorter(LONG, "O comitê divulgará o que apurou em breve.")
    assert not is_much_shorter("Thank you very much.", "Valeu.")  # short sources have translations of any length
    assert is_much_shorter("Hi.", " ")


def test_a_wide_script_is_not_short() -> None:
    chinese = "委员会将于下周公布有关该事件的调查结果。"
    assert len(chinese) < len(LONG.replace(" ", "")) / 2
    assert not is_much_shorter(LONG, chinese) and not is_much_shorter(chinese, LONG)
    assert is_much_shorter(LONG, chinese[:6])


def test_markup() -> None:
    source = '<p>Click <a href="x">here</a> &amp; wait.</p>'
    assert not loses_markup(source, '<p>Clique <a href="x">aqui</a> &amp; espere.</p>')
    assert loses_markup(source, '<p>Clique <a href="x">aqui</a> & espere.</p>')
    assert loses_markup(source, "Clique aqui e espere.")
    assert not loses_markup("3 < 4 and 5 > 4, AT&T; well", "rubbish")


@pytest.mark.parametrize("copy", ["We'll meet at the café …", "we'll meet at the café", "WE'LL  MEET AT THE CAFÉ!"])
def test_a_copy_of_prose(copy: str) -> None:
    assert is_copy("We'll meet at the café …", copy)
    assert not is_copy("We'll meet at the café …", f"{copy} amanhã")


@pytest.mark.parametrize(
    "text",
    ["Rio de Janeiro", "12.5 kg", "Hello.", "git commit -m fix", "x = sum(row for row in rows)", "ISO 9001", "北京"],
)
def test_names_numbers_code_and_words_may_stay(text: str) -> None:
    assert not is_copy(text, text)


def test_a_copy_in_a_script_without_capitals_and_spaces() -> None:
    assert is_copy("今天天气很好我们去公园散步吧。", "今天天气很好，我们去公园散步吧")


def test_every_warning_has_advice() -> None:
    everything = f"{LONG} <b>So it is.</b>"
    found = {*warnings(everything, "", sentence_level=True, unknown="☃"), *warnings(LONG, LONG)}
    assert {*map(kind, found), APART, PARTLY} == set(ADVICE)  # those two are about the candidates


@pytest.mark.parametrize(
    ("source", "translation", "unknown", "lost"),
    [
        ("I love 🍕 and 🍵.", "Eu adoro e 🍵.", "🍕🍵", "🍕"),
        ("Write to me@example.org", "Escreva para me example.org", "@", "@"),
        ("Write to me@example.org", "Escreva para me@example.org", "@", ""),
        ("« C’est l’été — déjà »", '"It\'s summer already"', "«’—»", ""),  # languages differ in these
        ("Il coûte 5 €.", "It costs 5 euros.", "€", ""),
        ("It costs 5 €.", "Custa 5.", "€", "€"),  # as the embedded model has it
        ("It costs 5 €.", "Стоит 5 евро.", "€", ""),
        ("Ma sœur arrive.", "My sister arrives.", "œ", ""),  # a letter of the language is not kept by a translation
        ("The word 水 is Chinese.", "A palavra é chinesa.", "水", "水"),
        ("x ≤ 5", "x 5", "≤", "≤"),
        ("10 ㎏ ①", "10 kg 1", "㎏①", ""),  # another form of the same
        ("☃", "", "☃", "☃"),
    ],
)
def test_only_characters_that_a_translation_should_have_are_lost(
    source: str, translation: str, unknown: str, lost: str
) -> None:
    assert lost_characters(source, translation, unknown) == lost


def test_a_character_that_is_known_in_its_word_is_known() -> None:
    """As in OPUS-MT's vocabularies: some pieces exist only within words, and some words have unknown pieces."""
    assert unknown_characters("5€ or 6€", lambda text: text == "€") == ""
    assert unknown_characters("plain French", lambda text: "French" in text) == ""
