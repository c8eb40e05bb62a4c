"""A blocking call from a coroutine, in a thread that nobody has to wait for.

Unlike ``asyncio.to_thread``: a coroutine that is cancelled leaves the call behind, and neither the end of the loop nor
that of the program waits for it; StopIteration arrives (in Python 3.11 it would be waited for for ever). As many calls
run at a time as there are callers.
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
    """Its result, or what it raises."""
    answers = Mailbox[tuple[T] | BaseException]()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            answers.put((context.run(function, *arguments, **named),))
        except BaseException as error:
            answers.put(error)

    threading.Thread(target=work, name="quitmt-call", daemon=True).start()
    found = await answers.get()
    if isinstance(found, StopIteration):  # no coroutine can raise it
        raise RuntimeError("it raised StopIteration") from found
    if isinstance(found, BaseException):
        raise found
    return found[0]
