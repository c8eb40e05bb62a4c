"""Compares systems with a base: paired bootstrap TOST (two one-sided tests) for equivalence, wins and losses.

Each resample draws as many segments as there are, with replacement. The difference is other − base, of mean segment
scores.
Two systems are equivalent within a margin if the 5th to 95th percentile of the resampled difference lies inside
±margin: both one-sided tests, of "worse by the margin" and of "better by it", reject at 5%. Margins are in units of σ,
the standard deviation of the base's segment scores with ddof = 0: the spread of the segments that the bootstrap draws
from, which is defined even for a single segment.

A segment without a score (NaN, a judge's unreadable answer) is left out of pairs in which either system lacks it.

Invariants:
- All pairs share the same resamples, also across metrics; pairs that leave segments out share those of their size.
- The resamples depend on the numbers of segments and resamples and on the seed, not on the pairs.
- Memory beyond the scores and the resampled differences is bounded: resamples are drawn in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from quitmt.compiled import kernel
from quitmt.errors import InputError, UsageError
from quitmt.evaluate.metrics import LARGEST

Floats = npt.NDArray[np.float64]
Drawn = npt.NDArray[np.uint32]

RESAMPLES = 10_000
MOST_RESAMPLES = 10_000_000
"""Each resample takes 8 bytes per pair, and more of them don't change a result."""
MARGINS = (0.05, 0.02)
LEAST = 50
"""With fewer segments, means may not be normally distributed, so no system is called equivalent. With Student's t and
without the pseudo-segment, guarantees of 95% were broken in 5 to 15% of samples of 10–20 segments, and in less than 5%
of samples of 40 segments (docs/guarantees.md)."""
BLOCK_CELLS = 1 << 18
"""Resamples × segments drawn at a time: 1 MB."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The segment scores of two systems by one metric; NaN means no score."""

    base: Floats
    other: Floats
    lower_is_better: bool = False

    @property
    def scored(self) -> Pair:
        """Only the segments for which both have a score."""
        there = ~(np.isnan(self.base) | np.isnan(self.other))
        return self if there.all() else replace(self, base=self.base[there], other=self.other[there])


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result for a pair. Differences are other − base; a margin m means ±m·σ."""

    difference: float
    interval: tuple[float, float]
    """95%: the 2.5th and 97.5th percentile of the resampled difference."""
    tost_interval: tuple[float, float]
    """90%: the 5th and 95th percentile, which decide about equivalence."""
    sigma: float
    margins: tuple[float, ...]
    """In units of σ, the widest first."""
    p_values: tuple[float, ...]
    """TOST p-value per margin: the larger share of resamples beyond either end, (count + 1) / (resamples + 1)."""
    wins: int
    """Segments at which the other system is better, in the metric's direction."""
    ties: int
    losses: int
    left_out: int = 0
    """Segments without a score for one of the systems; they count nowhere."""

    @property
    def within(self) -> tuple[float, ...]:
        """The margins within which the systems are equivalent."""
        low, high = self.tost_interval
        return tuple(m for m in self.margins if -m * self.sigma <= low and high <= m * self.sigma)


def compare(
    pairs: Sequence[Pair],
    *,
    resamples: int = RESAMPLES,
    margins: Sequence[float] = MARGINS,
    rng: np.random.Generator | int = 0,
) -> list[Comparison]:
    """Compare each pair. ``rng`` may be a seed; pairs of different sizes draw from a generator one after the other."""
    check_settings(resamples, margins)
    if not pairs:
        return []
    _check(pairs)
    widest_first = tuple(sorted(margins, reverse=True))
    scored = [pair.scored for pair in pairs]
    comparisons: dict[int, Comparison] = {}
    for size in sorted({len(pair.base) for pair in scored}, reverse=True):
        places = [place for place, pair in enumerate(scored) if len(pair.base) == size]
        differences = np.stack([scored[place].other - scored[place].base for place in places])
        generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
        resampled = _resampled(differences, resamples, generator)
        for place, difference, means in zip(places, differences, resampled, strict=True):
            left_out = len(pairs[place].base) - size
            comparisons[place] = _comparison(scored[place], difference, means, widest_first, left_out)
    return [comparisons[place] for place in range(len(pairs))]


def check_settings(resamples: int, margins: Sequence[float]) -> None:
    if not 1 <= resamples <= MOST_RESAMPLES:
        raise UsageError(f"there must be 1 to {MOST_RESAMPLES:,} resamples, not {resamples:,}")
    for margin in margins:
        if not 0 < margin < np.inf:
            raise UsageError(f"a margin must be a positive number, not {margin}")


def draws(segments: int, resamples: int, rng: np.random.Generator) -> Iterator[Drawn]:
    """The segments of each resample, in blocks of resamples × segments."""
    rows = max(1, BLOCK_CELLS // segments)
    for start in range(0, resamples, rows):
        yield rng.integers(segments, size=(min(rows, resamples - start), segments), dtype=np.uint32)


def _resampled(differences: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """The mean differences, one row per pair, one column per resample."""
    sums, done = np.empty((resamples, len(differences))), 0
    tally = np.empty(differences.shape[1])
    for drawn in draws(differences.shape[1], resamples, rng):
        _add_up(drawn, differences, tally, sums[done : done + len(drawn)])
        done += len(drawn)
    sums /= differences.shape[1]
    return sums.T


# A matrix product would do the same, but BLAS's threads mostly wait for each other with such thin matrices.
@kernel(fastmath={"reassoc", "contract"})
def _add_up(drawn: Drawn, differences: Floats, tally: Floats, sums: Floats) -> None:
    """Sum each pair's differences over each resample, weighted by how often each segment was drawn."""
    for row in range(drawn.shape[0]):
        tally[:] = 0.0
        for column in range(drawn.shape[1]):
            tally[drawn[row, column]] += 1.0
        for pair in range(differences.shape[0]):
            total = 0.0
            for column in range(differences.shape[1]):
                total += tally[column] * differences[pair, column]
            sums[row, pair] = total


def _check(pairs: Sequence[Pair]) -> None:
    size = len(pairs[0].base)
    if not size:
        raise InputError("there are no segments to compare")
    for pair in pairs:
        for scores in (pair.base, pair.other):
            if scores.shape != (size,):
                raise InputError(f"{len(scores)} segments cannot be compared with {size}")
            for index in np.flatnonzero(np.abs(scores) > LARGEST):
                raise InputError(
                    f"the score of segment {index + 1} is {scores[index]}, not a number within ±{LARGEST:g}"
                )
        if not len(pair.scored.base):
            raise InputError("there is no segment for which both systems have a score")


def _comparison(
    pair: Pair, differences: Floats, resampled: Floats, margins: tuple[float, ...], left_out: int
) -> Comparison:
    low, tost_low, tost_high, high = np.percentile(resampled, [2.5, 5, 95, 97.5]).tolist()
    sigma = float(pair.base.std(ddof=0))
    better = -differences if pair.lower_is_better else differences
    return Comparison(
        difference=float(differences.mean()),
        interval=(low, high),
        tost_interval=(tost_low, tost_high),
        sigma=sigma,
        margins=margins,
        p_values=tuple(_p_value(resampled, margin * sigma) for margin in margins),
        wins=int((better > 0).sum()),
        ties=int((better == 0).sum()),
        losses=int((better < 0).sum()),
        left_out=left_out,
    )


def _p_value(resampled: Floats, margin: float) -> float:
    beyond = max(int((resampled < -margin).sum()), int((resampled > margin).sum()))
    return (beyond + 1) / (len(resampled) + 1)
