"""The choice of candidates, and the reasons for choosing none."""

from __future__ import annotations

import statistics

import pytest

from quitmt.errors import UsageError
from quitmt.export import choose
from quitmt.export.choose import Margin, Strategy
from quitmt.export.entries import RankedPool
from quitmt.export.filters import Filters
from quitmt.types import Ranked

NO_FILTERS = Filters({})
NO_MARGIN = Margin(0.0)
LIST = [
    Ranked(4, "the house is old", 0.9, 1),
    Ranked(0, "the house is so old", 0.7, 6),
    Ranked(2, "xyz quux", 0.5, 2),
    Ranked(-1, "the house old", 0.4, 0, None, "greedy"),
    Ranked(3, "house", 0.1, 1),
]
RANKED = RankedPool.of(LIST)


@pytest.mark.parametrize(
    ("how", "texts"),
    [
        ("worst", ["house", "the house old"]),
        ("quantile:0", ["house", "the house old"]),
        ("quantile:0.3", ["xyz quux", "the house old"]),
        ("quantile:1", ["the house is so old", "xyz quux"]),
        ("greedy", ["the house old"]),
    ],
)
def test_the_rejected_ones(how: str, texts: list[str]) -> None:
    found = choose.pairs("s", RANKED, NO_FILTERS, Strategy.parse(how), NO_MARGIN, 2)
    assert [one.text for one in found] == [LIST[0].text, *texts]  # type: ignore[union-attr]


def test_margins() -> None:
    worst = Strategy.parse("worst")
    scores = [score for one in LIST for score in [one.score] * max(1, one.count)]
    assert choose.deviation(RANKED) == pytest.approx(statistics.pstdev(scores))
    for margin, count in (("0.79", 1), ("0.81", 0), ("0.41", 2), ("2sd", 2), ("0sd", 4)):
        found = choose.pairs("s", RANKED, NO_FILTERS, worst, Margin.parse(margin), 9)
        assert len(found) == 1 + count if count else found == choose.CLOSE, margin


def test_a_tie_is_no_pair() -> None:
    tied = [Ranked(0, "a", 0.5), Ranked(1, "b", 0.5)]
    assert choose.pairs("s", RankedPool.of(tied), NO_FILTERS, Strategy.parse("worst"), NO_MARGIN) == choose.CLOSE


def test_reasons() -> None:
    worst, greedy = Strategy.parse("worst"), Strategy.parse("greedy")
    nothing = Filters({"all": lambda source, text: True})
    assert choose.pairs("s", RankedPool(), NO_FILTERS, worst, NO_MARGIN) == choose.UNSCORED
    assert choose.pairs("s", RankedPool.of(LIST[:1]), NO_FILTERS, worst, NO_MARGIN) == choose.ONE
    assert choose.pairs("s", RANKED, nothing, worst, NO_MARGIN) == choose.LEFT_OUT
    assert choose.pairs("s", RankedPool.of(LIST[:3]), NO_FILTERS, greedy, NO_MARGIN) == choose.NO_GREEDY
    assert choose.pairs("s", RankedPool.of(LIST[3:]), NO_FILTERS, greedy, NO_MARGIN) == choose.GREEDY_IS_BEST
    assert choose.everything("s", RankedPool.of(LIST[:1]), NO_FILTERS, at_least=2) == choose.ONE
    assert choose.everything("s", RANKED, nothing) == choose.LEFT_OUT


def test_filters_are_for_both_sides() -> None:
    long = Filters({"long": lambda source, text: text in (LIST[0].text, LIST[4].text)})
    found = choose.pairs("s", RANKED, long, Strategy.parse("worst"), NO_MARGIN)
    assert found == [LIST[1], LIST[3]]
    assert choose.best("s", RANKED, long) == [LIST[1]]
    assert choose.everything("s", RANKED, long) == LIST[1:4]


@pytest.mark.parametrize("text", ["quantile:2", "quantile:x", "worst:1", "best", ""])
def test_unknown_strategies(text: str) -> None:
    with pytest.raises(UsageError):
        Strategy.parse(text)


@pytest.mark.parametrize("text", ["x", "-1", "nan", "sd", "infsd"])
def test_margins_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="the margin must be a number"):
        Margin.parse(text)
