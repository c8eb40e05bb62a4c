"""The compiled inner loops of BLEU and chrF++, which turn the features that two texts share into a score.

Words are represented by numbers, and their n-grams are counted as chrF counts n-grams of characters (``chrf_kernels``).

Invariants: a pair's scores depend on that pair's counts alone, in sacrebleu's order of operations. ``forward[i, j]`` is
u(top + i, left + j), ``backward[i, j]`` is u(left + j, top + i).
"""

from __future__ import annotations

import math

from quitmt.compiled import kernel
from quitmt.metrics.chrf_kernels import WORDS_USED, Floats, Ints, Ints32, Words, count_matches


@kernel()
def bleu(
    bits: Words,
    orders: Ints32,
    cursor: Ints,
    lengths: Ints,
    top: int,
    left: int,
    matches: Ints,
    forward: Floats,
    backward: Floats,
) -> None:
    """``matches`` is scratch memory of orders × columns."""
    height, width = forward.shape
    for i in range(height):
        row = top + i
        count_matches(bits, orders, cursor[WORDS_USED], row, left, left + width, matches)
        for j in range(width):
            column = left + j
            if column == row:  # features of a single text have no bit, so its match with itself was not counted
                forward[i, j] = backward[i, j] = 1.0 if lengths[row] > 0 else 0.0
            else:
                forward[i, j] = _bleu(matches, j, lengths[row], lengths[column])
                backward[i, j] = _bleu(matches, j, lengths[column], lengths[row])


@kernel()
def _bleu(matches: Ints, column: int, length: int, reference: int) -> float:
    """Sentence BLEU of a hypothesis of ``length`` words: exponential smoothing, and orders up to that length."""
    if matches[0, column] == 0:  # then longer n-grams don't match either
        return 0.0
    smoothing, logarithms = 1.0, 0.0
    order = min(len(matches), length)
    for n in range(order):
        match, total = matches[n, column], length - n
        if match == 0:
            smoothing *= 2
            logarithms += math.log(100.0 / (smoothing * total))
        else:
            logarithms += math.log(100.0 * match / total)
    brevity = math.exp(1 - reference / length) if length < reference else 1.0
    return brevity * math.exp(logarithms / order) / 100


@kernel()
def chrf_plus(
    bits: Words,
    orders: Ints32,
    cursor: Ints,
    lengths: Ints,
    word_bits: Words,
    word_orders: Ints32,
    word_cursor: Ints,
    word_lengths: Ints,
    top: int,
    left: int,
    factor: float,
    matches: Ints,
    word_matches: Ints,
    forward: Floats,
    backward: Floats,
) -> None:
    """chrF with word n-grams as further orders. ``matches`` and ``word_matches`` are scratch, of orders × columns."""
    height, width = forward.shape
    for i in range(height):
        row = top + i
        count_matches(bits, orders, cursor[WORDS_USED], row, left, left + width, matches)
        count_matches(word_bits, word_orders, word_cursor[WORDS_USED], row, left, left + width, word_matches)
        for j in range(width):
            column = left + j
            if column == row:
                forward[i, j] = backward[i, j] = 1.0 if lengths[row] > 0 else 0.0
                continue
            p, r, effective = _sums(matches, j, lengths[row], lengths[column], 0.0, 0.0, 0)
            p, r, effective = _sums(word_matches, j, word_lengths[row], word_lengths[column], p, r, effective)
            p, r = p / max(effective, 1), r / max(effective, 1)
            some = p + r > 0.0
            forward[i, j] = (1.0 + factor) * p * r / (factor * p + r) if some else 0.0
            backward[i, j] = (1.0 + factor) * r * p / (factor * r + p) if some else 0.0


@kernel()
def _sums(
    matches: Ints, column: int, length: int, reference: int, precision: float, recall: float, effective: int
) -> tuple[float, float, int]:
    """Add the precisions and recalls of the orders that both texts have, and their number, to the sums."""
    for n in range(min(len(matches), length, reference)):
        precision += matches[n, column] / (length - n)
        recall += matches[n, column] / (reference - n)
        effective += 1
    return precision, recall, effective
