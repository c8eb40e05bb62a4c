"""External metrics' scores of every translation that some rule might choose, and of nothing else.

This is the only part of the lab that shows references to a metric. Scores are kept by metric, source, translation and
references, so another rule or reranker costs only the translations that are new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from quitmt.errors import UsageError
from quitmt.evaluate.metrics import Metric, Setup, TestSet, load
from quitmt.lab.frames import QualityScores, Replayed, Trajectories
from quitmt.lab.pools.sample import FullPool
from quitmt.lab.pools.store import RowStore, key_of
from quitmt.types import at

Progress = Callable[[int], object]
Text = tuple[str, str, tuple[str, ...]]
"""Source, translation, references."""

BATCH = 2048
"""Translations scored in one call and then written: enough for an encoder's batches, and a crash loses few."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Translations to be scored, each once, and their places in an array of the result."""

    texts: dict[str, Text]
    """By key."""
    places: list[tuple[int, int, str]]
    """Row, column, key."""
    shape: tuple[int, int]
    references: int


def wanted(
    pools: Sequence[FullPool], references: Sequence[Sequence[str]], chosen: Sequence[Trajectories | Replayed]
) -> Wanted:
    """Every candidate that a rule might choose; ``references`` are sets with one text per segment."""
    found = Wanted({}, [], (len(pools), _width(pools)), len(references))
    for row, pool in enumerate(pools):
        for index in sorted(_indices(chosen, row)):
            text = at(index, pool.anchors, pool.candidates).text
            _add(found, row, index, pool.segment.source, text, tuple(one[row] for one in references))
    return found


def wanted_texts(
    sources: Sequence[str], references: Sequence[Sequence[str]], translations: Sequence[Sequence[str]]
) -> Wanted:
    """Translations that belong to no pool: a column for each list, which has one text per segment."""
    found = Wanted({}, [], (len(sources), len(translations)), len(references))
    for column, texts in enumerate(translations):
        for row, (source, text) in enumerate(zip(sources, texts, strict=True)):
            _add(found, row, column, source, text, tuple(one[row] for one in references))
    return found


def _add(found: Wanted, row: int, column: int, source: str, text: str, references: tuple[str, ...]) -> None:
    key = key_of(source, text, *references)
    found.texts[key] = source, text, references
    found.places.append((row, column, key))


def _width(pools: Sequence[FullPool]) -> int:
    return max(len(pool.candidates) for pool in pools) + max(len(pool.anchors) for pool in pools)


def _indices(chosen: Sequence[Trajectories | Replayed], row: int) -> set[int]:
    found: set[int] = set()
    for one in chosen:
        found |= {int(one.index[row])} if isinstance(one, Replayed) else set(np.unique(one.best[row]).tolist())
    return found


def evaluate(
    spec: str, requests: Sequence[Wanted], folder: Path, setup: Setup | None = None, progress: Progress | None = None
) -> list[QualityScores]:
    """The scores of several requests by one metric, which is loaded once; all requests have the same references."""
    metric = load(spec, setup)
    signature = metric.signature_for(requests[0].references)
    table = RowStore(folder / f"quality-{key_of(metric.name, signature)}", rows_per_part=BATCH)
    known = table.keys()
    texts = all_texts(requests)
    new = {key: text for key, text in texts.items() if key not in known}
    if progress:
        progress(len(texts) - len(new))
    with table:
        _score(metric, new, table, progress)
    scores = table.read(texts, ("score",))
    found = []
    for request in requests:
        values = np.full(request.shape, np.nan)
        for row, column, key in request.places:
            values[row, column] = scores[key]["score"]
        found.append(QualityScores(metric.name, signature, metric.lower_is_better, values))
    return found


def all_texts(requests: Sequence[Wanted]) -> dict[str, Text]:
    return {key: text for request in requests for key, text in request.texts.items()}


def _score(metric: Metric, new: dict[str, Text], table: RowStore, progress: Progress | None) -> None:
    waiting, unread = iter(new.items()), 0
    while part := dict(islice(waiting, BATCH)):
        sources = tuple(source for source, _, _ in part.values())
        references = tuple(zip(*(own for _, _, own in part.values()), strict=True))
        (scores,) = metric.evaluate(TestSet(sources, references), [[text for _, text, _ in part.values()]], progress)
        for key, score in zip(part, scores.segments.tolist(), strict=True):
            if np.isnan(score):
                unread += 1
            else:
                table.add({"key": key, "score": score})
        table.flush()
    if unread:
        hint = "use a better judge, or leave the metric out; the other scores are kept"
        raise UsageError(f"{metric.name} gave no readable score for {unread} of {len(new)} translations", hint=hint)
