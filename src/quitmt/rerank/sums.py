"""Sums of utilities over a support that grows sample by sample, and who leads by them: the loops of exact MBR.

Invariant: every sum is added up in the order of the samples, one by one, so it does not depend on the steps in which
the pool grew, bit for bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from quitmt.compiled import kernel
from quitmt.types import Rivals

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
TOP = 8
"""How many of the best candidates' scores are told."""


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


def rivals(
    utilities: Floats, order: Ints, best: int, texts: int, *, others: bool = False, votes: float = 0.0, first: int = 0
) -> Rivals:
    """``utilities`` of reference and hypothesis by the numbers of their texts, ``order`` the text of each sample; only
    the first ``texts`` have appeared. With ``others`` scores are without a sample's own; ``votes`` are those of the
    text ``first``, an anchor."""
    return Rivals(*_rivals(utilities, order, best, texts, others, votes, first))


@kernel(fastmath={"contract", "reassoc"})
def _rivals(
    utilities: Floats, order: Ints, best: int, texts: int, others: bool, votes: float, first: int
) -> tuple[Floats, Floats, Floats]:
    """Mean and standard error of the leader's advantage over each other text, and the best candidates' scores."""
    counts = np.zeros(texts)
    for text in order:
        counts[text] += 1
    total, squares = np.zeros(texts), np.zeros(texts)
    own = 0.0
    for judge in range(texts):
        count, lead = counts[judge], utilities[judge, best]
        own += count * lead
        row = utilities[judge, :texts]
        for rival in range(texts):
            difference = lead - row[rival]
            total[rival] += count * difference
            squares[rival] += count * difference * difference
    voted = total.copy()
    if votes > 0:  # an anchor's votes move the means; they are no evidence of how much judges differ
        lead = utilities[first, best]
        own += votes * lead
        for rival in range(texts):
            voted[rival] += votes * (lead - utilities[first, rival])
    scores = own - voted
    for text in range(texts):
        sampled = others and counts[text] > 0
        scores[text] = (scores[text] - sampled * utilities[text, text]) / max(len(order) - sampled + votes, 1)
    top = _highest(scores, counts, min(TOP, len(order)))
    mean, error = np.empty(texts - 1), np.empty(texts - 1)
    for place in range(texts - 1):
        rival = place + (place >= best)
        left = len(order)
        for judge in (best, rival):  # what the two themselves said of it
            if counts[judge] > 0:
                difference = utilities[judge, best] - utilities[judge, rival]
                total[rival] -= difference
                voted[rival] -= difference
                squares[rival] -= difference * difference
                left -= 1
        mean[place] = voted[rival] / max(left + votes, 1.0)
        if others:  # one more judge, who says what the rival would: few judges may agree by chance
            spread = squares[rival] - 2 * mean[place] * total[rival] + left * mean[place] ** 2
            own_word = utilities[rival, rival] - utilities[rival, best]
            error[place] = np.sqrt(max(spread, 0.0) + own_word * own_word) / max(left + votes, 1.0)
        else:
            left = max(left, 1)
            variance = (squares[rival] - left * mean[place] ** 2) / max(left - 1, 1)
            error[place] = np.sqrt(max(variance, 0.0) / left)
    return mean, error, top


@kernel()
def sample_scores(utilities: Floats, order: Ints, texts: int, others: bool, votes: float, first: int) -> Floats:
    """The score of each sample by all of them; −inf for one that nobody judges."""
    sums, counted = np.zeros(texts), np.zeros(len(order))
    for judge in order:
        for text in range(texts):
            sums[text] += utilities[judge, text]
    judges = len(order) - others + votes
    for place, text in enumerate(order):
        own = others * utilities[text, text] if others else 0.0
        total = sums[text] - own + votes * utilities[first, text]
        counted[place] = total / judges if judges > 0 else -np.inf
    return counted


@kernel()
def _highest(scores: Floats, counts: Floats, most: int) -> Floats:
    """The scores of the best candidates, from the best one down; identical ones each for itself."""
    top = np.full(most, -np.inf)
    for text in range(len(scores)):
        for _ in range(min(int(counts[text]), most)):
            if scores[text] <= top[most - 1]:
                break
            place = most - 1
            while place > 0 and top[place - 1] < scores[text]:
                top[place] = top[place - 1]
                place -= 1
            top[place] = scores[text]
    return top
