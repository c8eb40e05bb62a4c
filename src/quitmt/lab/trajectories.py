"""Where a reranker stands after every candidate of every pool: computed once, kept, and enough for any replay.

For MBR the standings come from the reranker itself, one a candidate. For QE they are the running maximum of the
candidates' scores. Accelerated kinds of MBR are run on the whole pools only. The utilities of all pairs, if they are
wanted, have a table of their own: whoever asks for them later loses nothing, nor does whoever no longer does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from quitmt import rerank
from quitmt.devices import Hardware
from quitmt.errors import QuitmtError, UsageError
from quitmt.lab.frames import Floats, Ints, Replayed, Trajectories
from quitmt.lab.sample import Pool
from quitmt.lab.store import Table, key_of
from quitmt.lab.study import RerankSettings
from quitmt.protocols import Reranker, Update
from quitmt.rerank.mbr import Mbr
from quitmt.rerank.qe import Qe

Progress = Callable[[int], object]
Languages = tuple[str | None, str | None]
COLUMNS = ("best", "score", "final", "rerank_seconds")
PAIR_COLUMNS = ("order", "utilities")
POOLS_AT_ONCE = 8
"""Reranked in one call: enough for an encoder's batches."""
WARM_UP = 16
"""Candidates."""


def compute(
    spec: str,
    pools: Sequence[Pool],
    settings: RerankSettings,
    languages: Languages,
    folder: Path,
    progress: Progress | None = None,
) -> Trajectories:
    reranker: Any = loaded(spec, settings, languages)
    if not isinstance(reranker, Mbr | Qe):
        raise UsageError(f"the lab replays mbr: and qe: rerankers, not {spec}")
    # QE may look at the scores that came with the candidates.
    keys = [
        key_of(reranker.signature, pool.scored_key if isinstance(reranker, Qe) else pool.key, pool.segment.id)
        for pool in pools
    ]
    table = Table(folder / f"trajectories-{key_of(reranker.signature)}")
    known = table.keys()
    with table, ExitStack() as opened:
        pairs = None
        if settings.keep_pairs and isinstance(reranker, Mbr):
            pairs = opened.enter_context(Table(folder / f"pairs-{key_of(reranker.signature)}"))
            known &= pairs.keys()
        missing = [(key, pool) for key, pool in zip(keys, pools, strict=True) if key not in known]
        if progress:
            progress(len(pools) - len(missing))
        _fill(table, pairs, reranker, missing, progress)
    return _gathered(spec, reranker.signature, pools, keys, table)


def loaded(spec: str, settings: RerankSettings, languages: Languages, *, variant: str = "exact") -> Reranker[Any]:
    hardware = Hardware(settings.device, settings.dtype, settings.batch_tokens) if rerank.is_neural(spec) else None
    return rerank.load(spec, languages=languages, hardware=hardware, variant=variant)


def _fill(
    table: Table,
    pairs: Table | None,
    reranker: Mbr[Any] | Qe,
    missing: Sequence[tuple[str, Pool]],
    progress: Progress | None,
) -> None:
    known = table.keys()
    if missing:
        warm_up(reranker, missing[0][1])
    for start in range(0, len(missing), POOLS_AT_ONCE):
        for row in _rows(reranker, missing[start : start + POOLS_AT_ONCE], keep_pairs=pairs is not None):
            own = {name: row.pop(name) for name in PAIR_COLUMNS if name in row}
            if pairs is not None:
                pairs.add({"key": row["key"], "id": row["id"], **own})
            if row["key"] not in known:
                table.add(row)
            if progress:
                progress(1)


def _rows(reranker: Mbr[Any] | Qe, pools: Sequence[tuple[str, Pool]], *, keep_pairs: bool) -> list[dict[str, Any]]:
    began = time.perf_counter()
    if isinstance(reranker, Qe):
        columns = _running_maxima(reranker, [pool for _, pool in pools])
    else:
        columns = _standings(reranker, [pool for _, pool in pools], keep_pairs=keep_pairs)
    seconds = (time.perf_counter() - began) / sum(len(pool.candidates) for _, pool in pools)
    return [
        {"key": key, "id": pool.segment.id, "rerank_seconds": seconds * len(pool.candidates), **found}
        for (key, pool), found in zip(pools, columns, strict=True)
    ]


def warm_up(reranker: Reranker[Any], pool: Pool) -> None:
    """Rerank a few candidates for nothing: what a first call takes to compile and load is no cost of a segment."""
    reranker.extend([Update(reranker.open(pool.segment), pool.candidates[:WARM_UP], WARM_UP)])


def _running_maxima(reranker: Qe, pools: Sequence[Pool]) -> list[dict[str, Any]]:
    rows = []
    for scores in reranker.scores([(pool.segment, pool.candidates) for pool in pools]):
        if isinstance(scores, QuitmtError):
            raise scores
        final = np.array(scores, np.float64)
        score = np.maximum.accumulate(final)
        record = np.concatenate(([True], final[1:] > score[:-1]))
        best = np.maximum.accumulate(np.where(record, np.arange(len(final)), 0))
        rows.append({"best": best.astype(np.int32), "score": score, "final": final})
    return rows


def _standings(reranker: Mbr[Any], pools: Sequence[Pool], *, keep_pairs: bool) -> list[dict[str, Any]]:
    states = [reranker.open(pool.segment) for pool in pools]
    found = reranker.extend([Update(state, pool.candidates, 1) for state, pool in zip(states, pools, strict=True)])
    rows = []
    for state, standings in zip(states, found, strict=True):
        if isinstance(standings, QuitmtError):
            raise standings
        row: dict[str, Any] = {
            "best": np.array([one.best for one in standings], np.int32),
            "score": np.array([one.score for one in standings]),
            "final": state.sums[state.order[: state.size]] / state.size,
        }
        if keep_pairs:  # [hypothesis, reference] of distinct texts, and the text of each candidate
            texts = len(state.pairs.first)
            row["order"] = state.order[: state.size].astype(np.int32)
            row["utilities"] = state.pairs.utilities[:texts, :texts].T.astype(np.float32).ravel()
        rows.append(row)
    return rows


def _gathered(spec: str, signature: str, pools: Sequence[Pool], keys: list[str], table: Table) -> Trajectories:
    rows = table.read(keys, COLUMNS)
    sizes = np.array([len(pool.candidates) for pool in pools], np.int64)
    shape = len(pools), int(sizes.max())
    best, score, final = np.empty(shape, np.int64), np.empty(shape), np.full(shape, np.nan)
    for place, (key, size) in enumerate(zip(keys, sizes.tolist(), strict=True)):
        row = rows[key]
        best[place, :size], best[place, size:] = row["best"], row["best"][-1]
        score[place, :size], score[place, size:] = row["score"], row["score"][-1]
        final[place, :size] = row["final"]
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
    )


def accelerated(
    trajectories: Trajectories,
    variant: str,
    pools: Sequence[Pool],
    settings: RerankSettings,
    languages: Languages,
    folder: Path,
    progress: Progress | None = None,
) -> tuple[Replayed, Floats, float]:
    """An accelerated kind of MBR on the whole pools: what it chose, its seconds, and its share of all utilities."""
    reranker: Any = loaded(trajectories.reranker, settings, languages, variant=variant)
    keys = [key_of(reranker.signature, pool.key, pool.segment.id) for pool in pools]
    table = Table(folder / f"accelerated-{key_of(reranker.signature)}")
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


def _whole(reranker: Any, pool: Pool) -> dict[str, Any]:
    began = time.perf_counter()
    state = reranker.open(pool.segment)
    (standings,) = reranker.extend([Update(state, pool.candidates, len(pool.candidates))])
    seconds = time.perf_counter() - began
    if isinstance(standings, QuitmtError):
        raise standings
    effort = reranker.effort(state)
    return {
        "best": standings[-1].best,
        "rerank_seconds": seconds,
        "evaluations": effort.evaluations,
        "possible": effort.possible,
    }
