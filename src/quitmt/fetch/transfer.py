"""Reading from a server that is not trusted: no more bytes than it was asked for, and no more time than these take.

Invariants: whoever reads through ``chunks`` gets at most ``most`` bytes; reading ends within ``PATIENCE_SECONDS`` and
the time that so many bytes take at ``SLOWEST`` bytes per second, however the server spreads them.
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
"""Without gzip the storage may unpack files on the way, and then parts of them cannot be asked for."""
TIMEOUT_SECONDS = 30.0
"""Without a single byte."""
PATIENCE_SECONDS = 60.0
"""Until a server has answered, and that a transfer may be behind."""
SLOWEST = 8192
"""Bytes per second."""
CHUNK_BYTES = 1 << 16

Clock = Callable[[], float]


class TooMuch(Exception):
    """A server sends more than a file can have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it has more than {most:,} bytes")


class TooSlow(TimeoutError):
    """A server sends so little that a file would not come to its end."""

    def __init__(self) -> None:
        super().__init__(f"the server sends fewer than {SLOWEST:,} bytes per second")


class Allowance:
    """The time that a transfer may take, with its retries."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock, self._began, self._arrived = clock, clock(), 0

    def add(self, count: int) -> None:
        """Some bytes arrived."""
        self._arrived += count
        if self._clock() - self._began > PATIENCE_SECONDS + self._arrived / SLOWEST:
            raise TooSlow


def opened(url: str, more: dict[str, str] | None = None) -> Any:
    """A server's answer, once its headers are here.

    A timeout of the socket is for each byte, and there may be many: so a thread opens it, and is left alone if the
    server takes too long.
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
    """What comes of an answer, as it comes."""
    arrived = 0
    while chunk := response.read1(CHUNK_BYTES):  # what is there, without waiting for more
        arrived += len(chunk)
        if arrived > most:
            raise TooMuch(most)
        yield bytes(chunk)
        allowance.add(len(chunk))


def reason(error: Exception) -> str:
    """Why something could not be had, in a few words."""
    if isinstance(error, HTTPError):
        return f"HTTP {error.code} {error.reason}"
    cause = error.reason if isinstance(error, URLError) else error
    told = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return " ".join(str(told).split())
