"""The summary says what the numbers show, and no more."""

from __future__ import annotations

import pytest

from quitmt.evaluate.equivalence import Comparison
from quitmt.lab.report import text
from quitmt.lab.rows import MetricColumn, RuleRow, Score

CHRF = MetricColumn("chrfpp", "chrF++")
METRICX = MetricColumn("metricx", "MetricX", lower_is_better=True)


def compared(low: float, high: float, sigma: float = 1.0) -> Comparison:
    return Comparison((low + high) / 2, (low, high), (low, high), sigma, (0.05, 0.02), (0.1, 0.2), 1, 1, 1)


def row(scores: dict[str, Score] | None = None, rule: str = "QUIT w=8", **speedups: float) -> RuleRow:
    return RuleRow("mbr:chrf", rule, 128.0, 0.125, scores or {}, **speedups)  # type: ignore[arg-type]


def test_a_saving_names_live_and_estimated_speedups_apart() -> None:
    said = text.saving(row(live=3.5, estimated=3.75), 512)
    assert said == (
        "mbr:chrf: QUIT w=8 draws 128.0 of 512 candidates per segment on average (75% fewer); 12.5% of the segments "
        "use the whole budget. Speedup over Unaccelerated: 3.50× measured live, 3.75× estimated from the replay."
    )
    assert "live" not in text.saving(row(estimated=3.75), 512)
    assert text.saving(row(), 512).endswith("budget.")


def test_equivalence_is_said_by_margin() -> None:
    scores = {"chrfpp": Score(50, compared(-0.01, 0.01)), "metricx": Score(5, compared(-0.3, 0.1))}
    assert text.kept(row(scores), [CHRF, METRICX]) == (
        "Its choices are equivalent to the whole pool's within 0.02σ by chrF++; not shown to be equivalent within "
        "0.05σ by MetricX."
    )
    wider = {"chrfpp": Score(50, compared(-0.04, 0.01))}
    assert "within 0.05σ by chrF++." in text.kept(row(wider), [CHRF])


@pytest.mark.parametrize(
    ("metric", "ends", "stop_reason"),
    [
        (CHRF, (0.1, 0.3), "it is better by chrF++ (+0.20, 95% interval +0.10 to +0.30)"),
        (CHRF, (-0.3, -0.1), "it is worse by chrF++ (−0.20, 95% interval −0.30 to −0.10)"),
        (CHRF, (-0.1, 0.3), "no difference shows by chrF++ (+0.10, 95% interval −0.10 to +0.30)"),
        (METRICX, (0.1, 0.3), "it is worse by MetricX (+0.20, 95% interval +0.10 to +0.30)"),
        (METRICX, (-0.3, -0.1), "it is better by MetricX (−0.20, 95% interval −0.30 to −0.10)"),
    ],
)
def test_a_difference_at_equal_cost_has_its_direction(
    metric: MetricColumn, ends: tuple[float, float], stop_reason: str
) -> None:
    said = text.at_equal_cost(row({metric.name: Score(1.0, fixed=compared(*ends))}), [metric])
    assert said == f"Against a fixed number of candidates at equal mean cost, {stop_reason}."


def test_sentences_are_about_the_named_rules() -> None:
    rows = [row(rule=rule) for rule in ("Unaccelerated", "QUIT w=4", "Fixed-N* (w=4)", "PruneMBR")]
    (named,) = text.about_rules(rows, [CHRF], budget=512, rules=["PruneMBR"])
    assert "PruneMBR" in named and named.endswith("budget.")


def test_nothing_is_said_without_comparisons() -> None:
    assert text.kept(row(), [CHRF]) == text.at_equal_cost(row(), [CHRF]) == ""
    assert text.pools(1997, 512, "bergamot") == "1,997 segments, up to 512 candidates each, sampled from bergamot."
    assert [text.listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
