"""Functions as models for jobs."""

from __future__ import annotations

import asyncio
import os
import zlib
from pathlib import Path

WORDS = "o a um gato casa rua velha nova viu comeu dormiu perto".split()


def words(source: str, start: int, stop: int) -> list[str]:
    """Makes texts that depend only on the source and the index."""
    return [_text(source, index) for index in range(start, stop)]


def _text(source: str, index: int) -> str:
    seed = zlib.crc32(f"{source}\0{index}".encode())
    return " ".join(WORDS[(seed >> shift) % len(WORDS)] for shift in (0, 4, 8, 12, 16))


def fussy(source: str, start: int, stop: int) -> list[str]:
    """Fails for some sources until the file MENDED exists."""
    if "bad" in source and not Path(os.environ.get("MENDED", "/nowhere")).exists():
        raise RuntimeError("cannot say that")
    return words(source, start, stop)


second_failed = asyncio.Event()


async def failing(source: str, start: int, stop: int) -> list[str]:
    """Fails for two sources; "first" fails only after "second"."""
    if source == "first":
        await second_failed.wait()
    elif source == "second":
        second_failed.set()
    else:
        return words(source, start, stop)
    raise RuntimeError(f"no word for {source}")


_calls = 0


def wearing(source: str, start: int, stop: int) -> list[str]:
    """Works for some calls, then always fails in this process."""
    global _calls
    _calls += 1
    if _calls > int(os.environ.get("WORN_AFTER", "20")):
        raise RuntimeError("worn out")
    return words(source, start, stop)


def deadly(source: str, start: int, stop: int) -> list[str]:
    """Ends the process on one row."""
    if "17" in source:
        os._exit(3)
    return words(source, start, stop)


def keyed(source: str, start: int, stop: int) -> list[str]:
    """Returns an environment variable of the worker."""
    return [os.environ.get("OPENAI_API_KEY", "none")] * (stop - start)
