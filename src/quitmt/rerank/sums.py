"""Sums of utilities over a support that grows sample by sample, and who leads by them: the loops of exact MBR.

Invariant: every sum is added up in the order of the samples, one by one, so it does not depend on the steps in which
the pool grew, bit for bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from quitmt.compiled import kernel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@kernel()
def add_up(utilities: Floats, judges: Ints, start: int, stop: int, votes: float, first: int, sums: Floats) -> None:
    """Add to the sums of the texts from ``start`` to ``stop`` what the judges say of them, and before them the text
    ``first``, which has so many votes."""
    if votes > 0:
        for text in range(start, stop):
            sums[text] += votes * utilities[first, text]
    for judge in judges:
        for text in range(start, stop):
            sums[text] += utilities[judge, text]


@kernel()
def walk(
    utilities: Floats, order: Ints, start: int, texts: int, appeared: int, others: bool, index: Ints, sums: Floats
) -> int:
    """Let the samples from ``start`` to the end of ``order`` judge ``texts`` texts; how many have appeared then, where
    it was ``appeared`` before. With ``others`` the first copy of a text does not judge it. ``index`` has, for each text
    that has appeared, the candidate that it is: its first sample, or before that its anchor."""
    for sample in range(start, len(order)):
        judge = order[sample]
        own, row = sums[judge], utilities[judge]
        for text in range(texts):
            sums[text] += row[text]
        if judge >= appeared or index[judge] < 0:
            index[judge] = sample
            if others:
                sums[judge] = own
        appeared = max(appeared, judge + 1)
    return appeared


@kernel()
def leader(sums: Floats, index: Ints, texts: int, samples: int, others: bool, votes: float) -> tuple[int, float]:
    """The best of the first texts after so many samples, and its score: −inf if nobody judges it. ``votes`` are those
    of an anchor.

    Sums are compared where all have the same judges: dividing them may make equals of what was not. Equals are told
    apart by what they are, not by when their text was first met: anchors in their order, then the lowest index.
    """
    best, highest = 0, -np.inf
    for text in range(texts):
        score = sums[text]
        if others:
            judges = samples - (index[text] >= 0) + votes
            score = score / judges if judges > 0 else -np.inf
        if score > highest or (score == highest and _before(index[text], index[best])):
            best, highest = text, score
    return best, highest if others else highest / samples


@kernel()
def _before(one: int, other: int) -> bool:
    """Whether a candidate comes first among equals, by the indices of the two."""
    if one < 0 and other < 0:
        return one > other
    return one < other
