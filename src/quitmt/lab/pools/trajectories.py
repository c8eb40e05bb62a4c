"""Where a reranker stands after every candidate of every pool: computed once, kept, and enough for any replay.

Accelerated kinds of MBR are run on the whole pools only. The signals that MBR gives to rules with a threshold, and the
utilities of all pairs, if they are wanted, have tables of their own: whoever asks for them later loses nothing, nor
does whoever no longer does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quitmt import stop
from quitmt.calibrate.observe import Observed, observe
from quitmt.errors import QuitmtError, UsageError
from quitmt.lab.frames import Floats, Ints, Replayed, Trajectories
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.pools.store import RowStore, key_of
from quitmt.lab.study.settings import RerankSettings
from quitmt.plan import StopRecipe
from quitmt.plan.build import build_reranker, build_rule
from quitmt.protocols import Reranker, RerankerTraits, Update
from quitmt.rerank import specs
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.qe import Qe
from quitmt.stop.threshold import Threshold
from quitmt.types import Snapshot

Progress = Callable[[int], object]
Languages = tuple[str | None, str | None]
COLUMNS = ("best", "score", "final", "rerank_seconds")
POOLS_AT_ONCE = 8
"""Reranked in one call: enough for an encoder's batches."""
WARM_UP = 16
"""Candidates."""


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
    """``rules`` with a threshold whose signals are wanted, of those that fit the reranker."""
    reranker: Any = build_reranker(settings.recipe(spec), languages)
    if not isinstance(reranker, Mbr | Qe):
        raise UsageError(f"the lab replays mbr: and qe: rerankers, not {spec}")
    # QE may look at the scores that came with the candidates.
    keys = [
        key_of(reranker.signature, pool.scored_key if isinstance(reranker, Qe) else pool.key, pool.segment.id)
        for pool in pools
    ]
    table = RowStore(folder / f"trajectories-{key_of(reranker.signature)}")
    fitting = fitting_rules(spec, rules, step, budget)
    with ExitStack() as opened:
        tables = {"": opened.enter_context(table)}
        if isinstance(reranker, Mbr):  # the signals of QE are in its scores
            if settings.keep_pairs:
                tables["pairs"] = opened.enter_context(RowStore(folder / f"pairs-{key_of(reranker.signature)}"))
            # Signals of short pools were once those of the whole budget: such tables are not read again.
            short = ["short pools"] if any(len(pool.candidates) < budget for pool in pools) else []
            for name, rule in fitting.items():
                of_rule = key_of(reranker.signature, rule.at(0.0).signature, *short)
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
        signals = {name: _signals_of_scores(rule, found) for name, rule in fitting.items()}
    return replace(found, signals=signals)


def fitting_rules(spec: str, rules: Sequence[str], step: int, budget: int) -> dict[str, Threshold]:
    """The rules with a threshold that can be used with a reranker, and that can stop before the budget is used up, by
    their names in the study."""
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
    known = {name: table.keys() for name, table in tables.items()}
    if missing:
        warm_up(reranker, missing[0][1])
    for start in range(0, len(missing), POOLS_AT_ONCE):
        batch = missing[start : start + POOLS_AT_ONCE]
        observed = _observed(reranker, batch, keep_pairs="pairs" in tables)
        for (key, pool), one, seconds in zip(batch, *observed, strict=True):
            for name, table in tables.items():
                if key not in known[name]:
                    table.add({"key": key, "id": pool.segment.id, **_columns(name, one, seconds, rules)})
            if progress:
                progress(1)


def _columns(table: str, one: Observed, seconds: float, rules: Mapping[str, Threshold]) -> dict[str, Any]:
    if table in rules:
        return {"signal": one.signals(rules[table])}
    if table == "pairs":
        return one.pairs
    return {"rerank_seconds": seconds, "best": one.best.astype(np.int32), "score": one.score, "final": one.final}


def _observed(
    reranker: Mbr[Any] | Qe, pools: Sequence[tuple[str, FullPool]], *, keep_pairs: bool
) -> tuple[list[Observed], list[float]]:
    """And the seconds that reranking each took."""
    given = [pool for _, pool in pools]
    began = time.perf_counter()
    found = observe(reranker, given, keep_pairs=keep_pairs)
    seconds = (time.perf_counter() - began) / sum(len(pool.candidates) for pool in given)
    return found, [seconds * len(pool.candidates) for pool in given]


def warm_up(reranker: Reranker[Any], pool: FullPool) -> None:
    """Rerank a few candidates for nothing: what a first call takes to compile and load is no cost of a segment."""
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
        if own := len(row["final"]) - size:  # by their index, which counts from the end
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


def accelerated(
    trajectories: Trajectories,
    variant: str,
    pools: Sequence[FullPool],
    settings: RerankSettings,
    languages: Languages,
    folder: Path,
    progress: Progress | None = None,
) -> tuple[Replayed, Floats, float]:
    """An accelerated kind of MBR on the whole pools: what it chose, its seconds, and its share of all utilities."""
    reranker: Any = build_reranker(settings.recipe(trajectories.reranker, variant), languages)
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
                table.add({"key": key, "id": pool.segment.id, **_whole(reranker, pool)})
            if progress:
                progress(1)
    rows = table.read(keys, ("best", "rerank_seconds", "evaluations", "possible"))
    index: Ints = np.array([rows[key]["best"] for key in keys], np.int64)
    score = trajectories.final[np.arange(len(index)), index]
    name = {"prune": "PruneMBR", "lowrank": "PMBR", "centroid": "CentroidMBR", "aggregate": "Aggregate"}.get(
        variant, variant
    )
    full = np.ones(len(index), np.bool_)
    replayed = Replayed(name, trajectories.reranker, trajectories.sizes.copy(), index, score, full)
    seconds: Floats = np.array([rows[key]["rerank_seconds"] for key in keys])
    share = sum(row["evaluations"] for row in rows.values()) / sum(row["possible"] for row in rows.values())
    return replayed, seconds, float(share)


def _whole(reranker: Any, pool: FullPool) -> dict[str, Any]:
    began = time.perf_counter()
    state = reranker.open(pool.segment)
    (snapshots,) = reranker.extend([Update(state, pool.candidates, len(pool.candidates), pool.anchors)])
    seconds = time.perf_counter() - began
    if isinstance(snapshots, QuitmtError):
        raise snapshots
    effort = reranker.effort(state)
    return {
        "best": snapshots[-1].best,
        "rerank_seconds": seconds,
        "evaluations": effort.evaluations,
        "possible": effort.possible,
    }
