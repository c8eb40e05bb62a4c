"""PruneMBR (Cheng & Vlachos 2023): drop candidates that are unlikely to win while the support grows.

The support grows in prefixes of the pool. After each prefix, its columns are resampled, with the same resamples for all
rows; a candidate stays if its mean is at least the best candidate's in more than 1 − ``confidence`` of the resamples.
Once one candidate is left or all columns have been seen, the best mean over the seen columns wins.

A prefix has the same resamples whatever the size of the pool.

Anchors are rows without a column. Where a sample doesn't judge itself, the column of its first copy is left out of its
row: of the mean, and of each resample as often as it was drawn, which makes the resample shorter. A resample without
another column doesn't count against the row. Prefixes of one column are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.errors import UsageError
from quitmt.protocols import Utility
from quitmt.rerank.anchors import best_of
from quitmt.rerank.cells import Cells, Floats, Ints, checked_seed
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
            raise UsageError("the schedule of pruning must be increasing sizes, such as 8/16/32/64")
        self.confidence, self.resamples, self.schedule = confidence, resamples, tuple(schedule)
        self.seed = checked_seed(seed)
        self._enough = round((1 - confidence) * resamples, 6)  # 1 − 0.9 is less than a tenth
        sizes = "" if self.schedule == SCHEDULE else f",r:{'/'.join(map(str, self.schedule))}"
        self.signature = f"prune,c:{field(confidence)},b:{resamples}{sizes},seed:{seed}"

    def check(self, utility: Utility[Any]) -> None:
        """Accept any utility."""

    def estimate(self, cells: Cells[Any], size: int) -> Floats:
        rows = np.arange(len(cells.counts(size)))
        order = cells.precedence(size)
        for seen in [*self._prefixes(size, 2 if cells.others else 1), size]:
            utilities = cells.over(rows, seen)
            means = cells.mean(utilities, seen, rows)
            if seen == size or len(rows) == 1:
                break
            resampled = self._means(cells, seen, rows, utilities)
            behind = resampled < resampled[best_of(means, order[rows])]
            stays = self.resamples - behind.sum(axis=1) > self._enough
            rows, means = rows[stays], means[stays]
            if len(rows) == 1:
                break
        found = np.full(len(order), -np.inf)
        found[rows] = means
        return found

    def _prefixes(self, size: int, least: int) -> list[int]:
        """Return the schedule up to the pool's size, continued by doubling."""
        prefixes = list(self.schedule)
        while prefixes[-1] * 2 < size:
            prefixes.append(prefixes[-1] * 2)
        return [prefix for prefix in prefixes if least <= prefix < size]

    def _means(self, cells: Cells[Any], seen: int, rows: Ints, utilities: Floats) -> Floats:
        """Return each row's mean in each resample, or its sum if all rows have the same judges; NaN without a judge."""
        of_texts, of_samples = self._resampled(cells, seen, utilities.shape[1])
        sums: Floats = utilities @ of_texts.astype(np.float64).T
        copies = cells.own_copies(rows, seen)
        (places,) = np.nonzero(copies >= 0)
        if not len(places):
            return sums
        times = np.zeros(sums.shape)
        times[places] = of_samples[:, copies[places]].T
        sums[places] -= times[places] * utilities[places, rows[places]][:, None]
        with np.errstate(invalid="ignore"):
            return sums / (seen - times)

    def _resampled(self, cells: Cells[Any], seen: int, texts: int) -> tuple[Any, Any]:
        """Count each text in each resample of the seen samples, and each sample if samples don't judge themselves.
        Later snapshots reuse the counts."""
        if seen not in cells.notes:
            drawn = cells.random(self.seed, seen).integers(0, seen, (self.resamples, seen))
            of_texts = _counted(np.array(cells.order[:seen])[drawn], texts)
            cells.notes[seen] = of_texts, _counted(drawn, seen) if cells.others else None
        found: tuple[Any, Any] = cells.notes[seen]
        return found


def _counted(drawn: Ints, kinds: int) -> npt.NDArray[np.float32]:
    """Count each of the numbers below ``kinds`` in each row."""
    numbers = drawn + kinds * np.arange(len(drawn))[:, None]
    return np.bincount(numbers.ravel(), minlength=kinds * len(drawn)).reshape(-1, kinds).astype(np.float32)
