"""An event loop in a thread of its own, so that plain code can use one, also where another loop is running already, as
in a notebook.

Invariants: the loop goes on whatever its tasks raise, until it is closed or stopped; what a coroutine raises, be it
SystemExit, reaches whoever waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from quitmt.loops.faults import Carried, carried

log = logging.getLogger(__name__)

T = TypeVar("T")


class BackgroundLoop:
    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), daemon=True, name=name)
        self._thread.start()

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start it, and do not wait."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for its result. Whoever is interrupted while waiting (Ctrl-C) cancels it."""
        future = self.submit(carried(work))
        try:
            return future.result()
        except Carried as one:
            raise one.error from None
        except BaseException:
            future.cancel()
            raise

    def settle(self) -> None:
        """Cancel what is under way, and wait until it has ended."""
        self.submit(_settle()).result()

    def close(self) -> None:
        """Settle, and end the thread."""
        if self.closed:
            return
        try:
            self.settle()
        finally:
            self.stop()
            self._thread.join()

    def stop(self) -> None:
        """End the thread soon, and leave what is under way: may be called from any thread, also from its own."""
        with suppress(RuntimeError):  # it is closed already
            self._loop.call_soon_threadsafe(self._loop.stop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        try:
            loop.run_forever()
        except BaseException as error:  # a task's own SystemExit: its waiters are told when the loop goes on
            log.debug("something tried to end an event loop", exc_info=error)
        else:
            loop.close()
            return


async def _settle() -> None:
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
