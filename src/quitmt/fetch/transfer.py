"""Reads from untrusted servers with limits on size and time.

Invariants: ``chunks`` yields at most ``most`` bytes; reading ends within ``PATIENCE_SECONDS`` plus the time that the
bytes take at ``SLOWEST`` bytes per second, however the server spreads them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from quitmt._version import __version__

HEADERS = {"User-Agent": f"quitmt/{__version__}", "Accept-Encoding": "gzip"}
"""Without gzip the storage may decompress files in transit, and then ranges can't be requested."""
TIMEOUT_SECONDS = 30.0
"""Timeout without a single byte."""
PATIENCE_SECONDS = 60.0
"""Timeout for the first answer, and the delay that a transfer may accumulate."""
SLOWEST = 8192
"""Minimum bytes per second."""
CHUNK_BYTES = 1 << 16

Clock = Callable[[], float]


class TooMuch(Exception):
    """A server sends more than the file's limit."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it has more than {most:,} bytes")


class TooSlow(TimeoutError):
    """A server sends too slowly."""

    def __init__(self) -> None:
        super().__init__(f"the server sends fewer than {SLOWEST:,} bytes per second")


class Allowance:
    """The time limit of a transfer, including retries."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock, self._began, self._arrived = clock, clock(), 0

    def add(self, count: int) -> None:
        """Note that some bytes arrived; raise if the transfer is too slow."""
        self._arrived += count
        if self._clock() - self._began > PATIENCE_SECONDS + self._arrived / SLOWEST:
            raise TooSlow


def opened(url: str, more: dict[str, str] | None = None) -> Any:
    """A server's answer, once its headers have arrived.

    A socket's timeout applies to each byte, and headers may have many. So a thread waits for the headers, and is
    abandoned if the server takes too long.
    """
    answer: SimpleQueue[Any] = SimpleQueue()

    def ask() -> None:
        try:
            answer.put(urlopen(Request(url, headers=HEADERS | (more or {})), timeout=TIMEOUT_SECONDS))
        except Exception as error:
            answer.put(error)

    threading.Thread(target=ask, name="quitmt-fetch", daemon=True).start()
    try:
        found = answer.get(timeout=PATIENCE_SECONDS)
    except Empty:
        raise TimeoutError(f"no answer within {PATIENCE_SECONDS:g} seconds") from None
    if isinstance(found, Exception):
        raise found
    return found


def chunks(response: Any, allowance: Allowance, most: int) -> Iterator[bytes]:
    """The chunks of an answer as they arrive."""
    arrived = 0
    while chunk := response.read1(CHUNK_BYTES):  # the available bytes, without waiting for more
        arrived += len(chunk)
        if arrived > most:
            raise TooMuch(most)
        yield bytes(chunk)
        allowance.add(len(chunk))


def reason(error: Exception) -> str:
    """A short description of an error."""
    if isinstance(error, HTTPError):
        return f"HTTP {error.code} {error.reason}"
    cause = error.reason if isinstance(error, URLError) else error
    text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return " ".join(str(text).split())
