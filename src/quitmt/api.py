"""The Python API: translate a list, rerank a pool, watch a run step by step; plain functions and async ones.

    >>> import quitmt
    >>> outcome = quitmt.rerank_pool(["a cat sat", "the cat sat", "a dog", "the cat sat"])
    >>> outcome.translation, outcome.size, outcome.stop.value
    ('the cat sat', 4, 'exhausted')

Generator, reranker and rule may each be a name (as on the command line) or an object; a generator may also be any
function ``sample(source, start, stop)``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast

from quitmt import generate, rerank, stop
from quitmt.corpus import item
from quitmt.devices import Hardware
from quitmt.engine.bridge import iterate
from quitmt.engine.driver import Driver, Item, in_order
from quitmt.engine.engine import Finished, Observer
from quitmt.errors import InputError, QuitmtError
from quitmt.generate.function import FunctionGenerator, Sample
from quitmt.generate.recorded import RecordedGenerator, RecordedPool
from quitmt.protocols import Generator, Reranker, StoppingRule
from quitmt.sampling import Sampling
from quitmt.types import Candidate, Outcome, Segment, Standing, Verdict

Source = str | Segment


@dataclass(frozen=True, slots=True)
class Moment:
    """One step of a run that is watched."""

    standing: Standing
    translation: str
    """The best candidate so far."""
    new: tuple[Candidate, ...]
    """The candidates of this step."""
    verdict: Verdict | None
    """Why it stopped, at the last step."""


class Translator:
    """A generator, a reranker and a stopping rule, loaded once and used for any number of texts.

    ``model`` is a name such as ``embedded:en-pt``, a ``Generator``, or a function ``sample(source, start, stop)``
    that gives the candidates start..stop of a source. To a model given by name go ``languages`` (source, target),
    ``sampling`` (temperature, top_k, top_p, epsilon, seed) and ``options`` (the backend's own, such as base_url); to a
    reranker given by name ``mbr`` (a faster kind of it, such as prune), ``filter`` and ``keep`` (MBR among the best by
    QE) and ``hardware`` (of scoring models); to a rule given by name k, w, alpha and n.

    >>> def sample(source, start, stop):
    ...     return [source.upper() + "!" * (index % 3) for index in range(start, stop)]
    >>> translator = Translator(sample, reranker="mbr:chrf", n=64)
    >>> [outcome.translation for outcome in translator.translate(["hello there", ""])]
    ['HELLO THERE!!', '']
    """

    def __init__(
        self,
        model: str | Generator | Sample = "embedded:en-pt",
        *,
        reranker: str | Reranker[Any] = "mbr:chrf",
        rule: str | StoppingRule = "quit",
        k: int = 8,
        w: int = 8,
        alpha: float = 1e-3,
        n: int = 512,
        in_flight: int | None = None,
        speculate: bool = False,
        mbr: str = "exact",
        filter: str | None = None,
        keep: int | None = None,
        hardware: Hardware | None = None,
        languages: tuple[str | None, str | None] = (None, None),
        options: Mapping[str, Any] | None = None,
        **sampling: Any,
    ) -> None:
        self.rule = stop.load(rule, k=k, w=w, alpha=alpha, n=n) if isinstance(rule, str) else rule
        self.in_flight, self.speculate = in_flight or 16, speculate
        if isinstance(model, str):
            model, *pair = generate.resolve(model, *languages)
            languages = (pair[0], pair[1])
            self.generator: Generator = generate.load(model, Sampling(**sampling), languages=languages, options=options)
            self.in_flight = in_flight or generate.BACKENDS[model.partition(":")[0]].in_flight
        elif sampling:
            raise TypeError(f"{', '.join(sampling)}: sampling settings go with a model given by name")
        else:
            self.generator = cast(Generator, model) if hasattr(model, "draw") else FunctionGenerator(model)
        if isinstance(reranker, str):
            settings: dict[str, Any] = {"hardware": hardware, "filter": filter, "keep": keep, "variant": mbr}
            self.reranker: Reranker[Any] = rerank.load(reranker, languages=languages, **settings)
        elif (mbr, filter, keep, hardware) != ("exact", None, None, None):
            raise TypeError("mbr, filter, keep and hardware go with a reranker given by name")
        else:
            self.reranker = reranker

    def translate(self, sources: Iterable[Source]) -> list[Outcome]:
        """One outcome a source, in order."""
        return list(self.stream(sources))

    def stream(self, sources: Iterable[Source]) -> Iterator[Outcome]:
        """The same one by one, as soon as each and all before it are done; ``sources`` are read as needed."""
        return iterate(self.stream_async(sources))

    def watch(self, source: Source) -> Iterator[Moment]:
        """Translate one source and see every step of it."""
        return iterate(self.watch_async(source))

    async def translate_async(self, sources: Iterable[Source] | AsyncIterable[Source]) -> list[Outcome]:
        return [outcome async for outcome in self.stream_async(sources)]

    async def stream_async(self, sources: Iterable[Source] | AsyncIterable[Source]) -> AsyncIterator[Outcome]:
        driver = self._driver()
        async with aclosing(in_order(driver.run(_items(sources, driver.signature)))) as ordered:
            async for finished in ordered:
                yield finished.outcome

    async def watch_async(self, source: Source) -> AsyncIterator[Moment]:
        moments: asyncio.Queue[Moment | None] = asyncio.Queue()
        last: Moment | None = None

        def observe(_: Segment, standing: Standing, pool: Sequence[Candidate], verdict: Verdict | None) -> None:
            nonlocal last
            seen = last.standing.size if last else 0
            last = Moment(standing, pool[standing.best].text, tuple(pool[seen:]), verdict)
            moments.put_nowait(last)

        async def work() -> None:
            try:
                driver = self._driver(observe)
                async for _, finished in driver.run(_items([source], driver.signature)):
                    _raise_failure(finished)
                    if last and last.verdict is None:  # only the next ask showed that there are no more
                        moments.put_nowait(replace(last, new=(), verdict=finished.outcome.stop))
            finally:
                moments.put_nowait(None)

        task = asyncio.create_task(work())
        try:
            while (moment := await moments.get()) is not None:
                yield moment
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _driver(self, observer: Observer | None = None) -> Driver:
        return Driver(
            self.generator,
            self.reranker,
            self.rule,
            in_flight=self.in_flight,
            observer=observer,
            speculate=self.speculate,
        )


def translate(
    sources: Iterable[Source], model: str | Generator | Sample = "embedded:en-pt", **settings: Any
) -> list[Outcome]:
    """Translate a list of texts; the settings are those of ``Translator``.

    >>> import quitmt
    >>> [outcome] = quitmt.translate(["Good morning."], n=64, seed=7)
    >>> outcome.translation
    'Bom dia.'
    """
    return Translator(model, **settings).translate(sources)


async def translate_async(
    sources: Iterable[Source] | AsyncIterable[Source],
    model: str | Generator | Sample = "embedded:en-pt",
    **settings: Any,
) -> list[Outcome]:
    return await Translator(model, **settings).translate_async(sources)


def watch(source: Source, model: str | Generator | Sample = "embedded:en-pt", **settings: Any) -> Iterator[Moment]:
    """Translate one text and see every step of it; the settings are those of ``Translator``.

    >>> import quitmt
    >>> def sample(source, start, stop):
    ...     return ["one", "two", "two", "two"][start:stop]
    >>> for moment in quitmt.watch("x", sample, k=2, w=2):
    ...     print(moment.standing.size, moment.translation, moment.verdict)
    2 one None
    4 two None
    4 two exhausted
    """
    return Translator(model, **settings).watch(source)


def watch_async(
    source: Source, model: str | Generator | Sample = "embedded:en-pt", **settings: Any
) -> AsyncIterator[Moment]:
    return Translator(model, **settings).watch_async(source)


def rerank_pool(candidates: Iterable[str | Candidate], source: Source = "", **settings: Any) -> Outcome:
    """Choose from candidates in sampling order, as if they were sampled now; ``rule="full"`` looks at all of them.

    >>> import quitmt
    >>> pool = ["yes", "no", "no", "maybe"]
    >>> quitmt.rerank_pool(pool, rule="full").translation
    'no'
    >>> quitmt.rerank_pool(pool, rule="fixed:1").translation
    'yes'
    """
    return next(iterate(_rerank_pool(candidates, source, settings)))


async def rerank_pool_async(candidates: Iterable[str | Candidate], source: Source = "", **settings: Any) -> Outcome:
    return await anext(_rerank_pool(candidates, source, settings))


async def _rerank_pool(
    candidates: Iterable[str | Candidate], source: Source, settings: dict[str, Any]
) -> AsyncIterator[Outcome]:
    pool = tuple(Candidate(one) if isinstance(one, str) else one for one in candidates)
    if not pool:
        raise InputError("the pool has no candidates")
    segment = Segment("1", source) if isinstance(source, str) else source
    recorded = RecordedGenerator([RecordedPool(segment, pool)])
    driver = Translator(recorded, **settings)._driver()
    async with aclosing(driver.run([segment])) as run:
        async for _, finished in run:
            _raise_failure(finished)
            yield finished.outcome


async def _items(sources: Iterable[Source] | AsyncIterable[Source], signature: str) -> AsyncIterator[Item]:
    number = 0
    if isinstance(sources, AsyncIterable):
        async for source in sources:
            number += 1
            yield item(number, source, signature)
    else:
        for source in sources:
            number += 1
            yield item(number, source, signature)


def _raise_failure(finished: Finished) -> None:
    if finished.outcome.error:
        raise QuitmtError(finished.outcome.error)
