"""External metrics of what rules might choose: each winner of each reranker at any pool size, and nothing else.

References are seen here and nowhere before. Scores are kept by metric, source, translation and references, so another
rule or another reranker costs only the translations that are new.
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

AT_ONCE = 2048
"""Translations scored in one call, and kept after it: enough for an encoder's batches, few enough to lose."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Translations to be scored, each once."""

    texts: dict[str, Text]
    """By key."""
    places: list[tuple[int, int, str]]
    """Segment, candidate, key."""
    shape: tuple[int, int]
    references: int


def wanted(
    pools: Sequence[FullPool], references: Sequence[Sequence[str]], chosen: Sequence[Trajectories | Replayed]
) -> Wanted:
    """Whatever a rule might choose; ``references`` are sets, each with a text a segment."""
    texts: dict[str, Text] = {}
    places = []
    for row, pool in enumerate(pools):
        own = tuple(one[row] for one in references)
        for index in sorted(_indices(chosen, row)):
            text = at(index, pool.anchors, pool.candidates).text
            key = key_of(pool.segment.source, text, *own)
            texts[key] = pool.segment.source, text, own
            places.append((row, index, key))
    width = max(len(pool.candidates) for pool in pools) + max(len(pool.anchors) for pool in pools)
    return Wanted(texts, places, (len(pools), width), len(references))


def wanted_texts(sources: Sequence[str], references: Sequence[Sequence[str]], given: Sequence[Sequence[str]]) -> Wanted:
    """Translations that belong to no pool, each of ``given`` with a text a segment: a column each."""
    texts: dict[str, Text] = {}
    places = []
    for column, translations in enumerate(given):
        for row, (source, text) in enumerate(zip(sources, translations, strict=True)):
            own = tuple(one[row] for one in references)
            key = key_of(source, text, *own)
            texts[key] = source, text, own
            places.append((row, column, key))
    return Wanted(texts, places, (len(sources), len(given)), len(references))


def evaluate(
    spec: str, what: Wanted, folder: Path, setup: Setup | None = None, progress: Progress | None = None
) -> QualityScores:
    """The scores by one metric."""
    (found,) = evaluate_all(spec, [what], folder, setup, progress)
    return found


def evaluate_all(
    spec: str, whats: Sequence[Wanted], folder: Path, setup: Setup | None = None, progress: Progress | None = None
) -> list[QualityScores]:
    """The scores by one metric, which is loaded once; what is wanted has the same references."""
    metric = load(spec, setup)
    signature = metric.signature_for(whats[0].references)
    table = RowStore(folder / f"quality-{key_of(metric.name, signature)}", rows_a_part=AT_ONCE)
    known = table.keys()
    texts = all_texts(whats)
    new = {key: text for key, text in texts.items() if key not in known}
    if progress:
        progress(len(texts) - len(new))
    with table:
        _score(metric, new, table, progress)
    scores = table.read(texts, ("score",))
    found = []
    for what in whats:
        values = np.full(what.shape, np.nan)
        for row, index, key in what.places:
            values[row, index] = scores[key]["score"]
        found.append(QualityScores(metric.name, signature, metric.lower_is_better, values))
    return found


def all_texts(whats: Sequence[Wanted]) -> dict[str, Text]:
    return {key: text for what in whats for key, text in what.texts.items()}


def _indices(chosen: Sequence[Trajectories | Replayed], row: int) -> set[int]:
    found: set[int] = set()
    for one in chosen:
        found |= {int(one.index[row])} if isinstance(one, Replayed) else set(np.unique(one.best[row]).tolist())
    return found


def _score(metric: Metric, new: dict[str, Text], table: RowStore, progress: Progress | None) -> None:
    waiting, unread = iter(new.items()), 0
    while part := dict(islice(waiting, AT_ONCE)):
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
        hint = "take a better judge, or leave the metric out; the others' scores are kept"
        raise UsageError(f"{metric.name} gave no readable score for {unread} of {len(new)} translations", hint=hint)
