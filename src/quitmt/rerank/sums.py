"""The loops of exact MBR: sums of utilities over samples, the leader, and how it compares with every rival.

Invariant: sums add the samples one by one in their order, so they don't depend on the steps in which the pool grew, bit
for bit. ``votes`` are those of the first anchor, text 0; with ``others``, a text's first copy doesn't judge it.

The leader and a rival j differ by d = u(leader, h) − u(j, h). The differences are paired: the same h judges both, so
whether h is a hard or an easy judge cancels. One copy of each of the two is left out, because a text's agreement with
itself is no evidence. Where a sample doesn't judge itself, pools are small: with few judges, agreement can be chance,
so we add one pseudo-judge to the standard error that sides with the rival.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from quitmt.compiled import kernel
from quitmt.types import Rivals

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
TOP = 8
"""How many of the best scores ``Rivals`` has."""


@kernel()
def add_up(utilities: Floats, judges: Ints, start: int, stop: int, votes: float, sums: Floats) -> None:
    """Add the votes and then the judges' utilities to the sums of the texts from ``start`` to ``stop``."""
    if votes > 0:
        for text in range(start, stop):
            sums[text] += votes * utilities[0, text]
    for judge in judges:
        for text in range(start, stop):
            sums[text] += utilities[judge, text]


@kernel()
def walk(
    utilities: Floats, order: Ints, start: int, texts: int, appeared: int, others: bool, index: Ints, sums: Floats
) -> int:
    """Let the samples from ``start`` to the end of ``order`` judge ``texts`` texts; update and return how many texts
    have ``appeared``. ``index`` has the candidate of each such text: its first sample, or its anchor before that."""
    for sample in range(start, len(order)):
        judge = order[sample]
        before, row = sums[judge], utilities[judge]
        for text in range(texts):
            sums[text] += row[text]
        if judge >= appeared or index[judge] < 0:
            index[judge] = sample
            if others:
                sums[judge] = before
        appeared = max(appeared, judge + 1)
    return appeared


@kernel()
def judges_of(samples: int, sampled: bool, others: bool, votes: float) -> float:
    """Count the judges of a text; ``sampled`` tells whether it is one of the samples."""
    return samples - (1 if others and sampled else 0) + votes


@kernel()
def leader(sums: Floats, index: Ints, texts: int, samples: int, others: bool, votes: float) -> tuple[int, float]:
    """Return the best of the first texts and its score, which is −inf without a judge.

    If all texts have the same number of judges, their sums are compared, because division may round different sums to
    the same mean. Ties go to anchors in their order, then to the lowest index, whichever text was seen first.
    """
    best, highest = 0, -np.inf
    for text in range(texts):
        score = sums[text]
        if others:
            judges = judges_of(samples, index[text] >= 0, others, votes)
            score = score / judges if judges > 0 else -np.inf
        if score > highest or (score == highest and _before(index[text], index[best])):
            best, highest = text, score
    return best, highest if others else highest / samples


@kernel()
def _before(one: int, other: int) -> bool:
    """Whether the candidate with the index ``one`` wins a tie."""
    if one < 0 and other < 0:
        return one > other
    return one < other


def rivals(utilities: Floats, order: Ints, best: int, texts: int, others: bool, votes: float) -> Rivals:
    """Compare the leader with every rival. ``utilities`` are [reference, hypothesis] by number of text, ``order`` has
    the text of each sample; only the first ``texts`` have appeared."""
    return Rivals(*_rivals(utilities, order, best, texts, others, votes))


@kernel(fastmath={"contract", "reassoc"})
def _rivals(
    utilities: Floats, order: Ints, best: int, texts: int, others: bool, votes: float
) -> tuple[Floats, Floats, Floats]:
    """Return mean and standard error of the leader's advantage over each other text, and the best scores."""
    counts = np.zeros(texts)
    for text in order:
        counts[text] += 1
    total, squares = np.zeros(texts), np.zeros(texts)
    leading = 0.0
    for judge in range(texts):
        count, lead = counts[judge], utilities[judge, best]
        leading += count * lead
        row = utilities[judge, :texts]
        for rival in range(texts):
            difference = lead - row[rival]
            total[rival] += count * difference
            squares[rival] += count * difference * difference
    voted = total.copy()
    if votes > 0:  # votes move the means, but say nothing about how much judges differ
        lead = utilities[0, best]
        leading += votes * lead
        for rival in range(texts):
            voted[rival] += votes * (lead - utilities[0, rival])
    scores = leading - voted
    for text in range(texts):
        sampled = others and counts[text] > 0
        judges = judges_of(len(order), sampled, others, votes)
        scores[text] = (scores[text] - sampled * utilities[text, text]) / max(judges, 1.0)
    top = _highest(scores, counts, min(TOP, len(order)))
    mean, error = np.empty(texts - 1), np.empty(texts - 1)
    for place in range(texts - 1):
        rival = place + (place >= best)
        left = len(order)
        for judge in (best, rival):  # leave out the two themselves
            if counts[judge] > 0:
                difference = utilities[judge, best] - utilities[judge, rival]
                total[rival] -= difference
                voted[rival] -= difference
                squares[rival] -= difference * difference
                left -= 1
        mean[place] = voted[rival] / max(left + votes, 1.0)
        if others:  # the pseudo-judge repeats the rival's own judgement
            spread = squares[rival] - 2 * mean[place] * total[rival] + left * mean[place] ** 2
            opinion = utilities[rival, rival] - utilities[rival, best]
            error[place] = np.sqrt(max(spread, 0.0) + opinion * opinion) / max(left + votes, 1.0)
        else:
            left = max(left, 1)
            variance = (squares[rival] - left * mean[place] ** 2) / max(left - 1, 1)
            error[place] = np.sqrt(max(variance, 0.0) / left)
    return mean, error, top


@kernel()
def sample_scores(utilities: Floats, order: Ints, texts: int, others: bool, votes: float) -> Floats:
    """Return the score of each sample; −inf without a judge."""
    sums, counted = np.zeros(texts), np.zeros(len(order))
    for judge in order:
        for text in range(texts):
            sums[text] += utilities[judge, text]
    judges = judges_of(len(order), True, others, votes)
    for place, text in enumerate(order):
        itself = utilities[text, text] if others else 0.0
        total = sums[text] - itself + votes * utilities[0, text]
        counted[place] = total / judges if judges > 0 else -np.inf
    return counted


@kernel()
def _highest(scores: Floats, counts: Floats, most: int) -> Floats:
    """Return the scores of the best candidates, best first; identical candidates each count."""
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
