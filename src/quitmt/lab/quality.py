"""External metrics of what rules might choose: each winner of each reranker at any pool size, and nothing else.

References are seen here and nowhere before. Scores are kept by metric, source, translation and references, so another
rule or another reranker costs only the translations that are new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from quitmt.errors import UsageError
from quitmt.evaluate.metrics import Metric, Setup, TestSet, load
from quitmt.lab.frames import Quality, Replayed, Trajectories
from quitmt.lab.sample import Pool
from quitmt.lab.store import Table, key_of

Progress = Callable[[int], object]


def evaluate(
    spec: str,
    pools: Sequence[Pool],
    references: Sequence[Sequence[str]],
    chosen: Sequence[Trajectories | Replayed],
    folder: Path,
    setup: Setup | None = None,
    progress: Progress | None = None,
) -> Quality:
    """The scores by one metric; ``references`` are sets, each with a text a segment."""
    metric = load(spec, setup)
    wanted = [(row, index) for row in range(len(pools)) for index in sorted(_indices(chosen, row))]
    texts = [
        (pools[row].segment.source, pools[row].candidates[index].text, tuple(own[row] for own in references))
        for row, index in wanted
    ]
    keys = [key_of(source, text, *own) for source, text, own in texts]
    table = Table(folder / f"quality-{key_of(metric.signature, str(len(references)))}")
    known = table.keys()
    new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if progress:
        progress(len(set(keys)) - len(new))
    if new:
        _score(metric, new, table, progress)
    scores = table.read(set(keys), ("score",))
    size = max(len(pool.candidates) for pool in pools)
    values = np.full((len(pools), size), np.nan)
    for (row, index), key in zip(wanted, keys, strict=True):
        values[row, index] = scores[key]["score"]
    return Quality(metric.name, metric.signature, metric.lower_is_better, values)


def _indices(chosen: Sequence[Trajectories | Replayed], row: int) -> set[int]:
    found: set[int] = set()
    for one in chosen:
        found |= {int(one.index[row])} if isinstance(one, Replayed) else set(np.unique(one.best[row]).tolist())
    return found


def _score(
    metric: Metric, new: dict[str, tuple[str, str, tuple[str, ...]]], table: Table, progress: Progress | None
) -> None:
    sources = tuple(source for source, _, _ in new.values())
    references = tuple(zip(*(own for _, _, own in new.values()), strict=True))
    (scores,) = metric.evaluate(TestSet(sources, references), [[text for _, text, _ in new.values()]], progress)
    unread = int(np.isnan(scores.segments).sum())
    for key, score in zip(new, scores.segments.tolist(), strict=True):
        if not np.isnan(score):
            table.add({"key": key, "score": score})
    table.flush()
    if unread:
        hint = "take a better judge, or leave the metric out; the others' scores are kept"
        raise UsageError(f"{metric.name} gave no readable score for {unread} of {len(new)} translations", hint=hint)
