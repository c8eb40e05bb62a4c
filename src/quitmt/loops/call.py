"""A blocking call from a coroutine, in a daemon thread.

It differs from ``asyncio.to_thread``: a cancelled coroutine abandons the call, and neither the loop nor the program
waits for it at the end; StopIteration arrives as an error (``to_thread`` would hang in Python 3.11); the number of
concurrent calls is unlimited.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from quitmt.loops.mailbox import Mailbox

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Return the function's result, or raise its exception."""
    answers = Mailbox[tuple[T] | BaseException]()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            answers.put((context.run(function, *arguments, **named),))
        except BaseException as error:
            answers.put(error)

    threading.Thread(target=work, name="quitmt-call", daemon=True).start()
    answer = await answers.get()
    if isinstance(answer, StopIteration):  # no coroutine can raise it
        raise RuntimeError("it raised StopIteration") from answer
    if isinstance(answer, BaseException):
        raise answer
    return answer[0]
