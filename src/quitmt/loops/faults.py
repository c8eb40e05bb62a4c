"""What code of others raises: functions, metrics and rules that quitmt calls and did not write.

``FAULTS`` cost the segment that the code was called for, and nothing else. KeyboardInterrupt ends the run and reaches
the caller. An event loop has its own meaning for some of these: a task that raises SystemExit or KeyboardInterrupt ends
the whole loop, and CancelledError may also be a real cancellation. ``carried`` and ``is_cancellation`` are for that.
``blamed`` makes one sentence of what was raised, with the line of the user's own code.
"""

from __future__ import annotations

import asyncio
import logging
import sysconfig
import traceback
from collections.abc import Awaitable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from quitmt.errors import QuitmtError

log = logging.getLogger(__name__)

T = TypeVar("T")
Kind = TypeVar("Kind", bound=QuitmtError)

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


def blamed(kind: type[Kind], doing: str, error: BaseException) -> Kind:
    """The error for what code of others raised: ``segment 3: scoring failed: KeyError: 'a' (mine.py, line 7)``."""
    log.debug("%s", doing, exc_info=error)
    name, place = type(error).__name__, place_of(error)
    told = f"{doing}: {name}: {error}".removesuffix(": ")
    found = kind(f"{told} ({place})" if place else told)
    found.fault = f"{name} ({place})" if place else name
    return found


def place_of(error: BaseException) -> str | None:
    """The innermost line that it came through of a file that is neither ours nor a library's."""
    own = [
        f"{Path(frame.f_code.co_filename).name}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_users(frame.f_code.co_filename)
    ]
    return own[-1] if own else None


@cache
def _is_users(path: str) -> bool:
    file = Path(path)
    libraries = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return file.is_file() and not ({*libraries, Path(__file__).parents[1]} & set(file.resolve().parents))
