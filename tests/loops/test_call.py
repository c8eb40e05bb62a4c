"""Blocking calls in threads: everything arrives, and nobody has to wait."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from quitmt.loops.call import in_thread


def test_a_result_and_the_context_it_was_made_in() -> None:
    variable = contextvars.ContextVar[int]("variable")

    async def work() -> tuple[int, bool]:
        variable.set(5)
        here = threading.current_thread()
        return await in_thread(lambda more: (variable.get() + more, threading.current_thread() is here), 2)

    assert asyncio.run(work()) == (7, False)


@pytest.mark.parametrize("kind", [ValueError, SystemExit, GeneratorExit, StopIteration, asyncio.CancelledError])
def test_what_it_raises_arrives(kind: type[BaseException]) -> None:
    def fail() -> None:
        raise kind("stop")

    async def work() -> str:
        try:
            async with asyncio.timeout(60):
                await in_thread(fail)
        except BaseException as error:
            return f"{type(error).__name__}: {error}"
        return "nothing"

    shown = "RuntimeError: it raised StopIteration" if kind is StopIteration else f"{kind.__name__}: stop"
    assert asyncio.run(work()) == shown


def test_a_call_that_is_no_longer_wanted_is_left_behind() -> None:
    begun, release, done = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        release.wait(60)
        done.set()

    async def work() -> None:
        task = asyncio.create_task(in_thread(call))
        while not begun.is_set():
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())  # and the end of the loop does not wait for it either
    assert not done.is_set()
    release.set()
    assert done.wait(60)  # its answer to a loop that is closed disturbs nobody
