"""A study from its file to its numbers: what depends on what, and what a kill costs."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quitmt.errors import MissingExtra, QuitmtError, UsageError
from quitmt.lab import drawing, pipeline
from quitmt.lab.pipeline import run
from quitmt.lab.pools import trajectories
from quitmt.lab.results import Results
from quitmt.lab.study import Study
from quitmt.metrics.registry import MetricEntry
from quitmt.names import Name
from quitmt.rerank.mbr import Mbr
from tests.lab.studies import Bars, Invented, recorded_study, watch_metrics, write_pools, write_tsv


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many candidates were drawn, pools scored, pools reranked by accelerated MBR, and translations evaluated."""
    counted: Counter[str] = Counter()
    observe, winner = trajectories.observe, trajectories.winner

    def observed(reranker: Any, pools: Any, **more: Any) -> Any:
        counted["mbr" if isinstance(reranker, Mbr) else "qe"] += len(pools)
        return observe(reranker, pools, **more)

    def whole(reranker: Any, state: Any) -> Any:
        counted["accelerated"] += 1
        return winner(reranker, state)

    monkeypatch.setattr(trajectories, "observe", observed)
    monkeypatch.setattr(trajectories, "winner", whole)
    watch_metrics(monkeypatch, lambda texts: counted.update(evaluated=len(texts)))

    class Counting(Invented):
        async def draw(self, requests: Any) -> Any:
            async for one in super().draw(requests):
                counted["drawn"] += len(one.candidates)
                yield one

    monkeypatch.setattr(pipeline, "build_generator", lambda model: Counting(model.seed))
    return counted


def done(counted: Counter[str]) -> dict[str, int]:
    found = {name: count for name, count in counted.items() if count}
    counted.clear()
    return found


def sampled_study(folder: Path, **sections: dict[str, Any]) -> Study:
    """Sampled from a made-up model, so without recorded scores; QE is by a score that sampling leaves behind."""
    found = recorded_study(
        folder, rerank={"rerankers": ["mbr:chrf", "qe:recorded:log_probability"], "accelerated": ["prune"]}
    )
    found = replace(found, model=replace(found.model, pools=None))
    for name, fields in sections.items():
        found = replace(found, **{name: replace(getattr(found, name), **fields)})
    return found


def go(study: Study, **more: bool) -> Results:
    return run(study, Bars(), **more)


def test_a_setting_redoes_only_what_depends_on_it(tmp_path: Path, work: Counter[str]) -> None:
    def again(**sections: dict[str, Any]) -> dict[str, int]:
        go(sampled_study(tmp_path, **sections))
        return done(work)

    first = again()
    texts = first.pop("evaluated")
    assert first == {"drawn": 64, "mbr": 4, "qe": 4, "accelerated": 4}
    assert again() == {}
    assert again(rules={"windows": (3, 5), "alpha": 0.02, "alphas": (0.3,), "steps": (5,), "splits": 9}) == {}
    assert again(rules={"k": 3}) == {"mbr": 4}  # rules look elsewhere, and MBR must say what they see there
    assert again(rules={"k": 3, "beyond": ("loss",)}) == {}
    assert again(rules={"k": 3, "beyond": ("loss:new=0.1,minimum=4",)}) == {"mbr": 4}
    assert again(live={"rules": ("loss:most=0.2",)}) == {}  # another threshold sees the same
    assert again(evaluate={"resamples": 60, "seed": 1}) == {}
    assert again(evaluate={"metrics": ("chrf++", "chrf")}) == {"evaluated": texts}
    assert again(rerank={"accelerated": ("prune", "lowrank")}).keys() <= {"accelerated", "evaluated"}
    assert again(rerank={"rerankers": ("mbr:chrf", "qe:recorded:tokens")}).keys() == {"qe", "evaluated"}
    assert again(test_set={"limit": 2}) == {}
    changed = again(model={"seed": 1})
    assert changed.pop("evaluated") > 0
    assert changed == {"drawn": 64, "mbr": 4, "qe": 4, "accelerated": 4}
    assert again() == {}  # and back: everything is still there


def test_more_segments_cost_only_those(tmp_path: Path, work: Counter[str]) -> None:
    write_tsv(tmp_path / "test.tsv", 3)
    first = go(sampled_study(tmp_path))
    done(work)
    write_tsv(tmp_path / "test.tsv", 5)
    second = go(sampled_study(tmp_path))
    found = done(work)
    assert found.pop("evaluated") > 0
    assert found == {"drawn": 32, "mbr": 2, "qe": 2, "accelerated": 2}
    for spec, one in first.trajectories.items():
        assert np.array_equal(second.trajectories[spec].score[:3], one.score)


@pytest.mark.parametrize(
    ("stage", "again"),
    [
        ("sampling", {"drawn": range(48, 65)}),  # the first is kept, and the second may have been under way
        ("scoring with mbr:chrf", {"mbr": range(3, 4)}),  # two at once: the second one's is lost
        ("mbr:chrf: PruneMBR", {"mbr": range(1), "accelerated": range(3, 4)}),
    ],
)
def test_a_killed_run_continues(
    stage: str, again: dict[str, range], tmp_path: Path, work: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed by its bar after the first segment of a stage, then run to the end: only what is missing is done."""

    class Killing(Bars):
        def __call__(self, what: str, total: int, unit: str) -> Any:
            bar = super().__call__(what, total, unit)
            if what == stage:
                inner = bar.update

                def update(count: int) -> None:
                    inner(count)
                    if bar.done:
                        raise KeyboardInterrupt

                bar.update = update  # type: ignore[method-assign]
            return bar

    monkeypatch.setattr(trajectories, "POOLS_AT_ONCE", 2)
    study = sampled_study(tmp_path, model={"in_flight": 1})
    whole = go(replace(study, output=str(tmp_path / "whole")))
    done(work)
    with pytest.raises(KeyboardInterrupt):
        run(study, Killing())
    work.clear()
    found = go(study)
    assert {name: work[name] in allowed for name, allowed in again.items()} == dict.fromkeys(again, True), work
    for spec, one in whole.trajectories.items():
        assert np.array_equal(found.trajectories[spec].score, one.score)
    assert np.array_equal(found.quality["chrf++"].values, whole.quality["chrf++"].values, equal_nan=True)


def test_recorded_pools_shorter_than_the_budget(tmp_path: Path) -> None:
    write_pools(tmp_path / "pools.jsonl", 4, 0, sizes=[16, 3, 1, 9])
    found = go(recorded_study(tmp_path, size=32))
    for spec, own in found.replays.items():
        assert found.trajectories[spec].sizes.tolist() == [16, 3, 1, 9]
        assert own.unaccelerated.size.tolist() == [16, 3, 1, 9] and not own.unaccelerated.full.any()
        for rule, fixed in zip(own.windows, own.fixed, strict=True):
            assert (rule.size <= [16, 3, 1, 9]).all()
            assert fixed.size.sum() == rule.size.sum()
            assert np.isfinite(found.quality["chrf++"].of(rule)).all()


def test_to_every_window_rule_belongs_a_fixed_size_of_equal_cost(tmp_path: Path) -> None:
    study = recorded_study(tmp_path, rules={"alpha": 0.02, "alphas": [0.0, 0.02, 0.1]})
    for own in go(study).replays.values():
        pairs = [(own.windows, own.fixed, 2), (own.alphas, own.alphas_fixed, 6), (own.steps, own.steps_fixed, 3)]
        for rules, fixed, count in pairs:
            assert len(rules) == len(fixed) == count
            assert [one.size.sum() for one in rules] == [one.size.sum() for one in fixed]
            assert all(one.size.max() - one.size.min() <= 1 for one in fixed)
        usual = next(one for one in own.alphas if one.settings["w"] == 2 and one.settings["alpha"] == 0.02)
        assert usual is own.windows[0] is own.steps[0]  # one rule is one object: compared once


def test_quality_estimation_only_and_several_references(tmp_path: Path) -> None:
    write_tsv(tmp_path / "test.tsv", 4, references=2)
    found = go(recorded_study(tmp_path, rerank={"rerankers": ["qe:recorded:q"]}))
    assert found.replays.keys() == {"qe:recorded:q"}
    assert found.replays["qe:recorded:q"].accelerated == ()
    assert found.quality["chrf++"].signature.startswith("nrefs:2")


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"rerank": {"rerankers": ["mbr:chrff"]}}, "chrff"),
        ({"rerank": {"accelerated": ["prun"]}}, "prune"),
        ({"evaluate": {"metrics": ["chrff"]}}, "chrff"),
        ({"evaluate": {"metrics": ["gemba:openai:x"]}}, "gemba:openai:x needs both languages"),
        ({"paper": {"dataset": "WMT42", "model": "Qwen3"}}, "unknown dataset of the paper 'WMT42' (did you mean"),
        ({"paper": {"dataset": "WMT24"}}, "[paper] names no model (there is Hy-MT2, Qwen3, TranslateGemma)"),
        ({"model": {"pools": "nowhere.jsonl"}}, "nowhere.jsonl"),
        ({"test_set": {"tsv": "nowhere.tsv"}}, "nowhere.tsv"),
    ],
)
def test_what_would_fail_later_is_refused_first(sections: Any, message: str, tmp_path: Path) -> None:
    study = recorded_study(tmp_path, **sections)
    with pytest.raises(QuitmtError) as raised:
        go(study)
    assert message in str(raised.value)
    assert not list((tmp_path / "study").glob("cache/*"))


def test_references_are_asked_for_first(tmp_path: Path, work: Counter[str]) -> None:
    (tmp_path / "sources.en").write_text("Good morning.\nThe door is open.\n")
    study = sampled_study(tmp_path, test_set={"tsv": None, "sources": str(tmp_path / "sources.en")})
    with pytest.raises(UsageError, match=r"chrf\+\+ needs references, but the test set .*sources.en has none"):
        go(study)
    assert done(work) == {}
    found = go(replace(study, evaluate=replace(study.evaluate, metrics=())))
    assert found.quality == {} and len(found.pools) == 2


def test_recorded_pools_are_not_run_live(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a study of recorded pools cannot be run live \(name a model in \[model\]\)"):
        go(recorded_study(tmp_path), live=True)


def test_what_is_not_installed_is_told_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'quitmt\[lab\]'"):
        go(recorded_study(tmp_path))


def test_a_scoring_model_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the trajectories, two accelerated kinds of MBR and the live runs of all rules."""
    made: list[str] = []

    class Lengths:
        signature = "lengths"

        def __init__(self, model: str, hardware: object) -> None:
            made.append(model)

        def score(self, examples: Any, progress: object = None) -> Any:
            return np.array([-abs(len(one.translation) - len(one.reference)) / 100 for one in examples])

    monkeypatch.setitem(sys.modules, "quitmt.metrics.xcomet", SimpleNamespace(Xcomet=Lengths))
    monkeypatch.setattr(MetricEntry, "installed", property(lambda self: True))
    monkeypatch.setattr(Name, "installed", property(lambda self: True))
    monkeypatch.setattr(pipeline, "build_generator", lambda model: Invented(model.seed))
    rerank = {"rerankers": ("mbr:xcomet",), "accelerated": ("prune", "lowrank")}
    go(sampled_study(tmp_path, rerank=rerank), live=True)
    assert made == ["Unbabel/XCOMET-XXL"]
