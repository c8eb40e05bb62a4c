"""Live runs with the embedded model: the same choices as the replay, measured once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quitmt.errors import InputError, UsageError
from quitmt.lab import pipeline
from quitmt.lab.replay.live import run
from quitmt.lab.report.text import agreements
from quitmt.lab.results import Results
from quitmt.lab.study import Study, parse
from quitmt.plan.build import build_reranker
from quitmt.types import Segment
from tests.lab.studies import SMALL_RULES, Bars, Invented, write_tsv


def embedded_study(folder: Path) -> Study:
    return parse(
        {
            "output": str(folder / "study"),
            "test_set": {"tsv": str(write_tsv(folder / "test.tsv", 3))},
            "model": {"budget": 32},
            "rerank": {"accelerated": []},
            "rules": {**SMALL_RULES, "alpha": 5e-3},
            "evaluate": {"resamples": 20},
            "live": {"windows": [2, 3], "limit": 3, "rules": ["loss:most=0.02,minimum=4", "headroom:top=1,share=0.05"]},
        },
        "test",
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Results, Bars]:
    study, bars = embedded_study(tmp_path_factory.mktemp("live")), Bars()
    return study, pipeline.run(study, bars, live=True), bars


def test_live_is_the_replay_segment_by_segment(results: tuple[Study, Results, Bars]) -> None:
    _, found, _ = results
    assert found.live.keys() == found.replays.keys() == {"mbr:chrf", "qe:likelihood"}
    stopped = set()
    for spec, runs in found.live.items():
        own = found.replays[spec]
        more = "loss:most=0.02,minimum=4" if spec == "mbr:chrf" else "headroom:top=1,share=0.05"  # each where it fits
        assert [one.rule for one in runs] == ["Unaccelerated", "QUIT w=2", "QUIT w=3", more]
        replayed = {one.name: one for one in (own.unaccelerated, *own.windows, *own.beyond)}
        assert min(runs[-1].sizes) < 32
        for one in runs:  # w = 3 is not among the study's windows, but replayed because it is run live
            assert one.reranker == spec
            assert one.sizes == tuple(replayed[one.rule].size.tolist())
            assert one.indices == tuple(replayed[one.rule].index.tolist())
            assert one.generate_seconds > 0 and one.rerank_seconds > 0 and one.wall_seconds > 0
            assert one.seconds.live
            stopped |= set(one.sizes)
    assert len(stopped) > 2  # else they would agree whatever they do
    assert len(list(agreements(found))) == 2 and all("the same candidates" in said for said in agreements(found))


def test_each_stage_has_a_bar_that_ends_full(results: tuple[Study, Results, Bars]) -> None:
    bars = {bar.what: bar for bar in results[2].all}
    assert [(bar.what, bar.unit) for bar in results[2].all] == [
        ("sampling", "segments"),
        ("scoring with mbr:chrf", "segments"),
        ("mbr:chrf, live", "segments"),
        ("scoring with qe:likelihood", "segments"),
        ("qe:likelihood, live", "segments"),
        ("evaluating with chrf++", "translations"),
    ]
    assert all(bar.done == bar.total > 0 and bar.closed for bar in bars.values())
    assert bars["mbr:chrf, live"].total == 12


def test_what_was_measured_is_kept(results: tuple[Study, Results, Bars]) -> None:
    study, found, _ = results
    bars = Bars()
    again = pipeline.run(study, bars, live=True)
    assert again.live == found.live  # to the last digit of the seconds: nothing was measured again
    assert all(bar.done == bar.total for bar in bars.all)


def small_live(study: Study, generator: Invented, segments: list[Segment], folder: Path) -> list[Any]:
    reranker = build_reranker(study.rerank.recipe("mbr:chrf"), ("en", "pt"))
    return run(study, generator, "mbr:chrf", reranker, segments, folder, {})


def invented_study(folder: Path, **rules: float) -> Study:
    return parse(
        {
            "test_set": {"tsv": str(folder / "none.tsv")},
            "model": {"budget": 16},
            "rules": {**SMALL_RULES, **rules},
            "live": {"windows": [2], "rules": []},
        },
        "test",
    )


SEGMENTS = [Segment("1", "a"), Segment("2", "b")]


def test_other_settings_or_segments_are_measured_anew(tmp_path: Path) -> None:
    def drawn(study: Study, segments: list[Segment], seed: int = 0) -> int:
        generator = Invented(seed)
        small_live(study, generator, segments, tmp_path)
        return len(generator.drawn)

    study = invented_study(tmp_path)
    assert drawn(study, SEGMENTS) > 0
    assert drawn(study, SEGMENTS) == 0
    assert drawn(study, SEGMENTS[:1]) > 0
    assert drawn(study, SEGMENTS, seed=1) > 0
    # Another threshold is another rule, but all candidates are still all candidates.
    assert 0 < drawn(invented_study(tmp_path, alpha=0.5), SEGMENTS) < 32


def test_a_short_run_before_the_first_measures_nothing(tmp_path: Path) -> None:
    generator = Invented()
    whole, _ = small_live(invented_study(tmp_path), generator, SEGMENTS, tmp_path)
    assert generator.drawn[:2] == [("1", 0), ("1", 1)]  # k candidates of the first segment
    assert generator.drawn.count(("1", 0)) == 3 and generator.drawn.count(("2", 0)) == 2
    assert whole.sizes == (16, 16)
    assert whole.generate_seconds == pytest.approx(1.0)  # half a second a draw, two segments, without the short run


def test_a_failure_is_told_and_keeps_what_was_measured(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"segment 2 failed in a live run: .*out of ink"):
        small_live(invented_study(tmp_path), Invented(fail=frozenset("2")), SEGMENTS, tmp_path)
    assert list(tmp_path.glob("live-*.json")) == []
    small_live(invented_study(tmp_path), Invented(), SEGMENTS, tmp_path)
    assert len(list(tmp_path.glob("live-*.json"))) == 2


@pytest.mark.parametrize("text", ["", "{}", '{"rule": "x"}', "[]"])
def test_a_damaged_result_is_named(text: str, tmp_path: Path) -> None:
    small_live(invented_study(tmp_path), Invented(), SEGMENTS, tmp_path)
    for path in tmp_path.glob("live-*.json"):
        assert json.loads(path.read_text())["reranker"] == "mbr:chrf"
        path.write_text(text)
    with pytest.raises(InputError, match=r"live-.*\.json cannot be read \(delete it"):
        small_live(invented_study(tmp_path), Invented(), SEGMENTS, tmp_path)
