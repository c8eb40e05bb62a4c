"""From async to plain iteration, by an event loop in the background."""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TypeVar

from quitmt.loops.background import BackgroundLoop

T = TypeVar("T")


_open: set[Callable[[], None]] = set()
"""What ends the iterations that are under way."""


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
    """Programs end with iterators open. Later, when those are finalised, their threads would no longer answer."""
    while _open:
        _open.pop()()


def _end(items: AsyncIterator[T], loop: BackgroundLoop) -> None:
    """End what is under way (somebody pressed Ctrl-C while waiting for it), then the iterator itself."""
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
