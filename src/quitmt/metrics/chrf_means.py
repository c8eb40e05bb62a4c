"""The compiled loops of chrF against a mean of references: n-gram counts that are not whole (Vamvas & Sennrich 2024).

An n-gram is a node of the arena's trie, as in ``chrf_kernels``. A text's n-grams are looked up once; after that a mean
costs one pass over them, and so do the scores against it.
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
    """The n-grams of texts that are in the arena: for text after text and each of its positions, a node an order (0 at
    the first positions, where there is none)."""
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
    """Into ``means[node]`` the weighted mean of how often each n-gram is in the texts."""
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
    """chrF of the first ``rows`` texts against a reference with n-gram counts ``means``, ``totals`` of them an order.

    ``counts`` is scratch, zeros before and after.
    """
    orders = nodes.shape[1]
    for text in range(rows):
        precision = recall = effective = 0.0
        begin, end = starts[text], starts[text + 1]
        for n in range(min(orders, end - begin)):
            match = 0.0
            for i in range(begin + n, end):
                node = nodes[i, n]
                # of the j-th occurrence, as much as the mean has beyond j - 1
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
