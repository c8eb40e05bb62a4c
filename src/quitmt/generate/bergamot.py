"""The embedded generator: Firefox/Bergamot models, sampled in this process.

One thread runs the sampler while there is anything to draw; asks of any number of concurrent ``draw`` calls, from any
event loop, join its batch.

Invariants: only that thread touches the sampler; every ask is answered exactly once, by its draw, by an error, or by
nothing when its segment was closed; the thread ends when nothing is left to do.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from quitmt.bergamot.models import Model, load
from quitmt.bergamot.sampling import Sampler, Task
from quitmt.errors import GenerationError, QuitmtError, UsageError
from quitmt.loops.mailbox import Mailbox
from quitmt.protocols import GeneratorTraits
from quitmt.remarks import unknown_characters
from quitmt.sampling import Sampling
from quitmt.types import Ask, Draw, Segment

log = logging.getLogger(__name__)

Answer = Callable[[Draw | None], None]


class BergamotGenerator:
    """``model`` is ``embedded:en-pt``, ``embedded:pt-en`` or ``bergamot:FOLDER``."""

    traits = GeneratorTraits(sentence_level=True, takes_seeds=True)

    def __init__(self, model: str, sampling: Sampling | None = None) -> None:
        self._start(model, load(model), sampling or Sampling())

    def _start(self, model: str, loaded: Model, sampling: Sampling) -> None:
        self._model, self._loaded = model, loaded
        self.signature = f"{model}|w:{loaded.fingerprint}|{sampling.signature}"
        self._vocabulary = loaded.source
        self._worker = _Worker(lambda: Sampler(loaded, sampling))

    def resampled(self, sampling: Sampling) -> BergamotGenerator:
        """The same model, sampling differently."""
        made = BergamotGenerator.__new__(BergamotGenerator)
        made._start(self._model, self._loaded, sampling)
        return made

    async def draw(self, asks: Sequence[Ask]) -> AsyncIterator[Draw]:
        """Yield each ask's candidates in one draw, as soon as they are complete."""
        for ask in asks:
            if not 0 <= ask.start <= ask.stop:
                raise UsageError(f"cannot draw candidates {ask.start} to {ask.stop} of segment {ask.segment.id!r}")
        answers = Mailbox[Draw | None]()

        orders = [_Order(ask, answers.put) for ask in asks]
        try:
            self._worker.submit(orders)
            for _ in orders:
                draw = await answers.get()
                if draw is not None:
                    yield draw
        finally:
            self._worker.cancel(orders)

    async def warm(self) -> None:
        """Draw a little, so that all kernels are compiled."""
        segment = Segment("warm-up", "One two.")
        async for _ in self.draw([Ask(segment, 0, 2)]):
            self.close(segment)

    def unknown(self, source: str) -> str:
        """The characters that the vocabulary lacks: the model sees one and the same mark for each of them."""
        return unknown_characters(source, self._vocabulary.lacks)

    def close(self, segment: Segment) -> None:
        """Abort what is under way for the segment and forget its prefixes."""
        self._worker.close(segment)


class _Order:
    """An ask, and whom to answer."""

    __slots__ = ("answer", "answered", "ask")

    def __init__(self, ask: Ask, answer: Answer) -> None:
        self.ask, self.answer, self.answered = ask, answer, False

    def reply(self, draw: Draw | None) -> None:
        self.answered = True
        self.answer(draw)


class _Worker:
    """Runs a sampler in a thread of its own; its public methods may be called from anywhere."""

    def __init__(self, make: Callable[[], Sampler]) -> None:
        self._make, self._sampler = make, make()
        self._lock = threading.Lock()
        self._inbox: deque[Callable[[], None]] = deque()
        self._running = False
        self._orders: dict[int, _Order] = {}

    def submit(self, orders: Sequence[_Order]) -> None:
        self._post(lambda: self._admit(orders))

    def cancel(self, orders: Sequence[_Order]) -> None:
        """Nobody waits for these any more."""
        if any(not order.answered for order in orders):
            self._post(lambda: self._abort(orders))

    def close(self, segment: Segment) -> None:
        self._post(lambda: self._release(segment))

    def _post(self, action: Callable[[], None]) -> None:
        with self._lock:
            self._inbox.append(action)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="quitmt-bergamot", daemon=True).start()

    def _run(self) -> None:
        while self._take_mail():
            try:
                for number, task in self._sampler.step():
                    self._orders.pop(number).reply(_drawn(task))
            except Exception as error:
                self._fail(error)

    def _take_mail(self) -> bool:
        """Do what was asked for since the last step; whether a step is needed. Ends the thread when there is none."""
        while True:
            with self._lock:
                actions = list(self._inbox)
                self._inbox.clear()
                if not actions and not self._sampler.busy:
                    self._running = False
                    return False
            for action in actions:
                action()
            if self._sampler.busy:
                return True

    def _admit(self, orders: Sequence[_Order]) -> None:
        for order in orders:
            ask = order.ask
            if ask.start == ask.stop:
                order.reply(Draw(ask.segment, ask.start, ()))
                continue
            try:
                self._orders[self._sampler.admit(ask)] = order
            except Exception as error:
                order.reply(_failed(ask, error))

    def _abort(self, orders: Sequence[_Order]) -> None:
        unwanted = [number for number, order in self._orders.items() if order in orders]
        self._sampler.abort(unwanted)
        for number in unwanted:
            del self._orders[number]

    def _release(self, segment: Segment) -> None:
        for number in self._sampler.release(segment):
            self._orders.pop(number).reply(None)

    def _fail(self, error: Exception) -> None:
        """A step failed, nobody knows through whose fault: all asks under way fail, later ones start afresh."""
        log.debug("the sampler failed", exc_info=error)
        self._sampler = self._make()
        for order in self._orders.values():
            order.reply(_failed(order.ask, error))
        self._orders.clear()


def _drawn(task: Task) -> Draw:
    candidates = tuple(candidate for candidate in task.candidates if candidate is not None)
    return Draw(task.ask.segment, task.ask.start, candidates, task.seconds)


def _failed(ask: Ask, error: Exception) -> Draw:
    if not isinstance(error, QuitmtError):
        error = GenerationError(f"sampling segment {ask.segment.id!r} failed: {error!r}")
    return Draw(ask.segment, ask.start, (), error=error)
