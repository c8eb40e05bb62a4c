"""The text that ``translate`` reads: lines or their sentences, a part of a file, and files beside the input."""

from __future__ import annotations

import argparse
import asyncio
import re
import zlib
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from quitmt.engine.driver import Item
from quitmt.engine.items import Context, item
from quitmt.errors import InputError, UsageError
from quitmt.files.lines import STDIN, count_lines, name_of, read_lines
from quitmt.passages import Passage, split
from quitmt.types import Finished, Segment, StopReason

_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several contiguous parts of a file, for machines that share nothing but files.

    Lines keep their numbers, and therefore their candidates, from the whole file, so the concatenated outputs of all
    parts are the output of the whole file.

    >>> [Shard.of(9, number, 4).lines for number in (1, 2, 3, 4)]
    [range(0, 2), range(2, 4), range(4, 6), range(6, 9)]
    """

    lines: range
    """The lines to translate, counted from 0."""
    name: str = ""

    @classmethod
    def of(cls, lines: int, number: int, count: int) -> Self:
        """Part ``number`` of ``count``; the sizes of the parts differ by at most one line."""
        part = range((number - 1) * lines // count, number * lines // count)
        return cls(part, f"{number}/{count}, {f'lines {part.start + 1} to {part.stop}' if part else 'no line'}")

    def skipped(self, context: int) -> int:
        """How many lines needn't be read: a line needs at most the ``context`` lines before it."""
        return max(0, self.lines.start - context)


WHOLE = Shard(range(2**62))


def parse_shard(text: str) -> tuple[int, int]:
    """Parse the argument ``3/8``."""
    match = _SHARD.fullmatch(text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part such as 1/8, 2/8, … 8/8")
    return number, count


def shard_of(path: str, shard: tuple[int, int] | None) -> Shard:
    if shard is None:
        return WHOLE
    if path == STDIN or (Path(path).exists() and not Path(path).is_file()):
        raise UsageError(
            f"--shard needs a file, because it must know the number of lines of {name_of(path)} at the start",
            hint="name a file, plain or gzip",
        )
    lines = count_lines(path)
    return Shard.of(asyncio.run(_count_unpacked(path)) if lines is None else lines, *shard)


async def _count_unpacked(path: str) -> int:
    count = 0
    async for _ in read_lines(path):
        count += 1
    return count


class LinesBeside:
    """Files with one line per segment: the user's own translations, or pseudo-references. Blank lines are ignored."""

    def __init__(self, paths: Sequence[str], skipped: int = 0, of: str = "the input") -> None:
        self._paths, self._skipped, self._of = paths, skipped, of
        self._stack = AsyncExitStack()
        self._files: list[AsyncIterator[str]] = []

    async def __aenter__(self) -> Self:
        for path in self._paths:
            self._files.append(await self._stack.enter_async_context(aclosing(read_lines(path, self._skipped))))
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._stack.aclose()

    async def next(self, number: int) -> tuple[str, ...]:
        """The lines for segment ``number``, counted from 1; segments are requested in order."""
        lines = [await self._line(path, file, number) for path, file in zip(self._paths, self._files, strict=True)]
        return tuple(line for line in lines if line.strip())

    async def end(self, count: int) -> None:
        """Check that the files have no more than ``count`` lines."""
        for path, file in zip(self._paths, self._files, strict=True):
            if await anext(file, None) is not None:
                raise InputError(f"{path} has more than {count} lines, more than {self._of}", hint="one per segment")

    async def _line(self, path: str, file: AsyncIterator[str], number: int) -> str:
        line = await anext(file, None)
        if line is None:
            few = f"{'at most ' if self._skipped == number - 1 > 0 else ''}{number - 1} lines"
            raise InputError(f"{path} has {few}, fewer than {self._of}", hint="one per segment, blank or not")
        return line


@dataclass(slots=True)
class Sentences:
    """Splits lines into sentences and joins their translations. Sentences come back in the order they went out."""

    source: str | None
    target: str | None
    _passages: deque[tuple[Passage, int]] = field(default_factory=deque)
    """The lines in flight, with the number of segments of each."""
    _done: list[Finished] = field(default_factory=list)

    def split(self, line: str, number: int, *, keep: bool) -> list[Segment]:
        """The sentences of line ``number``; without any, one blank segment. ``keep`` expects their translations."""
        passage = split(line, self.source, first=number)
        segments = [Segment(one.id or "", one.text) for one in passage.sentences] or [Segment(str(number), "")]
        if keep:
            self._passages.append((passage, len(segments)))
        return segments

    def join(self, finished: Finished) -> str | None:
        """The translation of a line once all its sentences are finished; blank if one of them failed."""
        passage, count = self._passages[0]
        self._done.append(finished)
        if len(self._done) < count:
            return None
        outcomes = [one.outcome for one in self._done]
        self._passages.popleft()
        self._done = []
        if any(outcome.stop is StopReason.FAILED for outcome in outcomes):
            return ""
        return passage.joined([outcome.translation for outcome in outcomes][: len(passage.sentences)], self.target)


@dataclass(frozen=True, slots=True)
class TextInput:
    """The input of ``translate``: a file of text, and files with anchors and pseudo-references for each line."""

    path: str
    anchors: Sequence[str] = ()
    support: Sequence[str] = ()
    shard: Shard = WHOLE
    sentences: Sentences | None = None

    async def items(self, signature: str, context: int = 0) -> AsyncIterator[tuple[Item, int]]:
        """The segments with checksums of their content, each with the ``context`` lines before it."""
        number = skip = self.shard.skipped(context)
        before = Context(context)
        anchors, support = LinesBeside(self.anchors, skip), LinesBeside(self.support, skip)
        async with aclosing(read_lines(self.path, skip)) as lines, anchors, support:
            async for line in lines:
                if number >= self.shard.lines.stop:
                    break
                number += 1
                wanted = number > self.shard.lines.start
                if self.sentences:
                    segments = self.sentences.split(line, number, keep=wanted)
                else:
                    translations, judges = await anchors.next(number), await support.next(number)
                    segments = [Segment(str(number), line, anchors=translations, support=judges)]
                for segment in segments:
                    one = item(number, segment, signature, before)
                    if wanted:
                        yield one, _checksum(segment)
            else:
                await support.end(number)


def _checksum(segment: Segment) -> int:
    content = [segment.source, *segment.anchors, *(f"\0{text}" for text in segment.support)]
    return zlib.crc32("\n".join(content).encode())
