"""Exceptions of user code: functions, metrics and rules that quitmt calls and didn't write.

``FAULTS`` fail only the segment for which the code was called. KeyboardInterrupt ends the run and reaches the caller.
An event loop treats some of these specially: a task that raises SystemExit or KeyboardInterrupt ends the whole loop,
and CancelledError may be a real cancellation. ``carried`` and ``is_cancellation`` deal with that. ``blamed`` describes
an exception in one sentence, with the line of the user's code.
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
    """Carries an exception that would end an event loop out of that loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def is_cancellation(error: BaseException) -> bool:
    """Whether the current task is being cancelled, rather than its code raising CancelledError by itself."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


async def carried(work: Awaitable[T]) -> T:
    """Makes an awaitable safe to run as a task: exceptions that would end the loop are raised as ``Carried``."""
    try:
        return await work
    except Exception:
        raise
    except BaseException as error:
        if is_cancellation(error):
            raise
        raise Carried(error) from error


def started(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Starts ``carried`` as a task. A task cancelled before its first step never awaits the coroutine, so the coroutine
    is closed to avoid Python's warning."""
    task = asyncio.create_task(carried(work))
    task.add_done_callback(lambda _: work.close())
    return task


def blamed(kind: type[Kind], doing: str, error: BaseException) -> Kind:
    """The error for an exception of user code: ``segment 3: scoring failed: KeyError: 'a' (mine.py, line 7)``."""
    log.debug("%s", doing, exc_info=error)
    name, place = type(error).__name__, place_of(error)
    message = f"{doing}: {name}: {error}".removesuffix(": ")
    blame = kind(f"{message} ({place})" if place else message)
    blame.fault = f"{name} ({place})" if place else name
    return blame


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def place_of(error: BaseException) -> str | None:
    """The innermost line of the traceback in user code, that is, neither in quitmt nor in a library."""
    places = [
        f"{Path(frame.f_code.co_filename).name}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_users(frame.f_code.co_filename)
    ]
    return places[-1] if places else None


@cache
def _is_users(path: str) -> bool:
    file = Path(path)
    libraries = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return file.is_file() and not ({*libraries, Path(__file__).parents[1]} & set(file.resolve().parents))
