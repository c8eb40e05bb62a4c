"""Cleaning: what models put around a translation goes, the translation stays."""

from __future__ import annotations

import pytest

from quitmt.generate.prompts.clean import clean


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Bom dia.", "Bom dia."),
        ("  Bom dia.\n", "Bom dia."),
        ("<think>\n\n</think>\n\nBom dia.", "Bom dia."),
        ("<think>Good means bom.</think>Bom dia.", "Bom dia."),
        ('"Bom dia."', "Bom dia."),
        ("“Bom dia.”", "Bom dia."),
        ("«Bom dia.»", "Bom dia."),
        ("Translation: Bom dia.", "Bom dia."),
        ("**Translation:** Bom dia.", "Bom dia."),
        ("Here is the translation:\n\nBom dia.", "Bom dia."),
        ("Sure! Here's the Portuguese translation:\nBom dia.", "Bom dia."),
        ("Portuguese (Brazil) translation: Bom dia.", "Bom dia."),
        ("```\nBom dia.\n```", "Bom dia."),
        ("```text\nBom dia.\n```", "Bom dia."),
        ("Bom dia.\n\nNote: this is informal.", "Bom dia."),
        ("Bom dia.\n\n(Note that one could also say olá.)", "Bom dia."),
        ("Bom dia.\n\nLet me know if you need more.", "Bom dia."),
        ('<think></think>\nTranslation:\n"Bom dia."\n\nNote: literal.', "Bom dia."),
        ("The word is bom.</think>Bom dia.", "Bom dia."),
        # What belongs to the translation stays.
        ("Lost in Translation: a memoir", "Lost in Translation: a memoir"),
        ("Bom dia.\n\nComo vai?", "Bom dia.\n\nComo vai?"),
        ('"Bom" e "dia"', '"Bom" e "dia"'),
        ("Nota: bom dia.", "Nota: bom dia."),
        ("D'accord", "D'accord"),
        ('"', '"'),
        ("", ""),
        # Rather something odd than nothing.
        ("Translation:", "Translation:"),
        ("<think>I never stopped", "<think>I never stopped"),
    ],
)
def test_answers(answer: str, expected: str) -> None:
    assert clean(answer, "Good morning.") == expected


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ('"Good morning."', '"Bom dia."'),
        ("Translation: a history", "Translation: uma história"),
        ("Text.\n\nNote: mind the gap.", "Texto.\n\nNote: cuidado com o vão."),
        ("Use <think> tags.", "<think> use tags </think>"),
    ],
)
def test_what_the_source_has_is_not_taken_away(source: str, answer: str) -> None:
    assert clean(answer, source) == answer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("a" + "\n" * 100_000 + "b", "a" + "\n" * 100_000 + "b"),
        ("a" + "\n \t" * 100_000 + "Note: b", "a"),
        ("<think>" * 100_000 + "a", "<think>" * 100_000 + "a"),
        ("<think>" * 100_000 + "</think>a", "a"),
        ("<think></think>" * 100_000 + "a", "a"),
        ("a\n\n" + "-" * 100_000 + " b", "a\n\n" + "-" * 100_000 + " b"),
        ("```\n" * 100_000, "```\n" * 99_997 + "```"),
        ("Translation" + " " * 100_000 + "a", "Translation" + " " * 100_000 + "a"),
    ],
    ids=range(8),
)
def test_answers_that_backtracking_never_finished(answer: str, expected: str) -> None:
    assert clean(answer, "x") == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Bom<think>hm</think> dia.", "Bom dia."),
        ("It is <think>hm</think>bom.</think>Bom <THINKING>hm</thinking>dia.", "Bom dia."),
        ("Bom dia.<think>But what if", "Bom dia.<think>But what if"),
        ("Bom dia.\n\n---\n\n**Note:** informal.", "Bom dia."),
        ("Bom dia.\n\n---\n\nBoa noite.", "Bom dia.\n\n---\n\nBoa noite."),
        ("Bom dia.\nNote: informal.", "Bom dia.\nNote: informal."),
    ],
)
def test_blocks_in_the_middle(answer: str, expected: str) -> None:
    assert clean(answer, "Good morning.") == expected
