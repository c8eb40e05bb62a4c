"""Lets plain code in a thread, such as metrics, wait for async functions."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Sequence
from typing import Any

from quitmt.loops.background import BackgroundLoop
from quitmt.loops.faults import Carried, started


class Awaiting:
    """Runs all calls in one event loop, because objects that async functions keep between calls (sessions, semaphores)
    belong to a loop."""

    def __init__(self) -> None:
        self._loop = BackgroundLoop("quitmt-awaiting")
        weakref.finalize(self, self._loop.stop)

    def all(self, things: Sequence[Any]) -> list[Any]:
        """Await all awaitables concurrently; return the results and the other things unchanged, in order."""
        return self._loop.run(_gather(things))


async def _gather(things: Sequence[Any]) -> list[Any]:
    tasks = [started(_result(thing)) for thing in things]
    try:
        return list(await asyncio.gather(*tasks))
    except Carried as one:
        raise one.error from None
    finally:  # if one failed, the others must not continue during the next call
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _result(thing: Any) -> Any:
    return await thing if isinstance(thing, Awaitable) else thing
