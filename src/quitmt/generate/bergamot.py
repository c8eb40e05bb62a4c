"""The embedded generator: Firefox/Bergamot models, sampled in this process.

Requests of any number of concurrent ``draw`` calls join one batch. Generators that were ``resampled`` from one another
share one model, one thread (``quitmt.generate.worker``) and their encoded sources.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Self

from quitmt.bergamot.beam import BeamSearch
from quitmt.bergamot.models import load
from quitmt.bergamot.sampling import Sampler
from quitmt.bergamot.sources import Sources
from quitmt.generate.worker import Order, ThreadedGenerator, Worker, failed
from quitmt.protocols import GeneratorTraits
from quitmt.sampling import Sampling
from quitmt.types import Request, Segment

log = logging.getLogger(__name__)


class BergamotGenerator(ThreadedGenerator):
    """``model`` is ``embedded:en-pt``, another ``embedded:`` pair, or ``bergamot:FOLDER``."""

    traits = GeneratorTraits(sentence_level=True, takes_seeds=True)

    def __init__(self, model: str, sampling: Sampling | None = None) -> None:
        sampling = sampling or Sampling()
        self._name, self._model = model, load(model)
        self._sources, self._lacks = Sources(self._model), self._model.source.lacks
        self._worker = Worker(self._engine(sampling), "quitmt-bergamot")
        self.signature = self._signature(sampling)

    def _engine(self, sampling: Sampling) -> _SamplerEngine:
        model, sources = self._model, self._sources
        if sampling.beam:
            beam = sampling.beam
            return _SamplerEngine(lambda: BeamSearch(model, beam, sources))
        return _SamplerEngine(lambda: Sampler(model, sampling, sources))

    def _signature(self, sampling: Sampling) -> str:
        return f"{self._name}|w:{self._model.fingerprint}|{sampling.signature}"

    def resampled(self, sampling: Sampling) -> Self:
        """The same model and thread with other sampling settings."""
        other = copy.copy(self)
        other._worker = self._worker.beside(self._engine(sampling))
        other.signature = self._signature(sampling)
        return other

    async def warm(self) -> None:
        """Draw a few candidates, so that all kernels are compiled."""
        segment = Segment("warm-up", "One two.")
        async for _ in self.draw([Request(segment, 0, 2)]):
            self.close(segment)


class _SamplerEngine:
    """One sampler or beam search and its unfinished orders."""

    def __init__(self, make: Callable[[], Sampler | BeamSearch]) -> None:
        self._make, self._sampler = make, make()
        self._orders: dict[int, Order] = {}

    def step(self, orders: Sequence[Order]) -> None:
        for order in orders:
            if order.next < order.request.stop:
                self._admit(order)
        if not self._sampler.busy:
            return
        try:
            for number, draw in self._sampler.step():
                self._orders.pop(number).deliver(draw)
        except Exception as error:  # any order may be the cause, so all of them fail; later ones get a new sampler
            log.debug("the sampler failed", exc_info=error)
            self._sampler = self._make()
            for order in self._orders.values():
                order.deliver(failed(order.request, error))
            self._orders.clear()

    def _admit(self, order: Order) -> None:
        piece = order.take(order.request.stop - order.request.start)
        try:
            self._orders[self._sampler.admit(piece.request)] = order
        except Exception as error:
            order.deliver(failed(order.request, error))

    def drop(self, order: Order) -> None:
        numbers = [number for number, one in self._orders.items() if one is order]
        self._sampler.abort(numbers)
        for number in numbers:
            del self._orders[number]

    def forget(self, segment: Segment) -> None:
        self._sampler.forget(segment)
