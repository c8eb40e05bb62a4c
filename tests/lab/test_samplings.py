"""Several samplings in one study: what they share, what greedy and beams are worth, and live runs with anchors."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from quitmt.errors import InputError, QuitmtError, UsageError
from quitmt.lab import drawing, pipeline
from quitmt.lab.replay import runtime
from quitmt.lab.report.publish import publish
from quitmt.lab.report.text import agreements
from quitmt.lab.results import Results
from quitmt.lab.study import Study, parse
from quitmt.plan.build import build_reranker
from quitmt.protocols import Update
from quitmt.rerank import Reranking
from quitmt.types import Segment, at
from tests.lab.studies import REFERENCES, SMALL_RULES, SOURCES, Bars, Decoding, Invented, recorded_study, write_tsv

PICTURE = b'<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt" viewBox="0 0 1 1"></svg>'
PLAIN, ANCHORED, COLD = "T=1.2", "T=1.2 + greedy,beam:3", "cold"
SAMPLINGS = [{"anchors": "greedy,beam:3"}, {"name": COLD, "temperature": 0.5}]
RULES = {"rules": ["loss:most=0.05,minimum=4", "headroom:top=1,share=0.05,minimum=4"], "windows": [2], "limit": 3}


def study_of(folder: Path, **sections: Any) -> Study:
    found: dict[str, Any] = {
        "output": str(folder / "study"),
        "test_set": {"tsv": str(write_tsv(folder / "test.tsv", 5))},
        "model": {"budget": 16},
        "rerank": {"rerankers": ["mbr:chrf", "qe:recorded:q"], "accelerated": ["prune"]},
        "rules": {**SMALL_RULES, "beyond": ["loss:minimum=4", "headroom:top=1,minimum=4"], "costs": [8], "splits": 5},
        "evaluate": {"resamples": 40},
        "baselines": {"anchors": "greedy,beam:2"},
        "live": RULES,
        "samplings": SAMPLINGS,
        **sections,
    }
    return parse(found, "test")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Temperature, beam and segment of every ask, of whatever sibling."""
    requested: list[str] = []

    def build(model: Any) -> Decoding:
        assert model.anchors == "none"
        requested.append(f"loaded {model.temperature}")
        return Decoding(told=requested)

    monkeypatch.setattr(pipeline, "build_generator", build)
    return requested


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "build_generator", lambda model: Decoding())
        return pipeline.run(study_of(tmp_path_factory.mktemp("samplings")), Bars(), live=True)


@pytest.fixture(scope="module")
def report(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the report, with empty pictures."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "encoded", lambda figure, form: PICTURE)
        publish(results, folder)
    return folder


def cells(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


def test_samplings_share_what_they_can(tmp_path: Path, told: list[str]) -> None:
    """One model; the samples of two, the greedy decoding of all; and a second run asks for nothing."""
    found = pipeline.run(study_of(tmp_path), Bars())
    plain, anchored, cold = found, *found.others
    assert [one.name for one in (plain, anchored, cold)] == [PLAIN, ANCHORED, COLD]
    kinds = [line.rpartition(" ")[0] for line in told]
    # Samples of two temperatures, greedy, beam:3 as an anchor and beam:2 as a baseline, a segment each.
    wanted = {"loaded": 1, "1.2 None": 5, "0.5 None": 5, "0 None": 5, "1.2 3": 5, "1.2 2": 5}
    assert {kind: kinds.count(kind) for kind in set(kinds)} == wanted
    assert [pool.candidates for pool in plain.pools] == [pool.candidates for pool in anchored.pools]
    assert [len(pool.anchors) for pool in plain.pools] == [0] * 5
    for pool in anchored.pools:
        assert [one.origin for one in pool.anchors] == ["greedy", "beam:3", "beam:3", "beam:3"]
        assert pool.anchor_seconds == 1.0  # half a second a draw, of two
    told.clear()
    pipeline.run(study_of(tmp_path), Bars())
    assert told == ["loaded 1.2"]


def test_each_sampling_is_judged_by_its_own_support(results: Results) -> None:
    """The snapshots are those of a reranker that is given the same pool, anchors included."""
    plain, anchored, _ = results, *results.others
    assert plain.study.rerank.support == "all" and anchored.study.rerank.support == "others"
    chosen = 0
    for one in (plain, anchored):
        for spec, own in one.trajectories.items():
            reranker: Any = build_reranker(one.study.rerank.recipe(spec), (None, None))
            for row, pool in enumerate(one.pools):
                state = reranker.open(pool.segment)
                (snapshots,) = reranker.extend([Update(state, pool.candidates, 1, pool.anchors)])
                assert own.best[row].tolist() == [snapshot.best for snapshot in snapshots]
                last = own.best[row, -1]
                assert own.final[row, last] == pytest.approx(own.score[row, -1], abs=1e-12)
                chosen += last < 0
    assert chosen > 0  # anchors win here now and then, or the indices would not be tested


def test_quality_is_of_the_text_that_was_chosen(results: Results) -> None:
    metric = CHRF(word_order=2)
    for one in (results, *results.others):
        for own in one.replays.values():
            values = one.quality["chrf++"].of(own.unaccelerated)
            for row, pool in enumerate(one.pools):
                text = at(int(own.unaccelerated.index[row]), pool.anchors, pool.candidates).text
                assert values[row] == pytest.approx(metric.sentence_score(text, [REFERENCES[row]]).score)
    names = [one.name for one in results.baselines]
    assert names == ["greedy", "beam:2", "beam:3"] and [one.cost for one in results.baselines] == [1, 2, 3]
    for column, one in enumerate(results.baselines):
        scores = [metric.sentence_score(text, [REFERENCES[row]]).score for row, text in enumerate(one.texts)]
        assert results.baseline_quality["chrf++"][:, column] == pytest.approx(np.array(scores))


def test_live_runs_with_anchors_are_the_replay(results: Results) -> None:
    for one in (results, *results.others):
        said = list(agreements(one))
        assert len(said) == 2 and all("on 3 segments and used the same candidates" in each for each in said), one.name
    anchored = results.others[0]
    assert min(min(run.indices) for own in anchored.live.values() for run in own) < 0


def test_only_some_samplings_are_run_live(tmp_path: Path, told: list[str]) -> None:
    found = pipeline.run(study_of(tmp_path, live={**RULES, "samplings": [COLD]}), Bars(), live=True)
    assert [bool(one.live) for one in (found, *found.others)] == [False, False, True]


def test_accelerated_mbr_where_it_takes_anchors(results: Results) -> None:
    takes = Reranking("mbr:chrf", "prune", support="others").traits.takes_anchors
    assert [len(one.replays["mbr:chrf"].accelerated) for one in (results, *results.others)] == [1, int(takes), 1]


def test_anchors_cost_seconds_and_candidates(results: Results) -> None:
    plain, anchored, _ = results, *results.others
    one, other = (each.trajectories["mbr:chrf"] for each in (plain, anchored))
    few = anchored.replays["mbr:chrf"].windows[0]
    seconds = runtime.estimated(other, few)
    share = few.size / 16
    assert seconds.generate == pytest.approx(float((other.generate_seconds * share).sum()) + 5.0)
    assert seconds.rerank == pytest.approx(float((other.rerank_seconds * share * (few.size + 4) / 20).sum()))
    assert one.generate_seconds.tolist() == other.generate_seconds.tolist()


def test_the_report_compares_all(results: Results, report: Path) -> None:
    page = (report / "report.html").read_text("utf-8")
    rows = cells(report / "tables" / "options.csv")
    assert [row["rule"] for row in rows[:4]] == ["greedy", "beam:2", "beam:3", "One sample"]
    assert [row["sampling"] for row in rows if row["rule"] == "One sample"] == [PLAIN, COLD]  # two have the same
    for sampling in (PLAIN, ANCHORED, COLD):
        for reranker in results.replays:
            own = [row for row in rows if (row["sampling"], row["reranker"]) == (sampling, reranker)]
            names = [row["rule"] for row in own]
            assert names[0] == "all 16" and "QUIT w=2" in names
            assert all(names[place + 1].startswith("Fixed-N*") for place in range(1, len(names), 2))
            if sampling == ANCHORED:
                assert all(float(row["candidates"]) == float(row["mean_n"]) + 4 for row in own)
    greedy = results.baseline_quality["chrf++"][:, 0]
    best = results.quality["chrf++"].of(results.replays["mbr:chrf"].unaccelerated)
    row = next(row for row in rows if row["sampling"] == PLAIN and row["rule"] == "all 16")
    assert float(row["chrfpp_minus_greedy"]) == pytest.approx((best - greedy).mean())
    assert float(row["chrfpp_minus_greedy_low"]) <= float(row["chrfpp_minus_greedy_high"])
    main = cells(report / "tables" / "results.csv")
    assert [row["acceleration"] for row in main[:4]] == ["greedy", "beam:2", "beam:3", "One sample"]
    assert main[0]["chrfpp_minus_greedy"] == "" and all(row["chrfpp_minus_greedy_low"] for row in main[1:])
    whole = next(row for row in main if row["acceleration"] == "Unaccelerated")
    assert float(whole["chrfpp_minus_greedy"]) == pytest.approx((best - greedy).mean())
    alphas = cells(report / "tables" / "alpha.csv")
    assert all(row["chrfpp_minus_greedy_low"] for row in alphas)
    times = {row["method"]: row for row in cells(report / "tables" / "runtime.csv")}
    assert float(times["greedy"]["total_seconds_live"]) == float(times["greedy"]["total_seconds_estimated"]) > 0
    assert float(times["One sample"]["total_seconds_estimated"]) > 0 and not times["One sample"]["total_seconds_live"]
    assert page.index("Is reranking worth it here?") < page.index("Best of all")
    proofs = cells(report / "tables" / "guarantees.csv")
    assert [row["guarantee"].partition(" within")[0] for row in proofs] == [*["equivalent"] * 3, "not worse"] * 2
    assert "− greedy" in page and page.index("What to use") < page.index("What was found")
    assert 'href="T-1.2-greedy-beam-3/report.html"' in page and 'href="cold/report.html"' in page
    for folder in ("T-1.2-greedy-beam-3", "cold"):
        assert (report / folder / "report.html").exists()
        own = cells(report / folder / "tables" / "options.csv")
        assert len({row["sampling"] for row in own}) == 2  # the baselines have none
    assert "The study has 5 segments. Fewer than 100 say little" in page


def test_segments_show_the_anchor_that_was_chosen(results: Results, report: Path) -> None:
    anchored = results.others[0]
    text = (report / "T-1.2-greedy-beam-3" / "report.html").read_text("utf-8")
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    seen = 0
    for row, segment in enumerate(data["segments"]):
        assert segment["anchors"] == 4
        for track in segment["tracks"]:
            rule = anchored.replays[track["reranker"]].unaccelerated
            ((_, _, place),) = [stop for stop in track["stops"] if data["rules"][stop[0]] == "Unaccelerated"]
            pool, index = anchored.pools[row], int(rule.index[row])
            chosen = at(index, pool.anchors, pool.candidates)
            entry = segment["candidates"][place]
            assert entry[0] == chosen.text
            assert entry[3][list(anchored.trajectories).index(track["reranker"])] == pytest.approx(
                rule.score[row], rel=1e-5
            )
            if index < 0:
                assert chosen.origin in entry[5].split(", ")
                seen += 1
    assert seen > 0


def anchored_pools(path: Path) -> Path:
    invented, lines = Invented(), []
    for number, source in enumerate(SOURCES[:4]):
        segment = Segment(str(number + 1), source)
        texts = [invented.text(segment, index) for index in range(16)]
        lines.append(
            json.dumps(
                {
                    "id": segment.id,
                    "source": source,
                    "candidates": texts,
                    "anchors": [REFERENCES[number], "um gato", "um cão"],
                    "origins": ["greedy", "beam:2", "beam:2"],
                }
            )
        )
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_recorded_anchors_are_baselines_and_candidates_where_they_are_named(tmp_path: Path) -> None:
    pools = str(anchored_pools(tmp_path / "pools.jsonl"))
    study = recorded_study(tmp_path, rerank={"rerankers": ["mbr:chrf"]}, model={"pools": pools})
    (tmp_path / "more.jsonl").write_bytes(Path(pools).read_bytes())
    both = parse({**_fields(study), "samplings": [{"anchors": "greedy"}, {"pools": str(tmp_path / "more.jsonl")}]}, "x")
    found = pipeline.run(both, Bars())
    assert [one.name for one in (found, *found.others)] == ["pools.jsonl", "pools.jsonl + greedy", "more.jsonl"]
    assert [len(one.pools[0].anchors) for one in (found, *found.others)] == [0, 1, 0]
    assert [one.name for one in found.baselines] == ["greedy", "beam:2"]
    assert found.baseline_quality["chrf++"][:, 0].tolist() == pytest.approx([100.0] * 4)
    with pytest.raises(InputError, match=r"segment 1 has no anchors of the origin 'beam:4' \(it has greedy, beam:2\)"):
        pipeline.run(parse({**_fields(study), "samplings": [{"anchors": "beam:4"}]}, "x"), Bars())
    with pytest.raises(UsageError):
        pipeline.run(both, Bars(), live=True)


def _fields(study: Study) -> dict[str, Any]:
    return {
        "output": study.output,
        "test_set": {"tsv": study.test_set.tsv},
        "model": {"pools": study.model.pools, "budget": 16},
        "rerank": {"rerankers": ["mbr:chrf"], "accelerated": []},
        "rules": SMALL_RULES,
        "evaluate": {"resamples": 30},
    }


def test_what_has_no_anchors_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "build_generator", lambda model: Invented())
    with pytest.raises(QuitmtError, match="anchors"):
        pipeline.run(study_of(tmp_path, samplings=[]), Bars())
    study = study_of(tmp_path, model={"name": "openai:x", "options": {"base_url": "http://localhost:1"}})
    with pytest.raises(QuitmtError, match="beam"):
        pipeline.run(study, Bars())
