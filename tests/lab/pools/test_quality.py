"""Quality: everything that a rule could choose has a score, each computed once."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from quitmt.errors import UsageError
from quitmt.evaluate.metrics import Scores
from quitmt.lab.frames import QualityScores, Trajectories
from quitmt.lab.pools import quality as module
from quitmt.lab.pools.quality import Wanted, wanted
from quitmt.lab.pools.quality import evaluate as evaluate_all
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.pools.store import RowStore
from quitmt.lab.pools.trajectories import accelerated, accelerated_rerankers, compute
from quitmt.lab.replay.rules import matched_fixed, quit_rule
from quitmt.lab.study.settings import RerankSettings
from quitmt.types import Candidate, Segment
from tests.lab.arrays import fixed
from tests.lab.studies import REFERENCES, SOURCES, Invented, watch_metrics

SIZE = 24
MORE = tuple(f"{text} Outra." for text in REFERENCES)


def evaluate(spec: str, request: Wanted, folder: Path, *more: Any) -> QualityScores:
    (found,) = evaluate_all(spec, [request], folder, *more)
    return found


@pytest.fixture
def pools() -> list[FullPool]:
    invented, rng, found = Invented(), np.random.default_rng(4), []
    for number, size in enumerate([SIZE, SIZE, 5, SIZE]):
        segment = Segment(str(number), SOURCES[number])
        texts = [invented.text(segment, index) for index in range(size)]
        candidates = tuple(Candidate(text, scores={"q": float(rng.random())}) for text in texts)
        found.append(FullPool(segment, candidates, 1.0))
    return found


@pytest.fixture
def both(pools: list[FullPool], tmp_path: Path) -> list[Trajectories]:
    specs = ("mbr:chrf", "qe:recorded:q")
    return [compute(spec, pools, RerankSettings(), ("en", "pt"), tmp_path / "t") for spec in specs]


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The translations that the metric was asked about."""
    texts: list[str] = []
    watch_metrics(monkeypatch, texts.extend)
    return texts


def test_every_choice_of_any_rule_is_scored(pools: list[FullPool], both: list[Trajectories], tmp_path: Path) -> None:
    [(name, pruned)] = accelerated_rerankers("mbr:chrf", "prune", RerankSettings(), ("en", "pt")).items()
    faster = accelerated(both[0], name, pruned, pools, tmp_path / "t").replayed
    found = evaluate("chrf++", wanted(pools, [REFERENCES[:4]], [*both, faster]), tmp_path)
    rng = np.random.default_rng(0)
    for one in both:
        rules = [fixed(one, size, SIZE) for size in range(1, SIZE + 1)]
        rules += [matched_fixed(one, mean, SIZE, seed=seed) for seed, mean in enumerate(rng.uniform(1, 19, 10))]
        for _ in range(20):
            k, w, alpha = int(rng.integers(1, 9)), int(rng.integers(2, 6)), float(rng.choice([0, 1e-3, 0.1, 1]))
            rules.append(quit_rule(one, k=k, w=w, alpha=alpha, budget=SIZE))
        for rule in rules:
            assert np.isfinite(found.of(rule)).all(), rule.name
    assert np.isfinite(found.of(faster)).all()
    assert np.isnan(found.values).any()  # and not simply everything
    row, index = np.argwhere(np.isfinite(found.values))[-1]
    text = pools[row].candidates[index].text
    assert found.values[row, index] == CHRF(word_order=2).sentence_score(text, [REFERENCES[row]]).score
    assert (found.metric, found.lower_is_better) == ("chrF++", False)
    assert found.signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:2")


def test_a_score_is_computed_once(
    pools: list[FullPool], both: list[Trajectories], tmp_path: Path, scored: list[str]
) -> None:
    first = evaluate("chrf++", wanted(pools, [REFERENCES[:4]], both[:1]), tmp_path)
    assert len(scored) == len(set(scored)) > 4
    before, done = list(scored), list[int]()
    what = wanted(pools, [REFERENCES[:4]], both)
    second = evaluate("chrf++", what, tmp_path, None, done.append)
    assert len(scored) == len(set(scored)) > len(before)  # only what another reranker chooses as well
    assert sum(done) == len(what.texts)
    known = np.isfinite(first.values)
    assert np.array_equal(second.values[known], first.values[known])
    again = evaluate("chrf++", what, tmp_path)
    assert len(scored) == len(set(scored))
    assert np.array_equal(again.values, second.values, equal_nan=True) and again.signature == second.signature


def test_metrics_do_not_take_each_others_scores(
    pools: list[FullPool], both: list[Trajectories], tmp_path: Path
) -> None:
    what = wanted(pools, [REFERENCES[:4]], both)
    found = {spec: evaluate(spec, what, tmp_path) for spec in ("chrf", "chrf++", "bleu")}
    means = {spec: round(float(np.nanmean(one.values)), 6) for spec, one in found.items()}
    assert len(set(means.values())) == 3
    assert len({one.signature for one in found.values()}) == 3


def test_other_references_are_other_scores(pools: list[FullPool], both: list[Trajectories], tmp_path: Path) -> None:
    one = evaluate("chrf++", wanted(pools, [REFERENCES[:4]], both), tmp_path)
    other = evaluate("chrf++", wanted(pools, [MORE[:4]], both), tmp_path)
    several = evaluate("chrf++", wanted(pools, [REFERENCES[:4], MORE[:4]], both), tmp_path)
    known = np.isfinite(one.values)
    assert not np.array_equal(one.values[known], other.values[known])
    assert np.array_equal(several.values[known], np.maximum(one.values, other.values)[known])  # chrF: the nearest
    assert several.signature.startswith("nrefs:2")


def test_a_killed_evaluation_continues(
    pools: list[FullPool], both: list[Trajectories], tmp_path: Path, scored: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 3)
    what = wanted(pools, [REFERENCES[:4]], both)
    count = 0

    def tell(done: int) -> None:
        nonlocal count
        count += done
        if count > 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate("chrf++", what, tmp_path, None, tell)
    [folder] = tmp_path.glob("quality-*")
    assert len(RowStore(folder).keys()) == 6
    before = len(scored)
    evaluate("chrf++", what, tmp_path)
    assert len(scored) - before == len(what.texts) - 6


def test_a_metric_of_ones_own_without_a_source(
    pools: list[FullPool], both: list[Trajectories], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shortness(translation: str, reference: str) -> float:
        return float(len(translation))

    shortness.lower_is_better = True  # type: ignore[attr-defined]
    mine = ModuleType("my_metrics")
    mine.shortness = shortness  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_metrics", mine)
    found = evaluate("my_metrics:shortness", wanted(pools, [REFERENCES[:4], MORE[:4]], both), tmp_path)
    assert found.lower_is_better
    assert found.values[0, both[0].best[0, -1]] == len(pools[0].candidates[both[0].best[0, -1]].text)
    assert found.signature.startswith("function:my_metrics:shortness|code:")
    assert found.signature.endswith("|refs:2,mean")


def test_answers_that_cannot_be_read_are_told_and_the_others_kept(
    pools: list[FullPool], both: list[Trajectories], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Judge:
        name, needs_source, needs_reference, lower_is_better = "J", True, False, False

        def signature_for(self, references: int) -> str:
            return "j"

        def evaluate(self, test_set: Any, systems: Any, progress: Any = None) -> list[Scores]:
            values = np.arange(float(len(systems[0])))
            values[0] = np.nan
            return [Scores(values, 0.0)]

    monkeypatch.setattr(module, "load", lambda spec, setup: Judge())
    what = wanted(pools, [], both)
    with pytest.raises(UsageError, match=rf"J gave no readable score for 1 of {len(what.texts)} translations"):
        evaluate("judge", what, tmp_path)
    [folder] = tmp_path.glob("quality-*")
    assert len(RowStore(folder).keys()) == len(what.texts) - 1
