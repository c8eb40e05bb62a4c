"""From async to plain iteration.

The loop runs in a thread of its own, so this works inside a running loop too, such as a notebook's.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TypeVar

T = TypeVar("T")


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True, name="quitmt-loop")
    thread.start()
    try:
        while True:
            try:
                yield asyncio.run_coroutine_threadsafe(_next(items), loop).result()
            except StopAsyncIteration:
                return
    finally:
        asyncio.run_coroutine_threadsafe(_close(items), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _close(items: AsyncIterator[T]) -> None:
    if hasattr(items, "aclose"):
        await items.aclose()
    await asyncio.get_running_loop().shutdown_default_executor()
