"""From a thread to an event loop: what any thread puts in, the coroutine that made the mailbox takes out."""

from __future__ import annotations

import asyncio
import logging
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    """Belongs to the loop it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item] = asyncio.Queue()

    def put(self, item: Item) -> None:
        """May be called from any thread, also when the loop is gone: then nobody wants the item."""
        try:
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)
        except RuntimeError:
            log.debug("something arrived after its event loop was closed")

    async def get(self) -> Item:
        return await self._items.get()
