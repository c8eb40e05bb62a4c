"""What code of others raises: functions, metrics and rules that quitmt calls and did not write.

``FAULTS`` cost the segment that the code was called for, and nothing else. KeyboardInterrupt ends the run and reaches
the caller. An event loop has its own meaning for some of these: a task that raises SystemExit or KeyboardInterrupt ends
the whole loop, and CancelledError may also be a real cancellation. ``carried`` and ``is_cancellation`` are for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

FAULTS: tuple[type[BaseException], ...] = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)


class Carried(Exception):
    """Holds what would end an event loop, until it is out of it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def is_cancellation(error: BaseException) -> bool:
    """Whether the present task is being cancelled, and its code has not just raised a CancelledError of its own."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


async def carried(work: Awaitable[T]) -> T:
    """What may be run as a task: everything but Exceptions and real cancellations comes out as ``Carried``."""
    try:
        return await work
    except Exception:
        raise
    except BaseException as error:
        if is_cancellation(error):
            raise
        raise Carried(error) from error


def started(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """``carried`` as a task. One that is cancelled before its first step never comes to the work, which Python would
    complain about: it is closed."""
    task = asyncio.create_task(carried(work))
    task.add_done_callback(lambda _: work.close())
    return task
