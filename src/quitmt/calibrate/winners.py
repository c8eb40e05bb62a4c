"""The quality of the rules' choices, against references. Each metric scores only translations that some rule chooses,
and each distinct translation of a segment once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quitmt.calibrate.families import Family
from quitmt.calibrate.observe import Floats, Ints, Observed
from quitmt.errors import InputError
from quitmt.evaluate.metrics import Metric, Progress, TestSet
from quitmt.types import RecordedPool, at


@dataclass(frozen=True, slots=True)
class JudgedRules:
    """One metric's scores of the rules' choices; higher is better, even if the metric's own scale is reversed."""

    metric: str
    signature: str
    whole: Floats
    """[segments]: the scores of the whole pool's winners."""
    chosen: tuple[Floats, ...]
    """For each family, [rules, segments]."""

    def of_segments(self, kept: npt.NDArray[np.bool_]) -> JudgedRules:
        """The same for some of the segments."""
        return JudgedRules(self.metric, self.signature, self.whole[kept], tuple(own[:, kept] for own in self.chosen))


@dataclass(frozen=True, slots=True)
class Winners:
    """The translations that the rules choose."""

    sources: tuple[str, ...]
    texts: tuple[str, ...]
    segments: Ints
    """The segment of each text."""
    whole: Ints
    """[segments]: the index of the whole pool's winner among the texts."""
    chosen: tuple[Ints, ...]
    """For each family, [rules, segments]: indices of texts."""

    def judged(
        self, metric: Metric, references: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> JudgedRules:
        """``references`` are sets with one text per segment."""
        sets = tuple(tuple(texts[segment] for segment in self.segments) for texts in references)
        [scores] = metric.evaluate(TestSet(self.sources, sets), [self.texts], progress)
        values = -scores.segments if metric.lower_is_better else scores.segments
        signature = metric.signature_for(len(references))
        return JudgedRules(metric.name, signature, values[self.whole], tuple(values[places] for places in self.chosen))


def winners(observed: Sequence[Observed], pools: Sequence[RecordedPool], found: Sequence[Family]) -> Winners:
    places: dict[tuple[int, str], int] = {}

    def place(segment: int, index: int) -> int:
        pool = pools[segment]
        return places.setdefault((segment, at(index, pool.anchors, pool.candidates).text), len(places))

    whole = np.array([place(segment, int(one.best[-1])) for segment, one in enumerate(observed)], np.int64)
    chosen = []
    for family in found:
        own = np.empty(family.sizes.shape, np.int64)
        for segment, one in enumerate(observed):
            indices, back = np.unique(one.best[family.sizes[:, segment] - 1], return_inverse=True)
            own[:, segment] = np.array([place(segment, int(index)) for index in indices])[back]
        chosen.append(own)
    segments = np.array([segment for segment, _ in places], np.int64)
    sources = tuple(pools[segment].segment.source for segment in segments)
    return Winners(sources, tuple(text for _, text in places), segments, whole, tuple(chosen))


def in_order_of(pools: Sequence[RecordedPool], references: Sequence[str], path: str) -> list[str]:
    """One reference per pool: by id if the ids are line numbers, otherwise by order."""
    if len(references) != len(pools):
        raise InputError(
            f"{path} has {len(references)} lines, but there are {len(pools)} pools", hint="one reference for each pool"
        )
    ids = [pool.segment.id for pool in pools]
    numbers = [str(number) for number in range(1, len(pools) + 1)]
    if set(ids) != set(numbers):
        return list(references)
    return [references[int(one) - 1] for one in ids]
