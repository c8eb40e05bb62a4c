"""``translate --shard 3/8``: one of several contiguous parts of a file, for machines that share nothing but files.

Lines keep the numbers, and with them the candidates, that they have in the whole, so the outputs of all parts, put
together in order, are the output of the whole.

    >>> [Shard.of(9, number, 4).lines for number in (1, 2, 3, 4)]
    [range(0, 2), range(2, 4), range(4, 6), range(6, 9)]
"""

from __future__ import annotations

import argparse
import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from quitmt.errors import UsageError
from quitmt.files.lines import STDIN, count_lines, name_of, read_lines

_FORM = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Shard:
    """Which lines of an input, counted from 0, are translated."""

    lines: range
    name: str = ""

    @classmethod
    def of(cls, lines: int, number: int, count: int) -> Self:
        """As even as can be: no part has more than one line more than another."""
        found = range((number - 1) * lines // count, number * lines // count)
        told = f"lines {found.start + 1} to {found.stop}" if found else "no line"
        return cls(found, f"{number}/{count}, {told}")

    def skipped(self, context: int) -> int:
        """Lines at the beginning that need not be looked at: a line sees at most ``context`` lines before it."""
        return max(0, self.lines.start - context)

    @property
    def settings(self) -> dict[str, str]:
        """For the journal: another part, or the same of a file that has grown, is another run."""
        return {"--shard": self.name} if self.name else {}


WHOLE = Shard(range(2**62))


def parse(text: str) -> tuple[int, int]:
    """For the command line: ``3/8``."""
    found = _FORM.fullmatch(text)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise argparse.ArgumentTypeError(f"{text!r} is no part of a whole, such as 1/8, 2/8, … 8/8")
    return number, count


def part_of(path: str, shard: tuple[int, int] | None) -> Shard:
    if shard is None:
        return WHOLE
    if path == STDIN or (Path(path).exists() and not Path(path).is_file()):
        raise UsageError(
            f"--shard needs a file: how many lines there are in {name_of(path)} is not known before its end",
            hint="name a file, plain or gzip",
        )
    return Shard.of(_length(path), *shard)


def _length(path: str) -> int:
    async def read() -> int:
        count = 0
        async for _ in read_lines(path):
            count += 1
        return count

    known = count_lines(path)  # a gzip file is only known when it was unpacked
    return asyncio.run(read()) if known is None else known
