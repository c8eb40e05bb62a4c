"""Models for benchmarks/batch.py, by module:attribute: they depend on the source and the index alone."""

from __future__ import annotations

import asyncio
import os
import zlib

WORDS = "o a um gato casa rua velha nova viu comeu dormiu perto".split()


def _text(source: str, index: int) -> str:
    seed = zlib.crc32(f"{source}\0{index}".encode())
    return " ".join(WORDS[(seed >> shift) % len(WORDS)] for shift in (0, 4, 8, 12, 16))


async def quick(source: str, start: int, stop: int) -> list[str]:
    return [_text(source, index) for index in range(start, stop)]


async def slow(source: str, start: int, stop: int) -> list[str]:
    """Waits as for a server, so that there is time to kill."""
    await asyncio.sleep(0.05)
    return [_text(source, index) for index in range(start, stop)]


async def asleep(source: str, start: int, stop: int) -> list[str]:
    await asyncio.sleep(float(os.environ["ASLEEP_SECONDS"]))
    return [_text(source, index) for index in range(start, stop)]
