"""What to use: chosen from options whose quality is made up, so that the right answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quitmt.lab.report import advice
from quitmt.lab.report.advice import Overview, overview
from quitmt.lab.report.configurations import Configuration, Measured
from quitmt.lab.rows import MetricColumn
from quitmt.lab.study import Study
from quitmt.lab.study.settings import EvaluateSettings, TestSetSettings

STUDY = Study(TestSetSettings(tsv="x"), evaluate=EvaluateSettings(resamples=400))
CHRF = MetricColumn("chrfpp", "chrF++")
ERRORS = MetricColumn("metricx", "MetricX", 2, lower_is_better=True)


def option(
    rule: str, cost: float, mean: float, *, segments: int = 120, noise: float = 0.5, **more: Any
) -> Configuration:
    """Segments differ much from each other, and options on one segment little."""
    hard = np.random.default_rng(1).normal(0, 10, segments)
    own = np.random.default_rng(len(rule) + round(7 * cost)).normal(0, noise, segments)
    values = mean + hard + own - own.mean()
    names = more.pop("sampling", "T=1"), more.pop("reranker", "mbr:chrf")
    quality = {"chrfpp": values, "metricx": 20 - values / 10}
    return Configuration(*names, rule, cost, cost, quality, **more)


def greedy(mean: float, segments: int = 120) -> Configuration:
    return option("greedy", 1, mean, sampling="", reranker="", segments=segments)


def found(*options: Configuration, metric: MetricColumn = CHRF) -> Overview:
    one = overview(options, [metric], STUDY)
    assert one is not None
    return one


def test_the_best_at_each_cost() -> None:
    one = found(greedy(50), option("few", 7, 52), option("more", 30, 54), option("all 64", 64, 54.0001))
    assert [(choice.limit, choice.option.rule) for choice in one.choices] == [
        (1, "greedy"), (8, "few"), (32, "more"), (np.inf, "all 64"),
    ]  # fmt: skip
    # The last one has nothing to show for its cost.
    assert one.cheapest is not None and one.cheapest.option.rule == "more"
    few = one.choices[1]
    assert few.value == pytest.approx(few.option.quality["chrfpp"].mean())
    assert few.greedy is not None and few.greedy.difference == pytest.approx(2.0)
    assert few.greedy.interval[0] > 1.5 and few.best_again == 1.0
    assert 0.2 < one.choices[-1].best_again < 0.8  # of two that are alike
    assert one.choices[-1].held_out == pytest.approx(4.0, abs=0.2)


def test_less_is_better_for_some_metrics() -> None:
    one = found(greedy(50), option("few", 7, 52), option("worse", 9, 40), metric=ERRORS)
    assert one.choices[-1].option.rule == "few"
    assert one.choices[-1].greedy is not None and one.choices[-1].greedy.difference == pytest.approx(-0.2)
    assert one.choices[-1].held_out == pytest.approx(-0.2, abs=0.02)
    assert "Worse than greedy" not in " ".join(advice.sentences(one))
    bad = found(greedy(50), option("all 8", 8, 40), metric=ERRORS)
    text = " ".join(advice.sentences(bad))
    assert "Worse than greedy with the whole pool: T=1, mbr:chrf, all 8 (+1.00, 95%" in text


def test_of_equals_the_cheapest() -> None:
    same = option("a", 4, 50)
    dear = Configuration("T=1", "mbr:chrf", "b", 9, 9, same.quality)
    one = found(dear, same)
    assert [choice.option.rule for choice in one.choices] == ["a"] and one.choices[0].best_again == 1.0


def test_fixed_sizes_of_equal_cost_are_no_choice() -> None:
    one = found(greedy(50), option("Fixed-N*", 7, 60, is_choice=False))
    assert one.choices[-1].option.rule == "greedy"


def test_words_say_what_is_not_shown() -> None:
    options = option("all 8", 8, 50.01), option("all 9", 9, 45), option("all 7", 7, 55)
    said = list(advice.sentences(found(greedy(50), *options)))
    text = " ".join(said)
    assert said[1].startswith("Best of all: T=1, mbr:chrf, all 7, with 7.0 candidates per segment: chrF++ ")
    assert "Not shown to be better than greedy with the whole pool: T=1, mbr:chrf, all 8 (+0.01, 95% interval −" in text
    assert "Worse than greedy with the whole pool: T=1, mbr:chrf, all 9 (−5.00, 95% interval −" in text
    assert "Better than greedy with the whole pool: T=1, mbr:chrf, all 7 (+5.00, 95% interval +" in text
    assert "segments. Fewer than" not in text


def test_many_whole_pools_are_named_by_reranker() -> None:
    """A sentence of eleven intervals is not read; the table has them."""
    bad = [option("all 8", 8, 40 + number, sampling=f"T={number}") for number in range(4)]
    text = " ".join(advice.sentences(found(greedy(50), *bad)))
    assert "with the whole pool (the table of all options has the numbers): mbr:chrf (T=0 · T=1 · T=2 · T=3)." in text


def test_few_segments_have_a_caveat_and_no_greedy_is_said() -> None:
    few = found(option("a", 4, 50, segments=12))
    text = " ".join(advice.sentences(few))
    assert "The study has 12 segments. Fewer than 100 say little about other texts" in text
    assert "There is no greedy decoding to compare with" in text
    assert few.choices[0].greedy is None and few.choices[0].held_out is None


def test_nothing_is_recommended_without_a_metric() -> None:
    assert overview([greedy(50)], [], STUDY) is None
    assert list(advice.sentences(None)) == [
        "No metric judges the translations, so nothing can be recommended: name one in [evaluate].",
    ]


def test_seconds_measured_and_estimated_have_columns_of_their_own() -> None:
    live = Measured(6, 0.25, {"chrfpp": 51.0})
    one = found(greedy(50), option("a", 4, 52, estimated=0.5, live=live), option("b", 3, 51, estimated=0.4))
    for table in (advice.choices_table(one), advice.options_table(one)):
        keys = [column.key for column in table.columns]
        row = next(row for row in table.rows if {"a", "T=1, mbr:chrf, a"} & {cell.value for cell in row})
        assert row[keys.index("seconds_estimated")].value == 0.5 and row[keys.index("seconds_live")].value == 0.25
    assert "0.250 s, measured live" in list(advice.sentences(one))[1]
