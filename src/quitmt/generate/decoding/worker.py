"""A thread that draws: for engines that block, fed by any number of ``draw`` calls from any event loop.

Asks wait in the order they came. A round takes as many candidates from the front as the engine wants at once, whoever
asked for them, so concurrent calls share batches and a long ask is answered piece by piece. Several engines may share
one thread, because each would take all cores or all of a card: they take turns, a round each.

Invariants: only the thread touches the engines; every ask ends exactly once, after its last draw, an error, or nothing
when its segment was closed; the thread ends by itself a moment after there is nothing left to do.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from quitmt.errors import GenerationError, QuitmtError, UsageError
from quitmt.loops.mailbox import Mailbox
from quitmt.types import Draw, Request, Segment

log = logging.getLogger(__name__)

IDLE_SECONDS = 1.0
"""How long the thread waits for more: a new thread would also start its libraries' own threads anew."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an ask; an engine may drop one that is no longer wanted and answer with anything."""

    request: Request
    wanted: Callable[[], bool]

    @property
    def count(self) -> int:
        return self.request.stop - self.request.start


class DecodingEngine(Protocol):
    """What the thread runs."""

    @property
    def batch(self) -> int:
        """Candidates wanted at once."""
        ...

    def sample(self, pieces: Sequence[Piece]) -> Sequence[Draw]:
        """One draw a piece, in their order."""
        ...

    def forget(self, segment: Segment) -> None: ...


class Order:
    """An ask, whom to answer, and how far it has come. An answer of None ends it."""

    __slots__ = ("answer", "ended", "engine", "next", "request", "wanted")

    def __init__(self, request: Request, engine: DecodingEngine, answer: Callable[[Draw | None], None]) -> None:
        self.request, self.engine, self.answer = request, engine, answer
        self.next, self.wanted, self.ended = request.start, True, False

    def take(self, room: int) -> Piece:
        start, self.next = self.next, min(self.request.stop, self.next + room)
        return Piece(Request(self.request.segment, start, self.next), lambda: self.wanted)

    def deliver(self, draw: Draw) -> None:
        if self.ended:
            return
        if self.wanted:
            self.answer(draw)
        if draw.error is not None or draw.ended or self.next == self.request.stop:
            self.end()

    def end(self) -> None:
        if not self.ended:
            self.ended = True
            self.answer(None)


class Worker:
    """Runs an engine in a thread; its public methods may be called from anywhere."""

    def __init__(self, engine: DecodingEngine, name: str) -> None:
        self._engine, self._thread = engine, _Thread(name)

    def beside(self, engine: DecodingEngine) -> Worker:
        """A worker for another engine, in the same thread."""
        other = copy.copy(self)
        other._engine = engine
        return other

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        """Yield the asked candidates, an ask's in order and in one draw or several."""
        for request in requests:
            if not 0 <= request.start <= request.stop:
                raise UsageError(
                    f"cannot draw candidates {request.start} to {request.stop} of segment {request.segment.id!r}"
                )
        answers = Mailbox[Draw | None]()

        orders = [Order(request, self._engine, answers.put) for request in requests]
        waiting = len(orders)
        try:
            self._thread.post(lambda: self._thread.orders.extend(orders))
            while waiting:
                draw = await answers.get()
                if draw is None:
                    waiting -= 1
                else:
                    yield draw
        finally:
            for order in orders:
                order.wanted = False

    def close(self, segment: Segment) -> None:
        """Abort what is under way for the segment, and forget it."""
        self._abort(segment)
        self._thread.post(lambda: self._release(segment))

    def _abort(self, segment: Segment) -> None:
        for order in list(self._thread.orders):
            if order.request.segment is segment and order.engine is self._engine:
                order.wanted = False

    def _release(self, segment: Segment) -> None:
        self._abort(segment)  # those that were still in the mail
        self._engine.forget(segment)


class _Thread:
    """What workers share. Of it, only ``post`` may be called from anywhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._mail: deque[Callable[[], None]] = deque()
        self.orders: list[Order] = []
        self._running = False

    def post(self, action: Callable[[], None]) -> None:
        with self._changed:
            self._mail.append(action)
            self._changed.notify()
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        while self._read_mail():
            for order in self.orders:
                if not order.wanted or order.next == order.request.stop:
                    order.end()
            self.orders = [order for order in self.orders if not order.ended]
            if self.orders:
                self._round(self.orders[0].engine)

    def _read_mail(self) -> bool:
        """Do what was asked for since the last round; False when the thread may end."""
        with self._changed:
            if not self._mail and not self.orders:
                self._changed.wait(IDLE_SECONDS)
            actions = list(self._mail)
            self._mail.clear()
            if not actions and not self.orders:
                self._running = False
                return False
        for action in actions:
            action()
        return True

    def _round(self, engine: DecodingEngine) -> None:
        room, taken = max(1, engine.batch), list[tuple[Order, Piece]]()
        own = [order for order in self.orders if order.engine is engine]
        for order in own:
            if room == 0:
                break
            piece = order.take(room)
            room -= piece.count
            taken.append((order, piece))
        try:
            draws = engine.sample([piece for _, piece in taken])
        except Exception as error:
            log.debug("the engine failed", exc_info=error)
            draws = [failed(piece.request, error) for _, piece in taken]
        for (order, _), draw in zip(taken, draws, strict=True):
            order.deliver(draw)
        self.orders = [order for order in self.orders if order.engine is not engine] + own  # now it is the others' turn


def failed(request: Request, error: Exception) -> Draw:
    """The draw of an ask that could not be answered."""
    if not isinstance(error, QuitmtError):
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        error = GenerationError(f"sampling segment {request.segment.id!r} failed: {line}")
    return Draw(request.segment, request.start, (), error=error)
