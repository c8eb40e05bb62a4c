"""Files beside the input, with a line for each of its segments: translations of the user's, or texts of support."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Self

from quitmt.errors import InputError, UsageError, setting
from quitmt.files.lines import read_lines
from quitmt.plan.recipe import Recipe
from quitmt.rerank.anchors import TEXTS


def add_support(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--support-from", action="append", default=[], metavar="FILE",
        help="with mbr: texts that judge the candidates in place of the samples, and are none, a line each; may be "
        "repeated",
    )  # fmt: skip


def with_support(recipe: Recipe, files: Sequence[str]) -> Recipe:
    """Who gives texts of support wants candidates to be judged by them."""
    support = recipe.rerank.support
    if files and support not in (None, TEXTS):
        hint = "the texts judge in place of the samples"
        raise UsageError(f"--support-from and {setting('rerank.support', support)} do not go together", hint=hint)
    return recipe.changed({"rerank.support": TEXTS}) if files else recipe


class LinesBeside:
    """What such files have for each segment; a blank line is nothing."""

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
        """Of segment ``number``, counted from 1; asked for one after the other."""
        found = [await self._line(path, lines, number) for path, lines in zip(self._paths, self._files, strict=True)]
        return tuple(line for line in found if line.strip())

    async def end(self, count: int) -> None:
        """There are ``count`` segments: more lines are a file for something else."""
        for path, lines in zip(self._paths, self._files, strict=True):
            if await anext(lines, None) is not None:
                raise InputError(f"{path} has more than {count} lines, more than {self._of}", hint="a line for each")

    async def _line(self, path: str, lines: AsyncIterator[str], number: int) -> str:
        found = await anext(lines, None)
        if found is None:
            few = f"{'at most ' if self._skipped == number - 1 > 0 else ''}{number - 1} lines"
            raise InputError(f"{path} has {few}, fewer than {self._of}", hint="a line for each, blank or not")
        return found
