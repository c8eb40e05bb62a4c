"""Waiting for async functions from plain code that runs in a thread, as metrics do."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Sequence
from typing import Any


class Awaiting:
    """One event loop for all calls, because what async functions keep between them (a session, a semaphore) belongs to
    a loop. It runs in the thread of whoever waits, one at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._turn = threading.Lock()
        # Not asyncio.Runner, whose close runs the loop: this may come while the same thread runs another one.
        weakref.finalize(self, self._loop.close)

    def all(self, things: Sequence[Any]) -> list[Any]:
        """The results of what can be awaited, all at once, and the others as they are, in order."""
        with self._turn:
            return self._loop.run_until_complete(_gather([_result(thing) for thing in things]))


async def _gather(coroutines: Sequence[Awaitable[Any]]) -> list[Any]:
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    finally:  # one failed: the others must not go on in the next call
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _result(thing: Any) -> Any:
    return await thing if isinstance(thing, Awaitable) else thing
