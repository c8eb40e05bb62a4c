"""From async to plain iteration.

The loop runs in a thread of its own, so this works inside a running loop too, such as a notebook's.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TypeVar

T = TypeVar("T")


_open: set[Callable[[], None]] = set()
"""What ends the iterations that are under way."""


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True, name="quitmt-loop")
    thread.start()
    end = partial(_end, items, loop, thread)
    _open.add(end)
    try:
        while True:
            try:
                item = asyncio.run_coroutine_threadsafe(_next(items), loop).result()
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


def _end(items: AsyncIterator[T], loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    try:
        asyncio.run_coroutine_threadsafe(_close(items), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _close(items: AsyncIterator[T]) -> None:
    """End what is under way (somebody pressed Ctrl-C while waiting for it), then the iterator itself."""
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    if hasattr(items, "aclose"):
        await items.aclose()
    await asyncio.get_running_loop().shutdown_default_executor()
