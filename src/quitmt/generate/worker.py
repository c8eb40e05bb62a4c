"""A thread that draws, for engines that block. Any number of ``draw`` calls from any event loop feed it.

Requests wait in the order they came. Several engines may share one thread, because each would use all cores or all of a
GPU: they take turns, one step each.

Invariants: only the thread touches the engines; every order ends exactly once, after its last draw, after an error, or
without a draw when its segment was closed; the thread ends shortly after its last order.
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
from quitmt.loops.faults import first_line
from quitmt.loops.mailbox import Mailbox
from quitmt.types import Draw, Request, Segment
from quitmt.warnings import unknown_characters

log = logging.getLogger(__name__)

IDLE_SECONDS = 1.0
"""How long the thread waits for further orders. A new thread would restart its libraries' threads too."""


class Order:
    """A request and its progress. The thread calls ``answer`` with each draw, and with None at the end."""

    __slots__ = ("answer", "ended", "engine", "next", "request", "wanted")

    def __init__(self, request: Request, engine: WorkerEngine, answer: Callable[[Draw | None], None]) -> None:
        self.request, self.engine, self.answer = request, engine, answer
        self.next, self.wanted, self.ended = request.start, True, False

    def take(self, room: int) -> Piece:
        """The next candidates to draw, at most ``room``."""
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


class WorkerEngine(Protocol):
    """What the thread runs."""

    def step(self, orders: Sequence[Order]) -> None:
        """Work on the engine's orders, oldest first, for a short while; deliver finished draws. Must not raise."""
        ...

    def drop(self, order: Order) -> None:
        """Stop working on an order that isn't wanted any more."""
        ...

    def forget(self, segment: Segment) -> None:
        """Free what is kept for a closed segment."""
        ...


class Worker:
    """Runs an engine in a thread. Its public methods may be called from any thread."""

    def __init__(self, engine: WorkerEngine, name: str) -> None:
        self._engine, self._thread = engine, _Thread(name)

    def beside(self, engine: WorkerEngine) -> Worker:
        """A worker for another engine in the same thread."""
        other = copy.copy(self)
        other._engine = engine
        return other

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        """Yield the requested candidates: those of one request in order, in one or several draws."""
        for request in requests:
            if not 0 <= request.start <= request.stop:
                raise UsageError(
                    f"cannot draw candidates {request.start} to {request.stop} of segment {request.segment.id!r}"
                )
        answers = Mailbox[Draw | None]()

        orders = [Order(request, self._engine, answers.put) for request in requests]
        unfinished = len(orders)
        try:
            self._thread.post(lambda: self._thread.orders.extend(orders))
            while unfinished:
                draw = await answers.get()
                if draw is None:
                    unfinished -= 1
                else:
                    yield draw
        finally:
            for order in orders:
                order.wanted = False

    def close(self, segment: Segment) -> None:
        """Abort the segment's orders and free what is kept for it."""
        self._abort(segment)
        self._thread.post(lambda: self._release(segment))

    def _abort(self, segment: Segment) -> None:
        for order in list(self._thread.orders):
            if order.request.segment is segment and order.engine is self._engine:
                order.wanted = False

    def _release(self, segment: Segment) -> None:
        self._abort(segment)  # includes orders that were still in the mail
        self._thread.drop_unwanted()
        self._engine.forget(segment)


class ThreadedGenerator:
    """The base class of generators that draw in a worker's thread."""

    _worker: Worker
    _lacks: Callable[[str], bool]
    """Whether the vocabulary lacks a character of a text."""

    def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        """Yield the requested candidates: those of one request in order, in one or several draws."""
        return self._worker.draw(requests)

    def unknown(self, source: str) -> str:
        """The characters that the vocabulary lacks."""
        return unknown_characters(source, self._lacks)

    def close(self, segment: Segment) -> None:
        """Abort the segment's requests and free what is kept for it."""
        self._worker.close(segment)


class _Thread:
    """The thread that workers share. Only ``post`` may be called from other threads."""

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

    def drop_unwanted(self) -> None:
        for order in self.orders:
            if not order.wanted and not order.ended:
                order.engine.drop(order)
                order.end()
            elif order.request.start == order.request.stop:
                order.end()
        self.orders = [order for order in self.orders if not order.ended]

    def _run(self) -> None:
        while self._read_mail():
            self.drop_unwanted()
            if self.orders:
                engine = self.orders[0].engine
                turn = [order for order in self.orders if order.engine is engine]
                engine.step(turn)
                others = [order for order in self.orders if order.engine is not engine]
                self.orders = others + turn  # the next turn belongs to another engine

    def _read_mail(self) -> bool:
        """Run the posted actions. False means that the thread may end."""
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


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a request. An engine may abandon a piece that isn't wanted any more, and answer with any draw."""

    request: Request
    wanted: Callable[[], bool]

    @property
    def count(self) -> int:
        return self.request.stop - self.request.start


class BatchSampler(Protocol):
    """Draws whole batches, one blocking call each."""

    @property
    def batch(self) -> int:
        """Maximum candidates per call."""
        ...

    def sample(self, pieces: Sequence[Piece]) -> Sequence[Draw]:
        """One draw per piece, in the same order."""
        ...

    def forget(self, segment: Segment) -> None: ...


class Batches:
    """An engine that fills each batch from its oldest orders, so that concurrent calls share batches and a long request
    is answered piece by piece."""

    def __init__(self, sampler: BatchSampler) -> None:
        self._sampler = sampler
        self.forget = sampler.forget

    def step(self, orders: Sequence[Order]) -> None:
        room, taken = max(1, self._sampler.batch), list[tuple[Order, Piece]]()
        for order in orders:
            if room == 0:
                break
            piece = order.take(room)
            room -= piece.count
            taken.append((order, piece))
        try:
            draws = self._sampler.sample([piece for _, piece in taken])
        except Exception as error:
            log.debug("the engine failed", exc_info=error)
            draws = [failed(piece.request, error) for _, piece in taken]
        for (order, _), draw in zip(taken, draws, strict=True):
            order.deliver(draw)

    def drop(self, order: Order) -> None:
        """Nothing to do: no piece outlives a step."""


def failed(request: Request, error: Exception) -> Draw:
    """The draw of a request that could not be answered."""
    if not isinstance(error, QuitmtError):
        error = GenerationError(f"sampling segment {request.segment.id!r} failed: {first_line(error)}")
    return Draw(request.segment, request.start, (), error=error)
