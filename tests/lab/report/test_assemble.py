"""From results to rows: every comparison that is shown, by whichever metric, and the paper's values beside it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quitmt.evaluate import equivalence
from quitmt.evaluate.equivalence import compare
from quitmt.lab.frames import QualityScores, RuleSeconds
from quitmt.lab.paper import values as printed
from quitmt.lab.pipeline import replayed
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.pools.trajectories import AcceleratedReplay
from quitmt.lab.replay.live import Live
from quitmt.lab.replay.runtime import estimated, speedup
from quitmt.lab.report import assemble as module
from quitmt.lab.report.assemble import Assembled, assemble, pair_of
from quitmt.lab.results import Results
from quitmt.lab.rows import RuleRow, RuntimeRow
from quitmt.lab.study import Study, parse
from quitmt.lab.study.testsets import StudyTestSet
from quitmt.types import Candidate, Segment
from tests.lab.arrays import fixed, running_best

SEGMENTS = 12
BUDGET = 512


def made_up(specs: tuple[str, ...] = ("mbr:comet", "qe:made-up"), **sections: dict[str, Any]) -> Results:
    """The study's usual rules on random scores; three external metrics, one of which is better the lower it is."""
    found: dict[str, Any] = {
        "test_set": {"tsv": "news.tsv"},
        "rerank": {"rerankers": list(specs)},
        "rules": {"alphas": [1e-6, 1e-5, 1e-4, 1e-3, 0.2]},
        "evaluate": {"resamples": 40, "seed": 3},
    }
    study = parse({**found, **sections}, "test")
    return results_of(study, specs)


def results_of(study: Study, specs: tuple[str, ...]) -> Results:
    rng = np.random.default_rng(8)
    trajectories = {}
    for spec in specs:
        scores = rng.beta(2, 4, (SEGMENTS, BUDGET)).round(3)
        trajectories[spec] = running_best(scores, reranker=spec)
    replays = {}
    for spec, one in trajectories.items():
        faster = replace(fixed(one, 20, BUDGET, name="PruneMBR"), size=one.sizes)
        own = (AcceleratedReplay(faster, np.full(SEGMENTS, 0.25)),) if spec.startswith("mbr:") else ()
        replays[spec] = replayed(study, one, study.rules.windows, own)
    names = {"chrf++": ("chrF++", False), "metricx": ("MetricX", True), "mine": ("Mine", False)}
    later = np.linspace(0, 30, BUDGET)  # later candidates differ from earlier ones, so some rules do differ
    quality = {
        key: QualityScores(name, f"{key} signature", lower, rng.normal(50, 5, (SEGMENTS, BUDGET)) + later)
        for key, (name, lower) in names.items()
    }
    segments = tuple(Segment(f"s{row}", "x") for row in range(SEGMENTS))
    pools = tuple(FullPool(segment, (Candidate("a"),) * BUDGET, 1.0) for segment in segments)
    test_set = StudyTestSet("news.tsv", segments, (("r",) * SEGMENTS,))
    return Results(study, test_set, pools, trajectories, replays, quality, {})


@pytest.fixture(scope="module")
def results() -> Results:
    return made_up()


@pytest.fixture(scope="module")
def rows(results: Results) -> Assembled:
    return assemble(results)


def test_rows_are_in_the_order_of_the_tables(rows: Assembled) -> None:
    mine = [row.rule for row in rows.main if row.reranker == "mbr:comet"]
    assert mine[:4] == ["Unaccelerated", "PruneMBR", "QUIT w=2", "Fixed-N* (w=2)"]
    assert mine[2::2] == [f"QUIT w={w}" for w in range(2, 17, 2)]
    assert len([row for row in rows.main if row.reranker == "qe:made-up"]) == 17
    assert (len(rows.windows), len(rows.alphas), len(rows.steps), len(rows.prr)) == (16, 30, 18, 64)
    assert [(metric.name, metric.decimals, metric.lower_is_better) for metric in rows.metrics] == [
        ("rerank", 4, False), ("chrfpp", 2, False), ("metricx", 2, True), ("mine", 2, False),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["windows", "alphas", "steps"])
def test_every_window_rule_is_compared_with_all_and_with_a_fixed_size(
    name: str, results: Results, rows: Assembled
) -> None:
    """Each comparison is the one that a bootstrap of its own would give."""
    place = 0
    for own in results.replays.values():
        rules, sizes = getattr(own, name), getattr(own, {"windows": "fixed"}.get(name, f"{name}_fixed"))
        for rule, size in zip(rules, sizes, strict=True):
            row: RuleRow = getattr(rows, name)[place]
            place += 1
            assert row.mean_size == rule.mean_size == size.mean_size
            judges = {"rerank": None, "chrfpp": "chrf++", "metricx": "metricx", "mine": "mine"}
            for key, metric in judges.items():
                quality = results.quality[metric] if metric else None
                values = quality.of(rule) if quality else rule.score
                assert row.scores[key].value == values.mean()
                for base, found in ((own.unaccelerated, row.scores[key].base), (size, row.scores[key].fixed)):
                    assert [found] == compare([pair_of(base, rule, quality)], resamples=40, rng=3)
    assert place == len(getattr(rows, name))


def test_fixed_sizes_and_accelerated_rows_are_compared_with_all(results: Results, rows: Assembled) -> None:
    own = results.replays["mbr:comet"]
    by_rule = {row.rule: row for row in rows.main if row.reranker == "mbr:comet"}
    assert by_rule["Unaccelerated"].scores["mine"].base is None
    for rule in (own.fixed[0], own.accelerated[0].replayed):
        pair = pair_of(own.unaccelerated, rule, results.quality["mine"])
        assert [by_rule[rule.name].scores["mine"].base] == compare([pair], resamples=40, rng=3)
        assert by_rule[rule.name].scores["mine"].fixed is None


def test_thresholds_are_counted_against_the_usual_one(results: Results, rows: Assembled) -> None:
    alphas = [row for row in rows.alphas if row.reranker == "qe:made-up"]
    replays = results.replays["qe:made-up"].alphas
    seen = set()
    for row, rule in zip(alphas, replays, strict=True):
        if row.settings["alpha"] == 1e-3:
            assert row.worse_better is None
            continue
        usual = next(
            one for one in replays if one.settings["w"] == rule.settings["w"] and one.settings["alpha"] == 1e-3
        )
        worse = better = 0
        for quality in results.quality.values():
            (found,) = compare([pair_of(usual, rule, quality)], resamples=40, rng=3)
            low, high = found.interval
            worse += high < 0 if not quality.lower_is_better else low > 0
            better += low > 0 if not quality.lower_is_better else high < 0
        assert row.worse_better == (worse, better)
        seen.add(row.worse_better)
    assert len(seen) > 1


def test_results_belong_to_rules_by_key_whichever_objects_they_are(results: Results, rows: Assembled) -> None:
    for own in results.replays.values():
        rules = [own.unaccelerated, *own.windows, *own.fixed, *own.alphas, *own.alphas_fixed, *own.steps]
        rules += [*own.steps_fixed, *(one.replayed for one in own.accelerated), *own.beyond, *own.beyond_fixed]
        by_key = {rule.key: rule for rule in rules}
        assert all(np.array_equal(by_key[rule.key].index, rule.index) for rule in rules)
        quits = {rule.key for rule in rules if rule.name == "QUIT w=8"}
        assert len(quits) == 7  # five thresholds, and two more steps at the usual one
    copied = {spec: deepcopy(own) for spec, own in results.replays.items()}
    copied = {
        spec: replace(own, alphas=tuple(map(deepcopy, own.alphas)), steps=tuple(map(deepcopy, own.steps)))
        for spec, own in copied.items()
    }
    assert assemble(replace(results, replays=copied)) == rows


def test_resamples_are_drawn_once_a_reranker(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    draws = equivalence.draws
    monkeypatch.setattr(equivalence, "draws", lambda *args: calls.append(1) or draws(*args))
    assemble(results)
    assert len(calls) == 2


def test_estimated_speedups_use_measured_seconds_of_accelerated_reranking(results: Results, rows: Assembled) -> None:
    one, own = results.trajectories["mbr:comet"], results.replays["mbr:comet"]
    by_rule = {row.rule: row for row in rows.main if row.reranker == "mbr:comet"}
    whole = estimated(one, own.unaccelerated)
    assert by_rule["Unaccelerated"].estimated == 1
    assert by_rule["QUIT w=4"].estimated == speedup(whole, estimated(one, own.windows[1]))
    pruned = RuleSeconds(whole.generate, 0.25 * SEGMENTS, live=False)
    assert by_rule["PruneMBR"].estimated == speedup(whole, pruned)
    assert all(row.live is None for row in (*rows.main, *rows.alphas, *rows.steps))


def live_run(rule: str, generate: float, count: int) -> Live:
    return Live(rule, "mbr:comet", (8,) * count, (0,) * count, generate, 1.0, 2.0)


def test_live_and_estimated_seconds_are_of_the_same_segments(results: Results) -> None:
    measured = {"mbr:comet": [live_run("Unaccelerated", 9.0, 5), live_run("QUIT w=4", 4.0, 5)]}
    found = assemble(replace(results, live=measured))
    by_rule = {row.rule: row for row in found.runtimes if row.reranker == "mbr:comet"}
    one = results.trajectories["mbr:comet"]
    assert by_rule["QUIT w=4"].live == RuleSeconds(4.0, 1.0, live=True)
    few = RuntimeRow("mbr:comet", "Unaccelerated", RuleSeconds(15.0, 7.5, live=False), RuleSeconds(9.0, 1.0, live=True))
    assert one.generate_seconds[:5].sum() == 15
    assert by_rule["Unaccelerated"] == few
    assert by_rule["PruneMBR"].estimated == RuleSeconds(15.0, 1.25, live=False)
    assert by_rule["QUIT w=2"].live is None
    others = {row.rule: row for row in found.runtimes if row.reranker == "qe:made-up"}
    assert others["Unaccelerated"].estimated == RuleSeconds(78.0, 39.0, live=False)  # not run live: all segments
    assert others["Unaccelerated"].live is None


def test_live_speedups_stand_only_beside_the_rule_that_was_run(results: Results) -> None:
    measured = {"mbr:comet": [live_run("Unaccelerated", 9.0, 5), live_run("QUIT w=4", 4.0, 5)]}
    found = assemble(replace(results, live=measured))
    for row in (*found.main, *found.alphas, *found.steps):
        rule = (row.rule, row.settings.get("k"), row.settings.get("alpha"))
        run = row.reranker == "mbr:comet" and rule in (("QUIT w=4", 8, 1e-3), ("Unaccelerated", None, None))
        assert (row.live is not None) == run, row
    assert {row.live for row in found.main if row.rule == "QUIT w=4"} == {2.0, None}


def test_seconds_that_nobody_measured_are_not_shown(results: Results) -> None:
    unknown = {
        spec: replace(one, generate_seconds=np.full(SEGMENTS, np.nan)) for spec, one in results.trajectories.items()
    }
    found = assemble(replace(results, trajectories=unknown))
    assert all(row.estimated is None for row in found.runtimes)
    assert all(row.estimated is None for row in found.main)


PAPER = {"dataset": "WMT24", "model": "Qwen3"}


def test_the_paper_stands_beside_the_same_cells() -> None:
    found = assemble(made_up(paper=PAPER))
    for row in found.main:
        kind = "MBR" if row.reranker == "mbr:comet" else "QE"
        cell = printed.cell("results", "chrfpp", reranker=kind, acceleration=row.rule, **PAPER)
        assert (row.paper.get("chrfpp") is None) == (cell is None) == row.rule.startswith("Fixed")
        if cell:
            assert (row.paper["chrfpp"].value, row.paper["chrfpp"].mark) == (cell.value, cell.mark)
            assert row.paper.keys() == {"speedup_estimated", "rerank", "chrfpp", "metricx"}
    alpha = next(row for row in found.alphas if row.settings["alpha"] == 1e-6 and row.settings["w"] == 4)
    cells = {key: alpha.paper[key].value for key in ("mean_n", "full_percent", "worse", "better", "chrfpp")}
    assert cells == {"mean_n": 501, "full_percent": 97.6, "worse": 0, "better": 24, "chrfpp": 41.39}
    assert all(row.paper == {} for row in found.steps)
    assert [one.paper for one in found.prr if one.risk == "proxy" and one.w == 8] == [0.721, 0.278]
    assert next(one for one in found.mean_sizes if (one.k, one.w) == (4, 8)).paper == 162.55
    seconds = next(row for row in found.runtimes if row.rule == "QUIT w=2" and row.reranker == "mbr:comet").paper
    assert seconds["generation_seconds_estimated"] == 28663.0
    assert 1 < seconds["speedup_estimated"] < 30


def test_chrf_has_a_table_of_its_own_in_the_paper() -> None:
    found = assemble(made_up(("mbr:chrf",), paper=PAPER))
    by_rule = {row.rule: row for row in found.main}
    assert by_rule["QUIT w=2"].paper["mean_n"].value == 84.25
    assert by_rule["Unaccelerated"].paper["chrfpp"].value == 42.48
    assert all(row.paper == {} for row in (*found.alphas, *found.runtimes))
    assert all(one.paper is None for one in (*found.mean_sizes, *found.prr))


@pytest.mark.parametrize(
    "sections", [{}, {"paper": PAPER, "rules": {"k": 4}}, {"paper": PAPER, "rules": {"alpha": 0.01}}]
)
def test_nothing_stands_beside_other_settings(sections: dict[str, Any]) -> None:
    found = assemble(made_up(**sections))
    assert all(row.paper == {} for row in (*found.main, *found.windows, *found.runtimes))


def test_a_smaller_budget_has_no_cell_in_the_paper() -> None:
    found = assemble(made_up(paper=PAPER, model={"budget": 256}))
    assert all(row.paper == {} for row in (*found.main, *found.alphas, *found.runtimes))
    assert all(one.paper is None for one in (*found.mean_sizes, *found.prr))


def test_names_of_metrics_are_those_of_the_paper() -> None:
    def key(metric: str) -> str:
        return module.key_of(QualityScores(metric, "", False, np.zeros((1, 1))))

    names = {"chrF++": "chrfpp", "xCOMET": "xcomet", "MetricX": "metricx", "BLEU:zh": "bleu:zh"}
    assert {name: key(name) for name in names} == names


def test_no_external_metric(tmp_path: Path) -> None:
    found = assemble(replace(made_up(("qe:made-up",)), quality={}))
    assert [metric.name for metric in found.metrics] == ["rerank"]
    assert {one.risk for one in found.prr} == {"proxy"}
    assert {row.worse_better for row in found.alphas} == {None, (0, 0)}
