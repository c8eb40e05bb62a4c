"""An event loop in its own thread, for plain code, even where another loop is running already, as in notebooks.

Invariants: the loop continues until it is closed or stopped, whatever its tasks raise; any exception of a coroutine,
even SystemExit, reaches the caller that waits for it.
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
        """Start a coroutine without waiting."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for its result. Interrupting the wait (Ctrl-C) cancels the coroutine."""
        future = self.submit(carried(work))
        try:
            return future.result()
        except Carried as one:
            raise one.error from None
        except BaseException:
            future.cancel()
            raise

    def settle(self) -> None:
        """Cancel all tasks and wait until they have ended."""
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
        """End the thread soon and abandon its tasks. Can be called from any thread, including this one."""
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._loop.stop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        try:
            loop.run_forever()
        except BaseException as error:  # a task raised SystemExit; its waiters receive it once the loop continues
            log.debug("a task tried to end its event loop", exc_info=error)
        else:
            loop.close()
            return


async def _settle() -> None:
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
