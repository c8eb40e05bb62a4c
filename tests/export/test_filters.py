"""Filters of bad training data."""

from __future__ import annotations

import pytest

from quitmt.errors import UsageError
from quitmt.export import filters

PORTUGUESE = "A casa velha perto do rio está à venda há muitos anos."
ENGLISH = "The old house near the river has been for sale for many years."


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PORTUGUESE, None),
        ("", "blank"),
        (" \n", "blank"),
        (ENGLISH.upper(), "copied"),
        ("Das alte Haus am Fluss steht seit vielen Jahren zum Verkauf.", "language"),
        ("Sim.", "length"),
        (PORTUGUESE * 5, "length"),
        ("A casa velha velha velha velha velha está à venda.", "repetition"),
        ("A casa ahahahahahahahah está à venda há muitos anos.", "repetition"),
        ("A casa bbbb a ebb a ebb a ebb a ebb a está à venda há muitos anos.", "repetition"),  # after a short run
        ("Não, não, não! A casa velha perto do rio não está à venda.", None),
    ],
)
def test_the_reason_for_each(text: str, reason: str | None) -> None:
    every = filters.make(filters.parse(None, "pt"), "pt-BR")
    assert every.reason(ENGLISH, text) == reason


def test_names() -> None:
    assert filters.parse(None, None) == ("copied", "length", "repetition", "duplicate")
    assert filters.parse("none", None) == () and filters.parse("length, copied", None) == ("length", "copied")
    assert filters.make(filters.parse("copied", None)).reason(ENGLISH, "Sim.") is None
    with pytest.raises(UsageError, match="did you mean 'copied'"):
        filters.parse("copyed", None)
    with pytest.raises(UsageError, match="needs the target language"):
        filters.parse("language", None)
    with pytest.raises(UsageError, match="doesn't know 'tlh'"):
        filters.make(("language",), "tlh")
    with pytest.raises(UsageError, match="max_ratio must be at least 1"):
        filters.make((), None, 0.5)


def test_short_texts_are_not_judged_by_language() -> None:
    assert filters.make(("language",), "pt").reason("Yes.", "Okay, thanks.") is None
