"""The compiled inner loops of chrF: texts to bits, and bits to F-scores.

A *feature* is the j-th occurrence of an n-gram within a text, so that the clipped match count Σ min(a, b) of two texts
is the number of features they share. The feature of the first occurrence also represents the n-gram itself:
it is a *node* of a trie, found by (node of its prefix, next code point).

Invariants:
- N-grams are compared exactly: a node stores its prefix and its code point, and its hash is only a place in the table.
- A feature that only one text has takes no bit. A second text with it sets a bit in its row and in the first text's.
- All bits of a word belong to one order, so that matches can be counted per order.
- ``bits`` is word-major, ``bits[word, text]``: a text's zero words (about 40% in real pools) are skipped for all
  columns at once, and the loop over the columns is contiguous and becomes vector instructions.
- A pair's scores depend on that pair's counts alone, in sacrebleu's order of operations.
- The caller makes room: ``add_texts`` stops before the first text that might not fit.

Loops over n-grams call no functions with array arguments, because numba counts references around such calls, which
made encoding almost three times slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from quitmt.compiled import intrinsic, kernel

Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Points = npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

CODE_POINT_BITS = 21
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: the top bits of the product are well mixed

SEEN_IN, LATEST, FOLLOWING, HOLDER, PREFIX, POINT, SUFFIX = 0, 1, 2, 3, 4, 5, 6
FIELDS = 7
"""Fields of a feature. ``SEEN_IN`` is the last text with this n-gram and ``LATEST`` its latest occurrence there (both
for first occurrences only); ``FOLLOWING`` is the feature of the next occurrence, or 0; ``HOLDER`` is the feature's bit
column, or ~text while only one text has it. A node also has the node of its ``PREFIX``, its last code ``POINT`` (~0 in
features that aren't nodes) and the node of its ``SUFFIX``, the n-gram without its first code point."""
FEATURES_USED, WORDS_USED, NEXT_COLUMN = 0, 1, 2
"""Fields of the cursor. From ``NEXT_COLUMN`` on, there is one field per order: its next free bit column, or a multiple
of 64 if the order needs a new word."""


@intrinsic
def popcount(_: Any, word: Any) -> Any:
    from numba import types

    return types.uint64(types.uint64), lambda _context, builder, _signature, arguments: builder.ctpop(arguments[0])


@kernel()
def _home(prefix: int, point: int, mask: int) -> int:
    """Return the entry at which to start looking for a node. The table has ``mask`` + 1 entries, a power of two; an
    entry is a node, or 0 if it is free, since node 0 is the empty n-gram."""
    key = np.uint64(np.int64(prefix) << CODE_POINT_BITS | np.int64(point))
    return int(np.int64((key * HASH_FACTOR) >> np.uint64(32)) & mask)


@kernel()
def rehash(features: Ints32, used: int, table: Ints32) -> None:
    """Enter all nodes into an empty table."""
    mask = len(table) - 1
    for node in range(1, used):
        if features[node, POINT] != ~0:
            entry = _home(features[node, PREFIX], features[node, POINT], mask)
            while table[entry] != 0:
                entry = (entry + 1) & mask
            table[entry] = node


@kernel()
def most_words(length: int, order: int, features: int) -> int:
    """Maximum words that a text can add: only the ``features`` of earlier texts can become shared."""
    return min(order * (length // 64 + 1), order + features // 64)


@kernel()
def find_nodes(points: Points, text: int, table: Ints32, features: Ints32, cursor: Ints, nodes: Ints32) -> None:
    """Fill ``nodes[i, n]`` with the node of the n-gram that ends before position i; create nodes for new n-grams, with
    ``text`` as their holder.

    The suffix of a known n-gram is known too, so most positions cost one look-up rather than one per order.
    """
    mask = len(table) - 1
    unused = cursor[FEATURES_USED]
    for i in range(1, len(points) + 1):
        point = int(points[i - 1])
        longest = min(i, nodes.shape[1] - 1)
        node = 0
        known = False
        for n in range(longest, 0, -1):
            if known:
                node = int(features[node, SUFFIX])
            else:
                prefix = int(nodes[i - 1, n - 1])
                entry = _home(prefix, point, mask)
                node = int(table[entry])
                while node != 0 and (features[node, POINT] != point or features[node, PREFIX] != prefix):
                    entry = (entry + 1) & mask
                    node = int(table[entry])
                known = node != 0
                if not known:
                    node = unused
                    unused += 1
                    table[entry] = node
                    features[node, PREFIX] = prefix
                    features[node, POINT] = point
                    features[node, SEEN_IN] = -1
                    features[node, FOLLOWING] = 0
                    features[node, HOLDER] = ~text
                if n < longest:
                    features[nodes[i, n + 1], SUFFIX] = node
            nodes[i, n] = node
    cursor[FEATURES_USED] = unused


@kernel()
def _set_bits(
    length: int, text: int, features: Ints32, bits: Words, orders: Ints32, cursor: Ints, nodes: Ints32
) -> None:
    """Set the bits of a text's features, whose nodes have been found; features that become shared get a column."""
    unused = cursor[FEATURES_USED]
    for n in range(1, nodes.shape[1]):
        free_column = cursor[NEXT_COLUMN + n - 1]
        for i in range(n, length + 1):
            node = np.int64(nodes[i, n])
            feature = node
            if features[node, SEEN_IN] == text:
                latest = features[node, LATEST]
                feature = np.int64(features[latest, FOLLOWING])
                if feature == 0:
                    feature = unused
                    unused += 1
                    features[feature, POINT] = ~0
                    features[latest, FOLLOWING] = feature
                    features[feature, FOLLOWING] = 0
                    features[feature, HOLDER] = ~text
            features[node, SEEN_IN] = text
            features[node, LATEST] = feature
            column = np.int64(features[feature, HOLDER])
            if column == ~text:
                continue
            if column < 0:
                first = ~column
                if free_column & 63 == 0:
                    free_column = cursor[WORDS_USED] << 6
                    orders[cursor[WORDS_USED]] = n - 1
                    cursor[WORDS_USED] += 1
                column = free_column
                free_column += 1
                features[feature, HOLDER] = column
                bits[column >> 6, first] |= np.uint64(1) << np.uint64(column & 63)
            bits[column >> 6, text] |= np.uint64(1) << np.uint64(column & 63)
        cursor[NEXT_COLUMN + n - 1] = free_column
    cursor[FEATURES_USED] = unused


@kernel()
def add_texts(
    points: Points,
    lengths: Ints,
    first: int,
    start: int,
    table: Ints32,
    features: Ints32,
    bits: Words,
    orders: Ints32,
    cursor: Ints,
    nodes: Ints32,
) -> tuple[int, int]:
    """Add the texts from ``first`` on to the arena; ``points[start:]`` are their code points, one text after the other.

    ``nodes`` is scratch memory, initially zero, with one row more than the longest text's length and one column more
    than there are orders. Returns the first text that might not fit and was not added, and where its points start.
    """
    order = len(cursor) - NEXT_COLUMN
    for text in range(first, len(lengths)):
        length = lengths[text]
        if cursor[FEATURES_USED] + length * order > len(features):
            return text, start
        if cursor[WORDS_USED] + most_words(length, order, cursor[FEATURES_USED]) > len(bits):
            return text, start
        find_nodes(points[start : start + length], text, table, features, cursor, nodes)
        _set_bits(length, text, features, bits, orders, cursor, nodes)
        start += length
    return len(lengths), start


@kernel()
def count_matches(bits: Words, orders: Ints32, words: int, row: int, start: int, stop: int, matches: Ints) -> None:
    """Fill ``matches[n, j]`` with the matches of order n + 1 between the texts ``row`` and ``start`` + j."""
    for n in range(len(matches)):
        for j in range(stop - start):
            matches[n, j] = 0
    for word in range(words):
        mine = bits[word, row]
        if mine != 0:
            counts, others = matches[orders[word]], bits[word, start:stop]  # plain views: the loop becomes vectors
            for j in range(stop - start):
                counts[j] += np.int64(popcount(mine & others[j]))


@kernel()
def _score(
    matches: Ints, lengths: Ints, row: int, start: int, stop: int, factor: float, forward: Floats, backward: Floats
) -> None:
    """Compute the F-scores of text ``row`` with the texts ``start`` … ``stop``: ``forward`` as their hypothesis,
    ``backward`` as their reference. Precision in one direction is recall in the other."""
    length, others = lengths[row], lengths[start:stop]
    for j in range(stop - start):
        forward[j] = backward[j] = 0.0
    for n in range(min(len(matches), length)):
        counts, total = matches[n], float(length - n)
        for j in range(stop - start):
            match = float(counts[j])
            forward[j] += match / total
            backward[j] += match / float(max(others[j] - n, 1))  # a shorter text has no matches, so this adds 0
    for j in range(stop - start):
        effective = float(max(min(len(matches), length, others[j]), 1))
        p = forward[j] / effective
        r = backward[j] / effective
        some = p + r > 0.0
        forward[j] = (1.0 + factor) * p * r / (factor * p + r) if some else 0.0
        backward[j] = (1.0 + factor) * r * p / (factor * r + p) if some else 0.0


@kernel()
def compare(
    bits: Words,
    orders: Ints32,
    cursor: Ints,
    lengths: Ints,
    top: int,
    left: int,
    factor: float,
    matches: Ints,
    forward: Floats,
    backward: Floats,
) -> None:
    """Fill ``forward[i, j]`` with u(top + i, left + j) and ``backward[i, j]`` with u(left + j, top + i).

    Where rows and columns overlap, each unordered pair is counted once and written twice. ``matches`` is scratch memory
    of orders × columns.
    """
    height, width = forward.shape
    begin, end = max(top, left), min(top + height, left + width)  # the texts that are both rows and columns
    for i in range(height):
        row = top + i
        shared = begin <= row < end
        for part in range(2):
            # Compare a shared row with the columns before the shared ones and from itself on, other rows with all.
            start = (row if shared else left) if part else left
            stop = left + width if part else (begin if shared else left)
            if start < stop:
                count_matches(bits, orders, cursor[WORDS_USED], row, start, stop, matches)
                _score(
                    matches, lengths, row, start, stop, factor, forward[i, start - left :], backward[i, start - left :]
                )
        if shared:  # features of a single text have no bit, so its match with itself was not counted
            forward[i, row - left] = backward[i, row - left] = 1.0 if lengths[row] > 0 else 0.0
            for twin in range(row + 1, end):
                forward[twin - top, row - left] = backward[i, twin - left]
                backward[twin - top, row - left] = forward[i, twin - left]


@kernel()
def compare_rows(
    bits: Words,
    orders: Ints32,
    cursor: Ints,
    lengths: Ints,
    rows: Ints,
    left: int,
    factor: float,
    matches: Ints,
    forward: Floats,
    backward: Floats,
) -> None:
    """Fill ``forward[i, j]`` with u(rows[i], left + j). ``matches`` and ``backward`` (a row) are scratch memory."""
    width = forward.shape[1]
    for i in range(len(rows)):
        row = rows[i]
        count_matches(bits, orders, cursor[WORDS_USED], row, left, left + width, matches)
        _score(matches, lengths, row, left, left + width, factor, forward[i], backward)
        if left <= row < left + width:  # features of a single text have no bit
            forward[i, row - left] = 1.0 if lengths[row] > 0 else 0.0
