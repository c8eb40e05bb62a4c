"""How many requests may be in flight: as many as the server can take.

Plain state. Invariants: the width stays between 1 and its ceiling, and at most halves for what was sent at the same
width, so that a burst of refusals counts once; one sender among several changes nothing by its refusals.
"""

from __future__ import annotations

from collections.abc import Hashable

STRAY = 1 / 8
"""A share of refusals that does not end the doubling: some requests are refused for what they are."""


class Width:
    """Goes by rounds, of as many answers as there were requests in flight.

    It doubles each round until the server first says that it is too much. From then on a round without such a word adds
    one, and one with takes away half of the share that was too much: all of it halves the width, a stray one hardly
    counts (as in DCTCP, RFC 8257, for the same reason: halving at each single sign would leave a server that stalls now
    and then nearly idle).

    The share is of requests or of senders, whichever is smaller. If all refusals were one sender's and others were
    answered, the fault is the sender's: they do not count.
    """

    def __init__(self, ceiling: int, start: int = 16) -> None:
        self.ceiling = ceiling
        self.round = 0
        """A request remembers in which one it was sent: what an older one says has been acted upon."""
        self._width = float(min(start, ceiling))
        self._doubling = True
        self._full = False
        self._begin_round()

    def __int__(self) -> int:
        return int(self._width)

    def learn(self, sent_in: int, in_flight: int, sender: Hashable, *, too_much: bool) -> None:
        """A request sent in that round was answered while so many (itself included) were in flight."""
        if too_much and sent_in < self.round:
            return
        self._answers += 1
        self._senders.add(sender)
        if too_much:
            self._refusals += 1
            self._refused.add(sender)
        self._full = self._full or in_flight >= int(self._width)
        if self._answers >= int(self._width):
            self._end_round()

    def _begin_round(self) -> None:
        self._answers = self._refusals = 0
        self._senders: set[Hashable] = set()
        self._refused: set[Hashable] = set()
        self._full = False

    def _end_round(self) -> None:
        share = self._share()
        self._doubling = self._doubling and share <= STRAY
        if share and not self._doubling:
            self._width = max(1.0, self._width * (1 - share / 2))
            self.round += 1
        elif self._full:  # what is not used up need not grow
            self._width = min(float(self.ceiling), self._width * 2 if self._doubling else self._width + 1)
        self._begin_round()

    def _share(self) -> float:
        """Of what was too much."""
        if len(self._refused) == 1 < len(self._senders):
            return 0.0
        return min(self._refusals / self._answers, len(self._refused) / len(self._senders))
