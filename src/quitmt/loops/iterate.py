"""Plain iteration over an async iterator, which runs in a background event loop."""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TypeVar

from quitmt.loops.background import BackgroundLoop

T = TypeVar("T")


_open: set[Callable[[], None]] = set()
"""Functions that end the iterations under way."""


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    loop = BackgroundLoop("quitmt-loop")
    end = partial(_end, items, loop)
    _open.add(end)
    try:
        while True:
            try:
                item = loop.run(_next(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        if end in _open:
            _open.discard(end)
            end()


@atexit.register
def _end_all() -> None:
    """Ends open iterators at exit, because their threads would no longer answer when the iterators are finalised."""
    while _open:
        _open.pop()()


def _end(items: AsyncIterator[T], loop: BackgroundLoop) -> None:
    """End a step under way (after Ctrl-C, for example), then the iterator."""
    try:
        loop.settle()
        loop.run(_close(items))
    finally:
        loop.close()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _close(items: AsyncIterator[T]) -> None:
    if hasattr(items, "aclose"):
        await items.aclose()
