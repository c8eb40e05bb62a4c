"""Trajectories: what the rerankers themselves say at every pool size, computed once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quitmt import rerank, stop
from quitmt.errors import RerankError, UsageError
from quitmt.lab.pools import trajectories as module
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.pools.trajectories import accelerated, accelerated_rerankers, compute
from quitmt.lab.study.settings import RerankSettings
from quitmt.metrics.chrf import Chrf
from quitmt.plan import RerankRecipe
from quitmt.protocols import Update
from quitmt.rerank.accelerated import Accelerated
from quitmt.rerank.lowrank import ObservedMean
from quitmt.rerank.mbr import Mbr
from quitmt.types import Candidate, Segment
from tests.lab.studies import SOURCES, Invented

LANGUAGES = ("en", "pt")
SIZES = (20, 20, 7, 1, 20, 13)
SETTINGS = RerankSettings()


@pytest.fixture
def pools() -> list[FullPool]:
    """Of several sizes, with texts that occur several times, and recorded scores that tie."""
    invented, rng, found = Invented(), np.random.default_rng(3), []
    for number, size in enumerate(SIZES):
        segment = Segment(str(number), SOURCES[number])
        texts = [invented.text(segment, index % 11) for index in range(size)]
        candidates = tuple(Candidate(text, scores={"q": float(rng.integers(5))}) for text in texts)
        found.append(FullPool(segment, candidates, 2.0 + number))
    return found


@pytest.fixture
def reranked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The ids of the segments that went through a reranker, warming up apart."""
    ids: list[str] = []
    inner = module.observe

    def counted(reranker: Any, pools: Any, **more: Any) -> Any:
        ids.extend(pool.segment.id for pool in pools)
        return inner(reranker, pools, **more)

    monkeypatch.setattr(module, "observe", counted)
    yield ids


@pytest.mark.parametrize("spec", ["mbr:chrf", "qe:recorded:q", "qe:likelihood"])
def test_equal_the_live_snapshots_at_every_size(spec: str, pools: list[FullPool], tmp_path: Path) -> None:
    few = pools if spec != "qe:likelihood" else [FullPool(one.segment, one.candidates[:5], 1.0) for one in pools[:3]]
    found = compute(spec, few, SETTINGS, LANGUAGES, tmp_path)
    own: Any = rerank.load(spec)
    for row, pool in enumerate(few):
        state = own.open(pool.segment)
        for size, candidate in enumerate(pool.candidates, start=1):  # one by one, as a live run with k = 1
            (snapshots,) = own.extend([Update(state, [candidate], 1)])
            assert (found.best[row, size - 1], found.score[row, size - 1]) == (snapshots[0].best, snapshots[0].score)
        assert found.sizes[row] == size
        assert (found.best[row, size:] == found.best[row, size - 1]).all()
        assert (found.score[row, size:] == found.score[row, size - 1]).all()
        assert np.isnan(found.final[row, size:]).all()
        assert found.final[row, :size].argmax() == found.best[row, -1]
        assert found.final[row, found.best[row, -1]] == pytest.approx(found.score[row, -1], abs=1e-15)
    assert (found.reranker, found.signature, found.ids) == (spec, own.signature, tuple(one.segment.id for one in few))
    assert found.generate_seconds.tolist() == [one.generate_seconds for one in few]
    assert (found.rerank_seconds > 0).all()


@pytest.mark.parametrize("spec", ["mbr:chrf", "qe:recorded:q"])
def test_what_is_there_is_not_computed_again(
    spec: str, pools: list[FullPool], tmp_path: Path, reranked: list[str]
) -> None:
    first = compute(spec, pools[:4], SETTINGS, LANGUAGES, tmp_path)
    assert reranked == ["0", "1", "2", "3"]
    done: list[int] = []
    again = compute(spec, pools, SETTINGS, LANGUAGES, tmp_path, done.append)
    assert reranked == ["0", "1", "2", "3", "4", "5"] and sum(done) == 6
    for name in ("best", "score", "final", "rerank_seconds"):
        assert np.array_equal(getattr(again, name)[:4], getattr(first, name), equal_nan=True)


def test_a_killed_run_continues(
    pools: list[FullPool], tmp_path: Path, reranked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POOLS_AT_ONCE", 2)
    counted = module.observe

    def killed(reranker: Any, few: Any, **more: Any) -> Any:
        if len(reranked) >= 4:
            raise KeyboardInterrupt
        return counted(reranker, few, **more)

    monkeypatch.setattr(module, "observe", killed)
    with pytest.raises(KeyboardInterrupt):
        compute("mbr:chrf", pools, SETTINGS, LANGUAGES, tmp_path)
    assert reranked == ["0", "1", "2", "3"]
    monkeypatch.setattr(module, "observe", counted)
    found = compute("mbr:chrf", pools, SETTINGS, LANGUAGES, tmp_path)
    assert reranked == ["0", "1", "2", "3", "4", "5"]
    whole = compute("mbr:chrf", pools, SETTINGS, LANGUAGES, tmp_path / "elsewhere")
    assert np.array_equal(found.score, whole.score) and np.array_equal(found.best, whole.best)


@pytest.mark.parametrize(
    ("spec", "rules"),
    [("mbr:chrf", ["loss", "loss:new=0.1,minimum=4"]), ("qe:recorded:q", ["headroom:top=9,minimum=4"])],
)
def test_signals_are_what_rules_see_live(
    spec: str, rules: list[str], pools: list[FullPool], tmp_path: Path, reranked: list[str]
) -> None:
    compute(spec, pools, SETTINGS, LANGUAGES, tmp_path)  # without signals
    given = [
        "loss",
        "loss:new=0.1,minimum=4",
        "headroom:top=9,minimum=4",
        "loss:minimum=16",
    ]  # those that do not fit are left out
    found = compute(spec, pools, SETTINGS, LANGUAGES, tmp_path, rules=given, step=2, budget=16)
    assert list(found.signals) == rules
    own: Any = rerank.load(spec)
    for name in rules:
        for pool, signals in zip(pools, found.signals[name], strict=True):
            rule: Any = stop.within(stop.load(name, k=2, n=16), len(pool.candidates))  # as a run of a short pool has it
            state, seen = own.open(pool.segment), []
            for start in range(0, len(pool.candidates), 2):
                ((*_, snapshot),) = own.extend([Update(state, pool.candidates[start : start + 2], 2)])
                if snapshot.size < rule.budget and rule.looks_at(snapshot.size):
                    seen.append(rule.signal(snapshot))
            assert signals.tolist() == pytest.approx(seen, abs=1e-12)
    before = len(reranked)
    again = compute(spec, pools, SETTINGS, LANGUAGES, tmp_path, rules=given, step=2, budget=16)
    assert len(reranked) == before and again.signals[rules[0]][0].tolist() == found.signals[rules[0]][0].tolist()


def test_other_recorded_scores_are_other_trajectories(
    pools: list[FullPool], tmp_path: Path, reranked: list[str]
) -> None:
    first = compute("qe:recorded:q", pools[:1], SETTINGS, LANGUAGES, tmp_path)
    texts = [one.text for one in pools[0].candidates]
    rescored = tuple(Candidate(text, scores={"q": float(place)}) for place, text in enumerate(texts))
    changed = [FullPool(pools[0].segment, rescored, 1.0)]
    second = compute("qe:recorded:q", changed, SETTINGS, LANGUAGES, tmp_path)
    assert second.best[0].tolist() == list(range(20)) != first.best[0].tolist()
    compute("mbr:chrf", pools[:1], SETTINGS, LANGUAGES, tmp_path)
    del reranked[:]
    compute("mbr:chrf", changed, SETTINGS, LANGUAGES, tmp_path)
    assert reranked == []  # MBR only looks at texts


def test_a_segment_that_cannot_be_scored_ends_it(pools: list[FullPool], tmp_path: Path) -> None:
    with pytest.raises(RerankError, match="segment 0"):
        compute("qe:recorded:p", pools, SETTINGS, LANGUAGES, tmp_path)


def test_other_kinds_of_rerankers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "build_reranker", lambda *_: object())
    with pytest.raises(UsageError, match="the lab replays mbr: and qe: rerankers, not mbr:chrf"):
        compute("mbr:chrf", [], SETTINGS, LANGUAGES, tmp_path)


def test_hardware_is_only_for_scoring_models() -> None:
    settings = RerankSettings(device="cpu", dtype="bfloat16", batch_tokens=9)
    assert settings.recipe("mbr:chrf") == RerankRecipe("mbr:chrf")
    own = settings.recipe("mbr:comet")
    assert (own.device, own.dtype, own.batch_tokens) == ("cpu", "bfloat16", 9)


@pytest.mark.parametrize("variant", ["prune", "lowrank"])
def test_accelerated_on_whole_pools(
    variant: str, pools: list[FullPool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compute("mbr:chrf", pools, SETTINGS, LANGUAGES, tmp_path)
    ran: list[str] = []
    winner = module.winner
    monkeypatch.setattr(module, "winner", lambda own, pool: ran.append(pool.segment.id) or winner(own, pool))
    name, reranker = next(iter(accelerated_rerankers("mbr:chrf", variant, SETTINGS, LANGUAGES).items()))
    found = accelerated(whole, name, reranker, pools, tmp_path)
    replayed, seconds = found.replayed, found.rerank_seconds
    assert ran == ["0", "1", "2", "3", "4", "5"]
    own: Any = rerank.load("mbr:chrf", variant=variant)
    for row, pool in enumerate(pools):
        (snapshots,) = own.extend([Update(own.open(pool.segment), pool.candidates, len(pool.candidates))])
        assert replayed.index[row] == snapshots[-1].best
        assert replayed.score[row] == whole.final[row, snapshots[-1].best]
    assert replayed.name == {"prune": "PruneMBR", "lowrank": "PMBR"}[variant]
    assert replayed.size.tolist() == list(SIZES)
    assert seconds.shape == (6,) and (seconds > 0).all()
    again = accelerated(whole, name, reranker, pools, tmp_path)
    assert len(ran) == 6
    assert again.rerank_seconds.tolist() == seconds.tolist()


def test_the_simplest_rival_stands_beside_pmbr(pools: list[FullPool], tmp_path: Path) -> None:
    """It is the mean of the cells that PMBR observes, with the same options."""
    whole = compute("mbr:chrf", pools, SETTINGS, LANGUAGES, tmp_path)
    for variant, names in [("prune", ["PruneMBR"]), ("lowrank", ["PMBR", "Observed mean"])]:
        assert list(accelerated_rerankers("mbr:chrf", variant, SETTINGS, LANGUAGES)) == names
    rerankers = accelerated_rerankers("mbr:chrf", "lowrank:reduction=4,seed=3", SETTINGS, LANGUAGES)
    rival = rerankers["Observed mean"]
    assert isinstance(rival.method, ObservedMean)
    assert (rival.method.reduction, rival.method.seed, rival.support) == (4, 3, "all")
    found = accelerated(whole, "Observed mean", rival, pools, tmp_path).replayed
    own = Accelerated(Chrf(), ObservedMean(4, seed=3))
    for row, pool in enumerate(pools):
        (snapshots,) = own.extend([Update(own.open(pool.segment), pool.candidates, len(pool.candidates))])
        assert not isinstance(snapshots, Exception)
        assert found.index[row] == snapshots[-1].best


def test_warming_up_is_not_measured(pools: list[FullPool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call of a compiled or loaded reranker is one of a few candidates, before the clock starts."""
    calls: list[int] = []
    extend = Mbr.extend
    monkeypatch.setattr(
        Mbr, "extend", lambda self, updates: calls.append(len(updates[0].candidates)) or extend(self, updates)
    )
    monkeypatch.setattr(module.time, "perf_counter", lambda: float(len(calls)))
    found = compute("mbr:chrf", pools[:1], SETTINGS, LANGUAGES, tmp_path)
    assert calls == [16, 20]
    assert found.rerank_seconds.tolist() == [1.0]


def test_rules_that_look_at_all_scores_see_those_of_a_live_run(
    pools: list[FullPool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QE has no table of signals: they are computed from its scores."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule_of_all_scores.py").write_text(
        "from dataclasses import dataclass\nfrom quitmt.stop.headroom import Headroom\n\n\n"
        "@dataclass(frozen=True)\nclass Spread(Headroom):\n    top: float = 1.0\n    minimum: int = 4\n\n"
        "    def signal(self, snapshot):\n        return float(snapshot.scores().std())\n"
    )
    rule = "rule_of_all_scores:Spread"
    found = compute("qe:recorded:q", pools, SETTINGS, LANGUAGES, tmp_path, rules=[rule], step=4, budget=20)
    reranker: Any = rerank.load("qe:recorded:q")
    for pool, signals in zip(pools, found.signals[rule], strict=True):
        own = stop.load_threshold(rule, k=4, n=20)
        looks = [size for size in own.sizes() if size < 20 and size <= len(pool.candidates)]
        [snapshots] = reranker.extend([Update(reranker.open(pool.segment), pool.candidates, 1)])
        assert signals.tolist() == [own.signal(snapshots[size - 1]) for size in looks]
