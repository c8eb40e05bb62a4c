"""The embedded generator: Firefox/Bergamot models, sampled in this process.

One thread runs the sampler while there is anything to draw; asks of any number of concurrent ``draw`` calls, from any
event loop, join its batch. Generators that were ``resampled`` from one another have one model and one thread, in which
their samplers take turns: a step uses all cores already. They share encoded sources as well.

Invariants: only that thread touches the samplers; every ask is answered exactly once, by its draw, by an error, or by
nothing when its segment was closed; the thread ends when nothing is left to do.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, Self

from quitmt.bergamot.beam import BeamSearch
from quitmt.bergamot.models import load
from quitmt.bergamot.sampling import Sampler
from quitmt.bergamot.sources import Sources
from quitmt.errors import GenerationError, QuitmtError, UsageError
from quitmt.loops.mailbox import Mailbox
from quitmt.protocols import GeneratorTraits
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Draw, Request, Segment
from quitmt.warnings import unknown_characters

log = logging.getLogger(__name__)

Answer = Callable[[Draw | None], None]


class BergamotGenerator:
    """``model`` is ``embedded:en-pt``, ``embedded:pt-en`` or ``bergamot:FOLDER``."""

    traits = GeneratorTraits(sentence_level=True, takes_seeds=True, shares_beginnings=True)

    def __init__(self, model: str, sampling: Sampling | None = None) -> None:
        self._name, self._model = model, load(model)
        self._sources, self._worker = Sources(self._model), _Worker()
        self._start(sampling or Sampling())

    def _start(self, sampling: Sampling) -> None:
        model, sources = self._model, self._sources
        self.signature = f"{self._name}|w:{model.fingerprint}|{sampling.signature}"

        def make() -> Sampler | BeamSearch:
            return BeamSearch(model, sampling.beam, sources) if sampling.beam else Sampler(model, sampling, sources)

        self._part = _Part(make)

    def resampled(self, sampling: Sampling) -> Self:
        """The same with other sampling settings: one model and one thread."""
        other = copy.copy(self)
        other._start(sampling)
        return other

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        """Yield each ask's candidates in one draw, as soon as they are complete."""
        for request in requests:
            if not 0 <= request.start <= request.stop:
                raise UsageError(
                    f"cannot draw candidates {request.start} to {request.stop} of segment {request.segment.id!r}"
                )
        answers = Mailbox[Draw | None]()

        orders = [_Order(request, answers.put) for request in requests]
        try:
            self._worker.submit(self._part, orders)
            for _ in orders:
                draw = await answers.get()
                if draw is not None:
                    yield draw
        finally:
            self._worker.cancel(self._part, orders)

    async def warm(self) -> None:
        """Draw a little, so that all kernels are compiled."""
        segment = Segment("warm-up", "One two.")
        async for _ in self.draw([Request(segment, 0, 2)]):
            self.close(segment)

    def unknown(self, source: str) -> str:
        """The characters that the vocabulary lacks: the model sees one and the same mark for each of them."""
        return unknown_characters(source, self._model.source.lacks)

    def close(self, segment: Segment) -> None:
        """Abort what is under way for the segment and forget its prefixes."""
        self._worker.close(self._part, segment)


class _Order:
    """An ask, and whom to answer."""

    __slots__ = ("answer", "answered", "request")

    def __init__(self, request: Request, answer: Answer) -> None:
        self.request, self.answer, self.answered = request, answer, False

    def reply(self, draw: Draw | None) -> None:
        self.answered = True
        self.answer(draw)


class _Answered(Protocol):
    """An ask that is complete."""

    @property
    def request(self) -> Request: ...
    @property
    def candidates(self) -> Sequence[Candidate | None]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def ended(self) -> bool: ...


class _Part:
    """One way of sampling, and the asks that it works on. Only the thread touches it."""

    def __init__(self, make: Callable[[], Sampler | BeamSearch]) -> None:
        self._make, self.sampler = make, make()
        self.orders: dict[int, _Order] = {}

    def step(self) -> None:
        try:
            for number, answered in self.sampler.step():
                self.orders.pop(number).reply(_drawn(answered))
        except Exception as error:
            self._fail(error)

    def admit(self, orders: Sequence[_Order]) -> None:
        for order in orders:
            request = order.request
            if request.start == request.stop:
                order.reply(Draw(request.segment, request.start, ()))
                continue
            try:
                self.orders[self.sampler.admit(request)] = order
            except Exception as error:
                order.reply(_failed(request, error))

    def abort(self, orders: Sequence[_Order]) -> None:
        unwanted = [number for number, order in self.orders.items() if order in orders]
        self.sampler.abort(unwanted)
        for number in unwanted:
            del self.orders[number]

    def release(self, segment: Segment) -> None:
        for number in self.sampler.release(segment):
            self.orders.pop(number).reply(None)

    def _fail(self, error: Exception) -> None:
        """A step failed, nobody knows through whose fault: all asks under way fail, later ones start afresh."""
        log.debug("the sampler failed", exc_info=error)
        self.sampler = self._make()
        for order in self.orders.values():
            order.reply(_failed(order.request, error))
        self.orders.clear()


class _Worker:
    """Runs samplers in a thread of its own; its public methods may be called from anywhere."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inbox: deque[Callable[[], None]] = deque()
        self._running = False
        self._busy: list[_Part] = []

    def submit(self, part: _Part, orders: Sequence[_Order]) -> None:
        def admit() -> None:
            part.admit(orders)
            if part not in self._busy:
                self._busy.append(part)

        self._post(admit)

    def cancel(self, part: _Part, orders: Sequence[_Order]) -> None:
        """Nobody waits for these any more."""
        if any(not order.answered for order in orders):
            self._post(lambda: part.abort(orders))

    def close(self, part: _Part, segment: Segment) -> None:
        self._post(lambda: part.release(segment))

    def _post(self, action: Callable[[], None]) -> None:
        with self._lock:
            self._inbox.append(action)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="quitmt-bergamot", daemon=True).start()

    def _run(self) -> None:
        while self._take_mail():
            for part in self._busy:
                if part.sampler.busy:
                    part.step()

    def _take_mail(self) -> bool:
        """Do what was asked for since the last step; whether a step is needed. Ends the thread when there is none."""
        while True:
            self._busy = [part for part in self._busy if part.sampler.busy]
            with self._lock:
                actions = list(self._inbox)
                self._inbox.clear()
                if not actions and not self._busy:
                    self._running = False
                    return False
            for action in actions:
                action()
            if any(part.sampler.busy for part in self._busy):
                return True


def _drawn(answered: _Answered) -> Draw:
    candidates = tuple(candidate for candidate in answered.candidates if candidate is not None)
    return Draw(answered.request.segment, answered.request.start, candidates, answered.seconds, ended=answered.ended)


def _failed(request: Request, error: Exception) -> Draw:
    if not isinstance(error, QuitmtError):
        error = GenerationError(f"sampling segment {request.segment.id!r} failed: {error!r}")
    return Draw(request.segment, request.start, (), error=error)
