"""Rules with a threshold in a study: their replay is the engine's run over the same pools, segment by segment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quitmt.api import Translator
from quitmt.errors import UsageError
from quitmt.generate.recorded import RecordedGenerator
from quitmt.lab.pipeline import check
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.pools.trajectories import compute, fitting_rules
from quitmt.lab.replay import rules
from quitmt.lab.study import Study, parse
from quitmt.lab.study.settings import RerankSettings
from quitmt.lab.study.testsets import StudyTestSet
from quitmt.types import Candidate, RecordedPool, Segment, StopReason
from tests.lab.studies import recorded_study

MakePool = Callable[[int, int], list[str]]
SIZES = [60] * 6 + [1, 2, 7, 21, 23, 24, 40, 48, 59]


def study_of(budget: int, step: int, rules: list[str], **more: Any) -> Study:
    found = {
        "test_set": {"tsv": "none.tsv"},
        "model": {"budget": budget},
        "rules": {"k": step, **more},
        "live": {"rules": rules},
    }
    return parse(found, "test")


@pytest.fixture
def pools(make_pool: MakePool) -> list[RecordedPool]:
    rng = np.random.default_rng(5)
    found = []
    for number, size in enumerate(SIZES):
        scores = rng.beta(2, 5, size).round(2)
        texts = make_pool(number, size)
        candidates = (Candidate(text, scores={"q": float(q)}) for text, q in zip(texts, scores, strict=True))
        found.append(RecordedPool(Segment(f"s{number}"), tuple(candidates)))
    return found


@pytest.mark.parametrize(
    ("reranker", "rule"),
    [
        ("mbr:chrf", "loss:most=0.01,minimum=6"),
        ("mbr:chrf", "loss:most=0.03"),
        ("mbr:chrf", "loss:new=0.1,scale=1,minimum=8"),
        ("qe:recorded:q", "headroom:top=1,share=0.02,minimum=4"),
        ("qe:recorded:q", "headroom:share=0.05,top=2"),
    ],
)
@pytest.mark.parametrize(("step", "budget"), [(4, 60), (3, 50), (8, 64)])
def test_a_replay_is_the_run(
    reranker: str, rule: str, step: int, budget: int, pools: list[RecordedPool], tmp_path: Path
) -> None:
    study = study_of(budget, step, [rule], beyond=["loss", "headroom"])
    own = [FullPool(pool.segment, pool.candidates[:budget], 0.0) for pool in pools]
    one = compute(
        reranker, own, RerankSettings(), ("en", "pt"), tmp_path, rules=rules.observed(study), step=step, budget=budget
    )
    (replayed,) = rules.with_thresholds(study, one)
    generator = RecordedGenerator(pools)
    translator = Translator(generator, reranker=reranker, rule=rule, k=step, n=budget, support="all")
    outcomes = translator.translate([Segment(pool.segment.id, "x") for pool in pools])
    assert replayed.name == rule
    assert [one.error for one in outcomes] == [None] * len(SIZES)
    assert replayed.size.tolist() == [one.size for one in outcomes]
    assert replayed.index.tolist() == [one.index for one in outcomes]
    assert replayed.full.tolist() == [one.size == budget for one in outcomes]
    if step == 4:  # else the above would say less than it seems to
        assert {one.stop for one in outcomes} >= {StopReason.DECIDED, StopReason.EXHAUSTED}


def test_rules_that_see_the_same_are_observed_once() -> None:
    study = study_of(
        64, 8, ["loss:most=0.01", "loss:new=0.1,most=0.5", "headroom"], beyond=["loss", "loss:new=0.1", "loss:looks=3"]
    )
    assert rules.observed(study) == ("loss", "loss:new=0.1", "loss:looks=3", "headroom")
    assert rules.observed(study_of(64, 8, [], beyond=[])) == ()


def test_only_what_was_observed_is_replayed(pools: list[RecordedPool], tmp_path: Path) -> None:
    own = [FullPool(pool.segment, pool.candidates, 0.0) for pool in pools]
    one = compute("qe:recorded:q", own, RerankSettings(), ("en", "pt"), tmp_path)
    assert rules.with_thresholds(study_of(512, 8, ["headroom", "loss"]), one) == ()


@pytest.mark.parametrize(
    ("section", "settings", "message"),
    [
        ("rules", {"beyond": ["quit"]}, r"\[rules\], beyond: 'quit' is not a rule with a threshold \(there is loss"),
        (
            "rules",
            {"beyond": ["loss:most=1"]},
            r"all thresholds of 'loss:most=1' are tried.* \(leave out most\)",
        ),
        ("live", {"rules": ["fixed:8"]}, r"\[live\], rules: 'fixed:8' is not a rule with a threshold"),
    ],
)
def test_what_cannot_be_is_refused(section: str, settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    study = recorded_study(tmp_path, **{section: settings})
    segments = (Segment("1", "x"),)
    with pytest.raises(UsageError, match=message):
        check(study, StudyTestSet("x", segments, (("r",),)), ("en", "pt"))


def test_a_rule_of_ones_own_is_studied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_rule_to_study.py").write_text(
        "from dataclasses import dataclass\nfrom quitmt.stop.headroom import Headroom\n\n\n"
        "@dataclass(frozen=True)\nclass Eager(Headroom):\n    top: float = 1.0\n    minimum: int = 2\n"
    )
    study = recorded_study(tmp_path, rules={"beyond": ["own_rule_to_study:Eager"], "k": 2})
    rules.check_thresholds(study)
    assert list(fitting_rules("qe:recorded:q", study.rules.beyond, 2, 64)) == ["own_rule_to_study:Eager"]
    assert fitting_rules("mbr:chrf", study.rules.beyond, 2, 64) == {}


def test_a_learned_top_is_a_number_in_a_replay(pools: list[RecordedPool], tmp_path: Path) -> None:
    """The number is that of all segments, and a rule by that name is the same live."""
    study = study_of(60, 1, ["headroom:share=0.05,minimum=4"], beyond=["loss", "headroom:minimum=4"])
    own = [FullPool(pool.segment, pool.candidates, 0.0) for pool in pools]
    one = compute("qe:recorded:q", own, RerankSettings(), ("en", "pt"), tmp_path, rules=rules.observed(study), step=1)
    top = np.quantile([max((c.scores or {})["q"] for c in pool.candidates) for pool in pools], 0.99)
    assert list(rules.fitting(study, one, study.rules.beyond)) == [f"headroom:top={top:.4g},minimum=4"]
    (replayed,) = rules.with_thresholds(study, one)
    assert replayed.name == f"headroom:top={top:.4g},share=0.05,minimum=4"
    translator = Translator(RecordedGenerator(pools), reranker="qe:recorded:q", rule=replayed.name, n=60)
    outcomes = translator.translate([Segment(pool.segment.id, "x") for pool in pools])
    assert replayed.size.tolist() == [one.size for one in outcomes]
