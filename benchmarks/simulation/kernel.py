"""The compiled step of a continuous-batching server: admit what fits, give every running sequence a token, release.

One replica is a handful of arrays. Steps are simulated one by one, as the server would run them; nothing is averaged.

    counts    ACTIVE running sequences, QUEUED requests in the heap, KV tokens held by running sequences, RESERVED
              tokens they will hold at their ends, TOKENS generated and STEPS run so far
    slots     a column for each running sequence: its request, tokens left, tokens held at its end
    requests  a row for each request, in the columns OFFSET … ABORTED
    heap      (key, request) of what waits, lowest key first
    lengths   tokens of every recorded candidate; a request's sequences are ``lengths[OFFSET : OFFSET + COUNT]``

Invariants: a sequence is admitted only if its whole length fits, so none is ever preempted; the step that admits a
sequence also prefills it and yields its first token, so a sequence of T tokens is there for T steps; what is aborted
leaves when the step under way is over, as a real server's step cannot be taken back.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ACTIVE, QUEUED, KV, RESERVED, TOKENS, STEPS = range(6)
OFFSET, COUNT, ADMITTED, DONE, PROMPT, FIRST_PREFILL, EACH_PREFILL, ABORTED = range(8)
REQUEST, LEFT, HELD = range(3)
BASE, PER_TOKEN, KNEE, PER_TOKEN_BEYOND, PER_KV_TOKEN, MAX_SEQUENCES, KV_TOKENS = range(7)


@njit(cache=True)
def push(heap: Ints, counts: Ints, key: int, request: int) -> None:
    place = counts[QUEUED]
    counts[QUEUED] += 1
    while place > 0:
        parent = (place - 1) // 2
        if heap[parent, 0] <= key:
            break
        heap[place, 0], heap[place, 1] = heap[parent, 0], heap[parent, 1]
        place = parent
    heap[place, 0], heap[place, 1] = key, request


@njit(cache=True)
def _pop(heap: Ints, counts: Ints) -> None:
    counts[QUEUED] -= 1
    size = counts[QUEUED]
    key, request = heap[size, 0], heap[size, 1]
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= key:
            break
        heap[place, 0], heap[place, 1] = heap[child, 0], heap[child, 1]
        place = child
    heap[place, 0], heap[place, 1] = key, request


@njit(cache=True)
def begin(counts: Ints, slots: Ints, requests: Ints, heap: Ints, lengths: Ints, server: Floats) -> float:
    """Admit what fits and start a step; the seconds it takes, 0 if there is nothing to run."""
    prefill = 0
    while counts[QUEUED] > 0 and counts[ACTIVE] < server[MAX_SEQUENCES]:
        number = heap[0, 1]
        request = requests[number]
        if request[ABORTED] or request[ADMITTED] == request[COUNT]:
            _pop(heap, counts)
            continue
        tokens = lengths[request[OFFSET] + request[ADMITTED]]
        held = request[PROMPT] + tokens
        if counts[ACTIVE] > 0 and counts[RESERVED] + held > server[KV_TOKENS]:
            break
        prefill += request[FIRST_PREFILL] if request[ADMITTED] == 0 else request[EACH_PREFILL]
        request[ADMITTED] += 1
        place = counts[ACTIVE]
        slots[REQUEST, place], slots[LEFT, place], slots[HELD, place] = number, tokens, held
        counts[ACTIVE] += 1
        counts[RESERVED] += held
        counts[KV] += request[PROMPT]
    active = counts[ACTIVE]
    if active == 0:
        return 0.0
    computed = active + prefill
    seconds = server[BASE] + server[PER_TOKEN] * computed + server[PER_TOKEN_BEYOND] * max(0.0, computed - server[KNEE])
    return float(seconds + server[PER_KV_TOKEN] * counts[KV])


@njit(cache=True)
def _end(counts: Ints, slots: Ints, requests: Ints, finished: Ints) -> int:
    """A step is over: everyone has a token more, and who has all of them leaves. How many requests are complete."""
    active, kept, found = counts[ACTIVE], 0, 0
    counts[TOKENS] += active
    counts[KV] += active
    counts[STEPS] += 1
    for place in range(active):
        number, left, held = slots[REQUEST, place], slots[LEFT, place] - 1, slots[HELD, place]
        aborted = requests[number, ABORTED]
        if left > 0 and not aborted:
            slots[REQUEST, kept], slots[LEFT, kept], slots[HELD, kept] = number, left, held
            kept += 1
            continue
        counts[KV] -= held - left
        counts[RESERVED] -= held
        requests[number, DONE] += 1
        if requests[number, DONE] == requests[number, COUNT] and not aborted:
            finished[found] = number
            found += 1
    counts[ACTIVE] = kept
    return found


@njit(cache=True)
def run(
    clock: float,
    horizon: float,
    counts: Ints,
    slots: Ints,
    requests: Ints,
    heap: Ints,
    lengths: Ints,
    server: Floats,
    finished: Ints,
) -> tuple[float, int, bool]:
    """The step that ends at ``clock`` is over; go on until a request is complete or a step ends after ``horizon``.

    Gives the clock, the number of complete requests and whether a step is under way that ends at the clock. Nobody else
    may act before ``horizon``, so nothing can arrive between the steps that are run in one go.
    """
    while True:
        found = _end(counts, slots, requests, finished)
        if found:
            return clock, found, False
        seconds = begin(counts, slots, requests, heap, lengths, server)
        if seconds == 0.0:
            return clock, 0, False
        clock += seconds
        if clock > horizon:
            return clock, 0, True


@njit(cache=True)
def drop(number: int, counts: Ints, slots: Ints) -> None:
    """Between two steps: the sequences of an aborted request leave now."""
    kept = 0
    for place in range(counts[ACTIVE]):
        owner, left, held = slots[REQUEST, place], slots[LEFT, place], slots[HELD, place]
        if owner == number:
            counts[KV] -= held - left
            counts[RESERVED] -= held
        else:
            slots[REQUEST, kept], slots[LEFT, kept], slots[HELD, kept] = owner, left, held
            kept += 1
    counts[ACTIVE] = kept
