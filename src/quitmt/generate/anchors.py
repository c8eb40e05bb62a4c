"""Anchors: extra candidates from the same model. The samples judge them; they are never pseudo-references.

    greedy     the most probable token at each step
    beam:4     the hypotheses of a beam search of size 4
    4@0.3      4 samples at temperature 0.3, separate from the other samples

A segment's anchors come with its first candidates, in the order of the recipe.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

from quitmt import protocols
from quitmt.errors import UsageError, setting
from quitmt.loops.faults import Carried, is_cancellation, started
from quitmt.protocols import Generator, GeneratorTraits, traits_of
from quitmt.sampling import Sampling, derived_seed
from quitmt.types import Draw, Request, Segment

NONE = "none"
KINDS = "greedy, beam:N, N@T (N samples at temperature T)"
_GRAMMAR = re.compile(r"(?P<greedy>greedy)|beam:(?P<beam>[1-9]\d{0,3})|(?P<count>[1-9]\d{0,3})@(?P<temperature>[\d.]+)")


@dataclass(frozen=True, slots=True)
class Anchor:
    """One item of the setting ``model.anchors``."""

    text: str
    count: int = 1
    beam: int | None = None
    temperature: float = 0.0

    def sampling(self, base: Sampling) -> Sampling:
        """The anchor's sampling settings, derived from the samples' settings ``base``."""
        if self.beam is not None:
            return Sampling(beam=self.beam, seed=base.seed)
        if self.temperature == 0:
            return Sampling(temperature=0.0, seed=base.seed)
        # With the samples' seed they would resemble the samples, and the samples would judge their own copies.
        return replace(base, temperature=self.temperature, seed=derived_seed(base.seed), derived=True)


def parse(text: str) -> tuple[Anchor, ...]:
    """
    >>> [anchor.count for anchor in parse("greedy,beam:4,2@0.3")]
    [1, 4, 2]
    """
    words = [word.strip() for word in text.split(",")]
    if words == [NONE]:
        return ()
    anchors = tuple(_anchor(word) for word in words)
    if len({(anchor.beam, anchor.temperature) for anchor in anchors}) < len(anchors):
        raise UsageError(f"{setting('model.anchors')} names the same anchor twice: {text!r}")
    return anchors


def _anchor(word: str) -> Anchor:
    match = _GRAMMAR.fullmatch(word)
    if match and match["greedy"]:
        return Anchor("greedy")
    if match and match["beam"]:
        return Anchor(word, count=int(match["beam"]), beam=int(match["beam"]))
    try:
        temperature = float(match["temperature"]) if match else 0.0
    except ValueError:
        temperature = 0.0
    if match is None or temperature <= 0:
        hint = f"such as {setting('model.anchors', 'greedy,beam:4')}"
        raise UsageError(f"{setting('model.anchors')} must be {NONE}, or some of {KINDS}, not {word!r}", hint=hint)
    return Anchor(word, count=int(match["count"]), temperature=temperature)


class Anchored:
    """Adds anchors to a generator; its ``resampled`` siblings make them."""

    def __init__(self, generator: Generator, anchors: Sequence[Anchor], sampling: Sampling) -> None:
        if not hasattr(generator, "resampled"):
            name = generator.signature.partition("|")[0]
            hint = f"give {setting('model.anchors', NONE)}, or supply your own translations"
            raise UsageError(f"{name} cannot make anchors, because it has no resampled()", hint=hint)
        self._samples = generator
        self._parts = [(anchor, generator.resampled(anchor.sampling(sampling))) for anchor in anchors]
        self.signature = f"{generator.signature}|a:{','.join(anchor.text for anchor in anchors)}"
        self.traits = replace(traits_of(generator, GeneratorTraits), anchored=True)

    async def draw(self, requests: Sequence[Request]) -> AsyncIterator[Draw]:
        """Yield samples as they arrive, and a segment's anchors as soon as all of them have arrived."""
        anchors = [anchor for anchor, _ in self._parts]
        first = [request.segment for request in requests if request.start == 0 and request.anchors]
        gathering = {id(segment): _Gathering(segment, anchors) for segment in first}
        arrived: asyncio.Queue[Draw | Carried | None] = asyncio.Queue()
        streams = (
            [self._samples.draw(samples)]
            if (samples := [request for request in requests if request.stop > request.start])
            else []
        )
        for number, (anchor, part) in enumerate(self._parts):
            firsts = [Request(one.segment, 0, anchor.count) for one in gathering.values()]
            if firsts:
                streams.append(_of_part(part.draw(firsts), gathering, number))
        tasks = [started(_pump(stream, arrived)) for stream in streams]
        try:
            left = len(tasks)
            while left:
                one = await arrived.get()
                if isinstance(one, Carried):
                    raise one.error
                if one is None:
                    left -= 1
                else:
                    yield one
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def close(self, segment: Segment) -> None:
        for generator in self._all:
            generator.close(segment)

    @property
    def _all(self) -> list[Generator]:
        return [self._samples, *(part for _, part in self._parts)]

    async def check(self) -> None:
        await protocols.check(self._samples)

    async def warm(self) -> None:
        for generator in self._all:
            await protocols.warm(generator)

    @property
    def waiting(self) -> str | None:
        return next(filter(None, map(protocols.waiting, self._all)), None)

    @property
    def wasted_tokens(self) -> int:
        return sum(map(protocols.wasted_tokens, self._all))

    def unknown(self, source: str) -> str:
        return protocols.unknown(self._samples, source)


class _Gathering:
    """Collects the anchors of one segment."""

    def __init__(self, segment: Segment, anchors: Sequence[Anchor]) -> None:
        self.segment = segment
        self._anchors = anchors
        self._draws: list[list[Draw]] = [[] for _ in anchors]

    def take(self, number: int, draw: Draw) -> Draw | None:
        """Take a draw; return all anchors once they are complete, or a draw with an error."""
        if draw.error is not None:
            return draw
        self._draws[number].append(draw)
        if not all(map(_is_whole, self._anchors, self._draws)):
            return None
        candidates = [
            replace(one, origin=anchor.text)
            for anchor, draws in zip(self._anchors, self._draws, strict=True)
            for draw in sorted(draws, key=lambda draw: draw.start)
            for one in draw.candidates
        ]
        seconds = sum(draw.seconds for draws in self._draws for draw in draws)
        return Draw(self.segment, 0, (), seconds, anchors=tuple(candidates))


def _is_whole(anchor: Anchor, draws: list[Draw]) -> bool:
    """A beam search may find fewer hypotheses than its size."""
    return sum(len(draw.candidates) for draw in draws) >= anchor.count or any(draw.ended for draw in draws)


async def _of_part(draws: AsyncIterator[Draw], gathering: Mapping[int, _Gathering], number: int) -> AsyncIterator[Draw]:
    async for draw in draws:
        if whole := gathering[id(draw.segment)].take(number, draw):
            yield whole


async def _pump(draws: AsyncIterator[Draw], arrived: asyncio.Queue[Draw | Carried | None]) -> None:
    try:
        async for draw in draws:
            arrived.put_nowait(draw)
    except BaseException as error:
        if is_cancellation(error):
            raise
        arrived.put_nowait(Carried(error))
    else:
        arrived.put_nowait(None)
