"""The compiled loops of chrF against the mean n-gram counts of several references (Vamvas & Sennrich 2024).

An n-gram is a node of the arena's trie, as in ``chrf_kernels``. A text's n-grams are looked up once; computing a mean
and scoring all texts against it then take one pass over the n-grams each.
"""

from __future__ import annotations

from quitmt.compiled import kernel
from quitmt.metrics.chrf_kernels import Floats, Ints, Ints32, Points, find_nodes


@kernel()
def node_lists(
    points: Points,
    lengths: Ints,
    first: int,
    table: Ints32,
    features: Ints32,
    cursor: Ints,
    scratch: Ints32,
    nodes: Ints32,
) -> None:
    """List the n-grams of the arena's texts from ``first`` on: for each position, one node per order, or 0 for n-grams
    that would begin before the text."""
    start = 0
    for text in range(first, len(lengths)):
        length = lengths[text]
        find_nodes(points[start : start + length], text, table, features, cursor, scratch)
        for i in range(length):
            for n in range(nodes.shape[1]):
                nodes[start + i, n] = scratch[i + 1, n + 1] if n <= i else 0
        start += length


@kernel()
def mean_counts(nodes: Ints32, starts: Ints, weights: Floats, means: Floats) -> None:
    """Add each n-gram's weighted mean count over the texts to ``means[node]``."""
    for text in range(len(weights)):
        for i in range(starts[text], starts[text + 1]):
            for n in range(nodes.shape[1]):
                means[nodes[i, n]] += weights[text]


@kernel()
def against_means(
    nodes: Ints32,
    starts: Ints,
    rows: int,
    means: Floats,
    totals: Floats,
    factor: float,
    counts: Ints32,
    scores: Floats,
) -> None:
    """chrF of the first ``rows`` texts against a reference with n-gram counts ``means``, whose sums per order are
    ``totals``. ``counts`` is scratch memory, zero before and after.
    """
    orders = nodes.shape[1]
    for text in range(rows):
        precision = recall = effective = 0.0
        begin, end = starts[text], starts[text + 1]
        for n in range(min(orders, end - begin)):
            match = 0.0
            for i in range(begin + n, end):
                node = nodes[i, n]
                # the j-th occurrence matches as much as the mean exceeds j - 1
                match += min(1.0, max(0.0, means[node] - counts[node]))
                counts[node] += 1
            for i in range(begin + n, end):
                counts[nodes[i, n]] = 0
            if totals[n] > 0:
                precision += match / (end - begin - n)
                recall += match / totals[n]
                effective += 1.0
        p, r = precision / max(effective, 1.0), recall / max(effective, 1.0)
        scores[text] = (1.0 + factor) * p * r / (factor * p + r) if p + r > 0 else 0.0
