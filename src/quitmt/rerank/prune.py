"""PruneMBR (Cheng & Vlachos 2023): candidates that are unlikely to win are dropped while the support still grows.

The support is taken in growing prefixes of the pool. After each, the columns seen are resampled, the same resamples
for all rows; a candidate stays if its mean is at least that of the best one in more than 1 − ``confidence`` of the
resamples. With one candidate left, or all columns seen, the best mean over the columns seen wins.

A prefix is resampled with the same random numbers whatever the size of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quitmt.errors import UsageError
from quitmt.protocols import Utility
from quitmt.rerank.cells import Cells, Floats, checked_seed
from quitmt.signature import field

SCHEDULE = (8, 16, 32, 64, 128, 256, 512)


class Prune:
    def __init__(
        self,
        confidence: float = 0.99,
        resamples: int = 500,
        schedule: Sequence[int] = SCHEDULE,
        seed: int = 0,
    ) -> None:
        if not 0 < confidence < 1:
            raise UsageError(f"the confidence of pruning must lie between 0 and 1, not at {confidence}")
        if resamples < 1:
            raise UsageError(f"pruning needs at least 1 resample, not {resamples}")
        if not schedule or list(schedule) != sorted(set(schedule)) or schedule[0] < 1:
            raise UsageError("the schedule of pruning must be growing sizes, such as 8/16/32/64")
        self.confidence, self.resamples, self.schedule = confidence, resamples, tuple(schedule)
        self.seed = checked_seed(seed)
        self._enough = round((1 - confidence) * resamples, 6)  # 1 − 0.9 is less than a tenth
        sizes = "" if self.schedule == SCHEDULE else f",r:{'/'.join(map(str, self.schedule))}"
        self.signature = f"prune,c:{field(confidence)},b:{resamples}{sizes},seed:{seed}"

    def check(self, utility: Utility[Any]) -> None:
        """Any utility will do."""

    def estimate(self, cells: Cells[Any], size: int) -> Floats:
        return self.among(cells, size, np.arange(len(cells.counts(size))))

    def among(self, cells: Cells[Any], size: int, rows: Any) -> Floats:
        """The same with only some of the texts as hypotheses."""
        texts = len(cells.counts(size))
        for seen in [*self._prefixes(size), size]:
            counts = cells.counts(seen)
            utilities = cells.block(rows, range(len(counts)))
            means = cells.mean(utilities, seen)
            if seen == size or len(rows) == 1:
                break
            wins = utilities @ self._resampled(cells, seen, len(counts)).T
            stays = (wins >= wins[np.argmax(means)]).sum(axis=1) > self._enough
            rows, means = rows[stays], means[stays]
            if len(rows) == 1:
                break
        found = np.full(texts, -np.inf)
        found[rows] = means
        return found

    def _prefixes(self, size: int) -> list[int]:
        """The schedule up to the pool, going on in doublings beyond its end."""
        prefixes = list(self.schedule)
        while prefixes[-1] * 2 < size:
            prefixes.append(prefixes[-1] * 2)
        return [prefix for prefix in prefixes if prefix < size]

    def _resampled(self, cells: Cells[Any], seen: int, texts: int) -> Floats:
        """How often each text is in each resample of the candidates seen; the same at every standing."""
        if seen not in cells.notes:
            drawn = cells.random(self.seed, seen).integers(0, seen, (self.resamples, seen))
            numbers = np.array(cells.order[:seen])[drawn] + texts * np.arange(self.resamples)[:, None]
            found = np.bincount(numbers.ravel(), minlength=texts * self.resamples)
            cells.notes[seen] = found.reshape(-1, texts).astype(np.float32)
        return np.asarray(cells.notes[seen], np.float64)
