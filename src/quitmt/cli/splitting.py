"""``translate --split``: the sentences of a line are translated one by one, and put back together as one line."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

from quitmt.cli.shard import WHOLE, Shard
from quitmt.engine.driver import Item
from quitmt.engine.items import Context, item
from quitmt.files.lines import read_lines
from quitmt.passages import Passage, split
from quitmt.types import Finished, Segment, StopReason


@dataclass(slots=True)
class Lines:
    """The lines under way. Their sentences come back in the order in which they went out."""

    source: str | None
    target: str | None
    _passages: deque[tuple[Passage, int]] = field(default_factory=deque)
    """With how many results each waits for."""
    _found: list[Finished] = field(default_factory=list)

    async def items(
        self, path: str, signature: str, context: int, part: Shard = WHOLE
    ) -> AsyncIterator[tuple[Item, int]]:
        """As ``quitmt.cli.translate.items``. A line without sentences is one result, of which nothing is used."""
        number, before = part.skipped(context), Context(context)
        async with aclosing(read_lines(path, number)) as lines:
            async for line in lines:
                if number >= part.lines.stop:
                    break
                number += 1
                passage = split(line, self.source, first=number)
                found = [Segment(one.id or "", one.text) for one in passage.sentences] or [Segment(str(number), "")]
                sentences = [(item(number, one, signature, before), zlib.crc32(one.source.encode())) for one in found]
                if number > part.lines.start:
                    self._passages.append((passage, len(sentences)))
                    for sentence in sentences:
                        yield sentence

    def add(self, finished: Finished) -> str | None:
        """The line that is complete with it, if one is: blank if a sentence of it failed."""
        passage, count = self._passages[0]
        self._found.append(finished)
        if len(self._found) < count:
            return None
        outcomes = [one.outcome for one in self._found]
        self._passages.popleft()
        self._found = []
        if any(outcome.stop is StopReason.FAILED for outcome in outcomes):
            return ""
        return passage.joined([outcome.translation for outcome in outcomes][: len(passage.sentences)], self.target)
