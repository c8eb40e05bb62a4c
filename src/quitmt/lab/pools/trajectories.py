"""A reranker's winner after every candidate of every pool: computed once, kept, and enough for any replay.

Accelerated MBR runs on the whole pools only. The signals that MBR gives to rules with a threshold have tables of their
own, so adding or removing a rule leaves the other tables as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quitmt import stop
from quitmt.calibrate.observe import observe
from quitmt.errors import QuitmtError, UsageError
from quitmt.lab.frames import Floats, Ints, Replayed, Trajectories
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.pools.store import RowStore, key_of
from quitmt.lab.study.settings import RerankSettings
from quitmt.plan import StopRecipe
from quitmt.plan.build import build_reranker, build_rule
from quitmt.protocols import Reranker, RerankerTraits, Update
from quitmt.rerank import specs
from quitmt.rerank.accelerated import Accelerated
from quitmt.rerank.lowrank import LowRank, ObservedMean
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.qe import Qe
from quitmt.stop.learned import Levels
from quitmt.stop.threshold import Threshold
from quitmt.types import Snapshot

Progress = Callable[[int], object]
Languages = tuple[str | None, str | None]
COLUMNS = ("best", "score", "final", "rerank_seconds")
POOLS_AT_ONCE = 8
"""Pools reranked in one call: enough for an encoder's batches."""
WARM_UP = 16
"""Candidates."""
NAMES = {"prune": "PruneMBR", "lowrank": "PMBR", "centroid": "CentroidMBR", "aggregate": "Aggregate"}
OBSERVED_MEAN = "Observed mean"
"""The simplest rival of PMBR: the mean of the cells that PMBR observes."""


@dataclass(frozen=True, slots=True)
class AcceleratedReplay:
    """An accelerated kind of MBR on the whole pools."""

    replayed: Replayed
    rerank_seconds: Floats
    """[S]: measured."""


def compute(
    spec: str,
    pools: Sequence[FullPool],
    settings: RerankSettings,
    languages: Languages,
    folder: Path,
    progress: Progress | None = None,
    rules: Sequence[str] = (),
    *,
    step: int = 8,
    budget: int = 512,
) -> Trajectories:
    """``rules`` are rules with a threshold; the signals of those that fit the reranker are computed too."""
    reranker: Any = build_reranker(settings.recipe(spec), languages)
    if not isinstance(reranker, Mbr | Qe):
        raise UsageError(f"the lab replays mbr: and qe: rerankers, not {spec}")
    # QE may use the scores that were recorded with the candidates.
    keys = [
        key_of(reranker.signature, pool.scored_key if isinstance(reranker, Qe) else pool.key, pool.segment.id)
        for pool in pools
    ]
    table = RowStore(folder / f"trajectories-{key_of(reranker.signature)}")
    fitting = fitting_rules(spec, rules, step, budget)
    with ExitStack() as opened:
        tables = {"": opened.enter_context(table)}
        if isinstance(reranker, Mbr):  # the signals of QE follow from its scores
            for name, rule in fitting.items():
                of_rule = key_of(reranker.signature, rule.at(0.0).signature)
                tables[name] = opened.enter_context(RowStore(folder / f"signals-{of_rule}"))
        known = set.intersection(*(one.keys() for one in tables.values()))
        missing = [(key, pool) for key, pool in zip(keys, pools, strict=True) if key not in known]
        if progress:
            progress(len(pools) - len(missing))
        _fill(tables, fitting, reranker, missing, progress)
    found = _gathered(spec, reranker.signature, pools, keys, table)
    if isinstance(reranker, Mbr):
        rows = {name: tables[name].read(keys, ("signal",)) for name in fitting}
        signals = {name: tuple(rows[name][key]["signal"] for key in keys) for name in fitting}
    else:
        fitting = with_tops(fitting, found)
        signals = {name: _signals_of_scores(rule, found) for name, rule in fitting.items()}
    return replace(found, signals=signals)


def with_tops(rules: Mapping[str, Threshold], found: Trajectories) -> dict[str, Threshold]:
    """Give rules that learn their top the one of all segments, as a number in their names: a replay has no order."""
    if not any(rule.learns for rule in rules.values()):
        return dict(rules)
    top = Levels.of(found.score[np.arange(len(found.ids)), found.sizes - 1]).top
    named = {rule.with_top(top, name) if rule.learns else name: rule for name, rule in rules.items()}
    made = {name: build_rule(StopRecipe(rule=name, k=rule.step, n=rule.budget)) for name, rule in named.items()}
    return {name: rule for name, rule in made.items() if isinstance(rule, Threshold)}


def fitting_rules(spec: str, rules: Sequence[str], step: int, budget: int) -> dict[str, Threshold]:
    """The rules with a threshold that fit a reranker and can stop before the budget is used up, by their names in the
    study."""
    loaded = {name: build_rule(StopRecipe(rule=name, k=step, n=budget)) for name in rules}
    traits = RerankerTraits("qe", running_best=True, gives_scores=True)
    if spec.startswith("mbr:"):
        traits = RerankerTraits("mbr", gives_rivals=True, gives_scores=True, votes=specs.parse(spec).votes)
    able = {name: rule for name, rule in loaded.items() if isinstance(rule, Threshold) and rule.minimum < budget}
    return {name: rule for name, rule in able.items() if stop.fits(rule, traits)}


def _signals_of_scores(rule: Threshold, found: Trajectories) -> tuple[Floats, ...]:
    looks = list(rule.sizes())[:-1]
    return tuple(
        np.array([rule.signal(Snapshot(n, 0, best[n - 1], scores=partial(_first, own, n))) for n in looks if n <= size])
        for best, own, size in zip(found.score.tolist(), found.final, found.sizes.tolist(), strict=True)
    )


def _first(scores: Floats, count: int) -> Floats:
    return scores[:count]


def _fill(
    tables: Mapping[str, RowStore],
    rules: Mapping[str, Threshold],
    reranker: Mbr[Any] | Qe,
    missing: Sequence[tuple[str, FullPool]],
    progress: Progress | None,
) -> None:
    """Rerank the missing pools; a pool's share of the measured seconds is its share of the candidates."""
    known = {name: table.keys() for name, table in tables.items()}
    if missing:
        warm_up(reranker, missing[0][1])
    for start in range(0, len(missing), POOLS_AT_ONCE):
        batch = missing[start : start + POOLS_AT_ONCE]
        began = time.perf_counter()
        observed = observe(reranker, [pool.recorded for _, pool in batch])
        seconds = (time.perf_counter() - began) / sum(len(pool.candidates) for _, pool in batch)
        for (key, pool), one in zip(batch, observed, strict=True):
            best = one.best.astype(np.int32)
            row = {"rerank_seconds": seconds * len(best), "best": best, "score": one.score, "final": one.final}
            for name, table in tables.items():
                if key not in known[name]:
                    own = {"signal": one.signals(rules[name])} if name else row
                    table.add({"key": key, "id": pool.segment.id, **own})
            if progress:
                progress(1)


def warm_up(reranker: Reranker[Any], pool: FullPool) -> None:
    """Rerank a few candidates, so that compiling and loading are not measured as the cost of a segment."""
    reranker.extend([Update(reranker.open(pool.segment), pool.candidates[:WARM_UP], WARM_UP, pool.anchors)])


def _gathered(spec: str, signature: str, pools: Sequence[FullPool], keys: list[str], table: RowStore) -> Trajectories:
    rows = table.read(keys, COLUMNS)
    sizes = np.array([len(pool.candidates) for pool in pools], np.int64)
    shape = len(pools), int(sizes.max())
    anchors = max(len(pool.anchors) for pool in pools)
    best, score, final = np.empty(shape, np.int64), np.empty(shape), np.full((len(pools), shape[1] + anchors), np.nan)
    for place, (key, size) in enumerate(zip(keys, sizes.tolist(), strict=True)):
        row = rows[key]
        best[place, :size], best[place, size:] = row["best"], row["best"][-1]
        score[place, :size], score[place, size:] = row["score"], row["score"][-1]
        final[place, :size] = row["final"][:size]
        if own := len(row["final"]) - size:  # anchors, whose indices count from the end
            final[place, -own:] = row["final"][size:]
    return Trajectories(
        spec,
        signature,
        tuple(pool.segment.id for pool in pools),
        sizes,
        best,
        score,
        final,
        np.array([pool.generate_seconds for pool in pools]),
        np.array([rows[key]["rerank_seconds"] for key in keys]),
        anchors=np.array([len(pool.anchors) for pool in pools], np.int64),
        anchor_seconds=np.array([pool.anchor_seconds for pool in pools]),
    )


def accelerated_rerankers(
    spec: str, variant: str, settings: RerankSettings, languages: Languages
) -> dict[str, Accelerated[Any]]:
    """An accelerated kind of MBR by its name in tables; beside PMBR always its simplest rival."""
    reranker: Any = build_reranker(settings.recipe(spec, variant), languages)
    found = {NAMES.get(variant, variant): reranker}
    method = reranker.method
    if isinstance(method, LowRank):
        rival = ObservedMean(method.reduction, method.seed)
        found[OBSERVED_MEAN] = Accelerated(reranker.utility, rival, reranker.support)
    return found


def accelerated(
    trajectories: Trajectories,
    name: str,
    reranker: Accelerated[Any],
    pools: Sequence[FullPool],
    folder: Path,
    progress: Progress | None = None,
) -> AcceleratedReplay:
    """What an accelerated reranker chooses on the whole pools, and its seconds."""
    keys = [key_of(reranker.signature, pool.key, pool.segment.id) for pool in pools]
    table = RowStore(folder / f"accelerated-{key_of(reranker.signature)}")
    known = table.keys()
    with table:
        warm = False
        for key, pool in zip(keys, pools, strict=True):
            if key not in known:
                if not warm:
                    warm_up(reranker, pool)
                    warm = True
                best, seconds = winner(reranker, pool)
                table.add({"key": key, "id": pool.segment.id, "best": best, "rerank_seconds": seconds})
            if progress:
                progress(1)
    rows = table.read(keys, ("best", "rerank_seconds"))
    index: Ints = np.array([rows[key]["best"] for key in keys], np.int64)
    score = trajectories.final[np.arange(len(index)), index]
    full = np.ones(len(index), np.bool_)
    replayed = Replayed(name, trajectories.reranker, trajectories.sizes.copy(), index, score, full)
    return AcceleratedReplay(replayed, np.array([rows[key]["rerank_seconds"] for key in keys]))


def winner(reranker: Accelerated[Any], pool: FullPool) -> tuple[int, float]:
    """The index of the whole pool's winner, and the seconds that it took."""
    began = time.perf_counter()
    (snapshots,) = reranker.extend(
        [Update(reranker.open(pool.segment), pool.candidates, len(pool.candidates), pool.anchors)]
    )
    seconds = time.perf_counter() - began
    if isinstance(snapshots, QuitmtError):
        raise snapshots
    return snapshots[-1].best, seconds
