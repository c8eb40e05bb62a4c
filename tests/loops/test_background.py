"""Event loops in the background: they outlive what their tasks raise, and leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from quitmt.loops.background import BackgroundLoop
from quitmt.loops.waiting import Awaiting

KINDS = (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)


async def give(value: int) -> int:
    return value


async def fail(kind: type[BaseException]) -> int:
    raise kind("stop")


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_coroutine_raises_reaches_whoever_waits_and_the_loop_goes_on(kind: type[BaseException]) -> None:
    loop = BackgroundLoop("test")
    with pytest.raises(kind):
        loop.run(fail(kind))
    assert loop.run(give(3)) == 3
    loop.close()
    assert loop.closed


def test_a_task_of_a_task_cannot_end_the_loop() -> None:
    async def parent() -> str:
        child = asyncio.create_task(fail(SystemExit))
        try:
            await child
        except SystemExit:
            return "told"
        return "not told"

    loop = BackgroundLoop("test")
    assert loop.submit(parent()).result(timeout=60) == "told"
    loop.close()


def test_closing_cancels_what_is_under_way() -> None:
    loop, ended = BackgroundLoop("test"), threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    future = loop.submit(wait())
    loop.run(give(0))  # it has begun
    loop.close()
    loop.close()
    assert ended.is_set() and future.cancelled()


@pytest.mark.parametrize("kind", KINDS)
def test_waiting_for_async_functions_that_raise(kind: type[BaseException]) -> None:
    awaiting, ended = Awaiting(), list[str]()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    with pytest.raises(kind):
        awaiting.all([slow(), fail(kind)])
    assert ended == ["slow"]
    assert awaiting.all([give(1), 2, give(3)]) == [1, 2, 3]


def test_whoever_waits_no_more_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    awaiting = Awaiting()
    assert awaiting.all([give(1)]) == [1]
    [thread] = set(threading.enumerate()) - before
    del awaiting
    gc.collect()
    thread.join(timeout=60)
    assert not thread.is_alive()
