"""A queue from any thread to the event loop that created it."""

from __future__ import annotations

import asyncio
import logging
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    """Belongs to the event loop in which it was created."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item] = asyncio.Queue()

    def put(self, item: Item) -> None:
        """Put an item from any thread. If the loop is closed already, the item is dropped."""
        try:
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)
        except RuntimeError:
            log.debug("something arrived after its event loop was closed")

    async def get(self) -> Item:
        return await self._items.get()
