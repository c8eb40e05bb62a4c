"""Waiting for async functions from plain code that runs in a thread, as metrics do."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Sequence
from typing import Any

from quitmt.loops.background import BackgroundLoop
from quitmt.loops.faults import Carried, started


class Awaiting:
    """One event loop for all calls, because what async functions keep between them (a session, a semaphore) belongs to
    a loop."""

    def __init__(self) -> None:
        self._loop = BackgroundLoop("quitmt-awaiting")
        weakref.finalize(self, self._loop.stop)

    def all(self, things: Sequence[Any]) -> list[Any]:
        """The results of what can be awaited, all at once, and the others as they are, in order."""
        return self._loop.run(_gather(things))


async def _gather(things: Sequence[Any]) -> list[Any]:
    tasks = [started(_result(thing)) for thing in things]
    try:
        return list(await asyncio.gather(*tasks))
    except Carried as one:
        raise one.error from None
    finally:  # one failed: the others must not go on in the next call
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _result(thing: Any) -> Any:
    return await thing if isinstance(thing, Awaitable) else thing
