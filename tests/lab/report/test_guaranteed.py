"""What a study proves: chains whose quality is made up, so that the right answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quitmt.calibrate.quality import QualityRequest
from quitmt.lab.report import advice, guaranteed
from quitmt.lab.report.configurations import Configuration
from quitmt.lab.report.guaranteed import Chain, Proven, cheapest_proven
from quitmt.lab.rows import MetricColumn
from quitmt.lab.study import Study
from quitmt.lab.study.settings import ModelSettings, TestSetSettings
from tests.lab.report.test_advice import CHRF, ERRORS, found, greedy, option

NOT_WORSE = QualityRequest(guaranteed.MARGIN, not_worse=True)


def chain(*rules: tuple[str, float, float], segments: int = 300, noise: float = 0.3) -> Chain:
    return [option(rule, cost, mean, segments=segments, noise=noise) for rule, cost, mean in rules]


def proven(
    *chains: Chain, request: QualityRequest = NOT_WORSE, segments: int = 300, metric: MetricColumn = CHRF
) -> Proven:
    base = option("all 64", 64, 50, segments=segments, noise=0.3, estimated=2.0)
    return cheapest_proven(base, chains, [metric], request)


@pytest.mark.parametrize("metric", [CHRF, ERRORS])
def test_the_cheapest_of_all_chains(metric: MetricColumn) -> None:
    careful = chain(("a", 60, 50), ("b", 30, 50.5), ("c", 8, 45))
    one = proven(careful, chain(("d", 16, 50.02)), metric=metric)
    assert one.chosen is not None and one.chosen.rule == "d"
    assert one.differences[metric.name] == pytest.approx(0.002, abs=0.005)
    told = next(guaranteed.sentences([one]))
    assert told.startswith(
        "Cheapest option that is proven not to be worse than the whole pool (T=1, mbr:chrf, all 64) by"
    )
    assert told.endswith("T=1, mbr:chrf, d, with 16.0 of 64 candidates per segment.")
    # Better by more than the margin is not equivalent, and ends its chain.
    same = proven(careful, request=QualityRequest(guaranteed.MARGIN), metric=metric)
    assert same.chosen is not None and same.chosen.rule == "a"


def test_greedy_may_do() -> None:
    better = proven([greedy(51, segments=300)])
    assert better.chosen is not None and better.chosen.rule == "greedy"


def test_too_few_segments_are_told() -> None:
    rules = ("a", 60, 50.0), ("b", 30, 50.0)
    few = proven(chain(*rules, segments=60, noise=2), segments=60)
    assert few.chosen is None and few.nearest is not None and few.nearest[0].rule == "b"
    told = next(guaranteed.sentences([few]))
    assert "No cheaper option is proven" in told
    assert f"60 segments are too few; T=1, mbr:chrf, b would need about {few.nearest[1]:,}." in told
    table = guaranteed.table([few], [CHRF])
    assert [cell.value for cell in table.rows[0]][2:] == ["nothing proven", few.nearest[1]]


def test_speedups_are_told() -> None:
    fast = [replace(one, estimated=0.2) for one in chain(("b", 6, 51))]
    one = proven(fast)
    assert next(guaranteed.sentences([one])).endswith(", 10.0 times as fast (estimated).")
    (row,) = guaranteed.table([one], [CHRF]).rows
    assert row[-1].value == pytest.approx(10.0)


def test_segments_without_a_score_are_left_out() -> None:
    careful: Configuration = option("b", 30, 51, segments=300)
    careful.quality["chrfpp"][7] = np.nan
    one = proven([careful])
    assert one.segments == 299 and one.chosen is careful


def test_is_it_worth_it() -> None:
    yes, *_ = advice.sentences(found(greedy(50), option("all 8", 8, 52)))
    assert yes.startswith(
        "Is reranking worth it here? Yes: the best is significantly better than greedy decoding (+2.00"
    )
    assert yes.endswith("chrF++, for 8.0 candidates per segment).")
    unsure, *_ = advice.sentences(found(greedy(50), option("all 8", 8, 50.01, noise=5)))
    assert "worth it here? Not shown: no option is significantly better than greedy" in unsure
    no, *_ = advice.sentences(found(greedy(50), option("all 8", 8, 49)))
    assert no == "Is reranking worth it here? No: greedy is the best of all, without reranking."
    assert not any("worth it" in said for said in advice.sentences(found(option("all 8", 8, 49))))


def test_rules_that_cannot_stop_early_are_left_out() -> None:
    study = Study(TestSetSettings(tsv="x"), model=ModelSettings(budget=64))
    (arm,) = study.arms()
    assert arm.study.rules.windows == (2, 4, 6)
    assert arm.study.rules.alpha_windows == arm.study.live.windows == (4,)
    assert study.able((16,)) == (16,)  # one must be left
