"""The Python API: translate a list, rerank a pool, watch a run step by step; plain functions and async ones.

    >>> import quitmt
    >>> outcome = quitmt.rerank_pool(["a cat sat", "the cat sat", "a dog", "the cat sat"])
    >>> outcome.translation, outcome.size, outcome.stop.value
    ('the cat sat', 4, 'exhausted')

Generator, reranker and rule may each be a name (as on the command line) or an object; a generator may also be any
function ``sample(source, start, stop)``, and a reranker any function ``reward(source, candidate)``. Nothing in it needs
the texts to be translations: ``best_of`` is the same by names that fit prompts and rewards.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from contextlib import aclosing
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Self

from quitmt import generate
from quitmt.calibrate.profile import Profile
from quitmt.engine.driver import Item, in_order
from quitmt.engine.items import Context, item, pool_of, segment_of
from quitmt.errors import AllFailed, speaking
from quitmt.failures import Failures, succeeded
from quitmt.generate.function import Sample
from quitmt.generate.recorded import RecordedGenerator
from quitmt.loops.iterate import iterate
from quitmt.metrics.devices import Hardware
from quitmt.plan import Recipe, files, keywords, resolve
from quitmt.plan.build import build
from quitmt.protocols import Generator, QualityEstimator, Reranker, StoppingRule
from quitmt.types import Candidate, Finished, Outcome, RecordedPool, Segment, Snapshot, StopReason, at

Source = str | Segment
Reward = Callable[[str, str], float] | Callable[[str, str], Awaitable[float]] | QualityEstimator
"""How good a candidate is, higher is better."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One step of a run that is watched."""

    snapshot: Snapshot
    translation: str
    """The best candidate so far."""
    new: tuple[Candidate, ...]
    """The candidates of this step, at the first one also the anchors."""
    stop_reason: StopReason | None
    """Why it stopped, at the last step."""


class Translator:
    """A generator, a reranker and a stopping rule, loaded once and used for any number of texts.

    ``model`` is a name such as ``embedded:en-pt``, a ``Generator``, or a function ``sample(source, start, stop)``
    that gives the candidates start..stop of a source; if it is not given, the ``languages`` find an embedded one, from
    English to Portuguese without them. ``reranker`` is a name such as ``mbr:chrf``, a ``Reranker``, or a
    function ``reward(source, candidate)``, the same as ``quitmt.qe`` of it. ``rule`` is a name or a ``StoppingRule``:
    ``auto`` with exact MBR and QE, else ``quit``, unless ``max_loss`` (mean loss of score), ``max_cost`` (mean
    candidates per source, or tokens: "3000tokens") or a ``profile`` of ``quitmt calibrate`` chooses one.
    ``preset="paper"`` is QUIT as published.

    To a model given by name go ``languages`` (source, target), ``sampling`` (temperature, top_k, top_p, min_p, epsilon,
    seed, and ``anchors``, such as "greedy,beam:4") and ``options`` (the backend's own, such as base_url); to a reranker
    given by name ``mbr`` (a faster kind of it, such as prune), ``support`` (others or all), ``filter`` and ``keep``
    (MBR among the best by QE) and ``hardware`` (of scoring models); to a rule
    given by name k, w, alpha and n. After ``deadline`` seconds a source stops with its best translation so far;
    ``run_deadline`` is for all sources of a call together. With ``nbest`` each outcome has the so many best distinct
    candidates, with their scores.

    >>> def sample(source, start, stop):
    ...     return [source.upper() + "!" * (index % 3) for index in range(start, stop)]
    >>> translator = Translator(sample, reranker="mbr:chrf", n=64)
    >>> [outcome.translation for outcome in translator.translate(["hello there", ""])]
    ['HELLO THERE!!', '']
    """

    def __init__(
        self,
        model: str | Generator | Sample | None = None,
        *,
        reranker: str | Reranker[Any] | Reward = "mbr:chrf",
        rule: str | StoppingRule | None = None,
        k: int | None = None,
        w: int | None = None,
        alpha: float | None = None,
        n: int | None = None,
        max_loss: float | str | None = None,
        max_cost: float | str | None = None,
        profile: str | PathLike[str] | Profile | None = None,
        in_flight: int | None = None,
        speculate: bool = False,
        nbest: int | None = None,
        deadline: float | None = None,
        run_deadline: float | None = None,
        allow_functions: bool = False,
        mbr: str | None = None,
        support: str | None = None,
        filter: str | None = None,
        keep: int | None = None,
        hardware: Hardware | None = None,
        languages: tuple[str | None, str | None] = (None, None),
        options: Mapping[str, Any] | None = None,
        preset: str | None = None,
        **sampling: Any,
    ) -> None:
        values = {name: value for name, value in locals().items() if name not in ("self", "sampling")}
        self._built = build(resolve(*keywords.read({**values, **sampling})))

    @classmethod
    def from_recipe(cls, recipe: str | PathLike[str] | Recipe, *, allow_functions: bool = False) -> Self:
        """The translator that a recipe describes: a file, as ``quitmt recipe`` prints it, or a ``Recipe``. A file may
        name your own functions only with ``allow_functions``."""
        if not isinstance(recipe, str | PathLike | Recipe):
            hint = "quitmt.plan.Recipe.from_fields makes one of a dictionary"
            raise TypeError(f"a recipe must be the path of a file or a Recipe, not {recipe!r:.80} ({hint})")
        made = cls.__new__(cls)
        if not isinstance(recipe, Recipe):
            recipe = files.load(str(recipe), allow_functions=allow_functions)
        with speaking(files.FileSpeaker(recipe)):
            made._built = build(resolve(recipe))
        return made

    @property
    def recipe(self) -> Recipe:
        """What it is made of, with every default filled in; ``quitmt.plan.files.to_toml`` writes it."""
        return self._built.recipe

    @property
    def generator(self) -> Generator:
        return self._built.generator

    @property
    def reranker(self) -> Reranker[Any]:
        return self._built.reranker

    @property
    def rule(self) -> StoppingRule:
        return self._built.rule

    def translate(self, sources: Iterable[Source]) -> list[Outcome]:
        """One outcome a source, in order. A source that fails has its ``error``, and a warning is logged; if all fail,
        ``quitmt.errors.AllFailed`` is raised, which has the outcomes."""
        return succeeded(list(iterate(self._outcomes(sources))))

    def stream(self, sources: Iterable[Source]) -> Iterator[Outcome]:
        """The same one by one, as soon as each and all before it are done; ``sources`` are read as needed. How many
        failed is logged at the end, and nothing is raised: what was yielded is out of its hands."""
        return iterate(self.stream_async(sources))

    def watch(self, source: Source) -> Iterator[Moment]:
        """Translate one source and see every step of it."""
        return iterate(self.watch_async(source))

    async def translate_async(self, sources: Iterable[Source] | AsyncIterable[Source]) -> list[Outcome]:
        return succeeded([outcome async for outcome in self._outcomes(sources)])

    async def stream_async(self, sources: Iterable[Source] | AsyncIterable[Source]) -> AsyncIterator[Outcome]:
        failures = Failures()
        async with aclosing(self._outcomes(sources)) as outcomes:
            try:
                async for outcome in outcomes:
                    failures.add(outcome)
                    yield outcome
            finally:
                failures.warn()

    async def _outcomes(self, sources: Iterable[Source] | AsyncIterable[Source]) -> AsyncGenerator[Outcome]:
        driver = self._built.driver()
        expected = len(sources) if isinstance(sources, Sized) else None
        await driver.warm()
        run = driver.run(_items(sources, driver.signature, self.recipe.model.context), expected=expected)
        async with aclosing(in_order(run)) as ordered:
            async for finished in ordered:
                yield finished.outcome

    async def watch_async(self, source: Source) -> AsyncIterator[Moment]:
        moments: asyncio.Queue[Moment | None] = asyncio.Queue()
        last: Moment | None = None

        def observe(
            _: Segment,
            snapshot: Snapshot,
            anchors: Sequence[Candidate],
            pool: Sequence[Candidate],
            stop_reason: StopReason | None,
        ) -> None:
            nonlocal last
            seen, new = (last.snapshot.size, ()) if last else (0, tuple(anchors))
            best = at(snapshot.best, anchors, pool)
            last = Moment(snapshot, best.text, (*new, *pool[seen:]), stop_reason)
            moments.put_nowait(last)

        async def work() -> None:
            try:
                driver = self._built.driver(observe)
                await driver.warm()
                async for _, finished in driver.run(_items([source], driver.signature, self.recipe.model.context)):
                    _raise_failure(finished)
                    if last and last.stop_reason is None:  # only the next ask showed that there are no more
                        moments.put_nowait(replace(last, new=(), stop_reason=finished.outcome.stop))
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


def translate(
    sources: Iterable[Source], model: str | Generator | Sample | None = None, **settings: Any
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
    model: str | Generator | Sample | None = None,
    **settings: Any,
) -> list[Outcome]:
    return await Translator(model, **settings).translate_async(sources)


def best_of(
    prompts: Iterable[Source], model: str | Generator | Sample, reward: str | Reranker[Any] | Reward, **settings: Any
) -> list[Outcome]:
    """The best candidate for each prompt, with as few candidates as the stopping rule needs: best-of-N for any task.

    ``reward`` is a function ``reward(prompt, candidate)``, plain or async, or anything else that ``Translator`` takes
    for a reranker: ``mbr:vote`` is the answer that most candidates give. A chat model given by name gets the prompts as
    they are. The settings are those of ``Translator``.

    >>> import quitmt
    >>> def guess(prompt, start, stop):
    ...     return [str(index * 7 % 32) for index in range(start, stop)]
    >>> def nearness(prompt, candidate):
    ...     return -abs(int(candidate) ** 2 - int(prompt))
    >>> [outcome.text for outcome in quitmt.best_of(["144", "600"], guess, nearness, n=32, rule="headroom:top=0")]
    ['12', '24']
    """
    return _answers(Translator(model, reranker=reward, **_as_they_are(model, settings)).translate(prompts))


async def best_of_async(
    prompts: Iterable[Source] | AsyncIterable[Source],
    model: str | Generator | Sample,
    reward: str | Reranker[Any] | Reward,
    **settings: Any,
) -> list[Outcome]:
    return _answers(await Translator(model, reranker=reward, **_as_they_are(model, settings)).translate_async(prompts))


def _answers(outcomes: list[Outcome]) -> list[Outcome]:
    """Without warnings, which compare a translation with its source: an answer need not say what its prompt says."""
    return [replace(outcome, warnings=()) for outcome in outcomes]


def _as_they_are(model: str | Generator | Sample, settings: dict[str, Any]) -> dict[str, Any]:
    """To engines that would wrap a text in a translation prompt and clean what comes back: do not, unless told to."""
    backend = generate.find(model).backend if isinstance(model, str) else None
    if backend is None or not backend.prompted:
        return settings
    return {**settings, "options": {"prompt": "plain", "clean": False, **(settings.get("options") or {})}}


def watch(source: Source, model: str | Generator | Sample | None = None, **settings: Any) -> Iterator[Moment]:
    """Translate one text and see every step of it; the settings are those of ``Translator``.

    >>> import quitmt
    >>> def sample(source, start, stop):
    ...     return ["one", "two", "two", "two"][start:stop]
    >>> for moment in quitmt.watch("x", sample, k=2, w=2):
    ...     print(moment.snapshot.size, moment.translation, moment.stop_reason)
    2 one None
    4 two None
    4 two exhausted
    """
    return Translator(model, **settings).watch(source)


def watch_async(
    source: Source, model: str | Generator | Sample | None = None, **settings: Any
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
    pool, segment = pool_of(candidates), segment_of(source, 1)
    recorded = RecordedGenerator([RecordedPool(segment, pool)])
    driver = Translator(recorded, **settings)._built.driver()
    async with aclosing(driver.run([segment])) as run:
        async for _, finished in run:
            _raise_failure(finished)
            yield finished.outcome


async def _items(
    sources: Iterable[Source] | AsyncIterable[Source], signature: str, context: int
) -> AsyncIterator[Item]:
    if isinstance(sources, str):
        raise TypeError("a list of texts is wanted, not one text")
    if isinstance(sources, bytes | Mapping) or not isinstance(sources, Iterable | AsyncIterable):
        raise TypeError(f"a list of texts is wanted, such as ['one', 'two'], not {sources!r:.80}")
    number, before = 0, Context(context)
    if isinstance(sources, AsyncIterable):
        async for source in sources:
            number += 1
            yield item(number, source, signature, before)
    else:
        for source in sources:
            number += 1
            yield item(number, source, signature, before)


def _raise_failure(finished: Finished) -> None:
    if finished.outcome.error:
        raise AllFailed(finished.outcome.error, [finished.outcome])
