"""Reading the body of an answer without trusting it: no more memory than its limit, packed or unpacked.

Compressed bodies are unpacked here and not by aiohttp, which would unpack a few kilobytes into gigabytes.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import aiohttp

CODINGS = "gzip, deflate"
"""What a server may compress an answer with."""
ERROR_PAGE_BYTES = 2**16
"""As much as is read of an answer that says what went wrong; the rest is left unread."""


class Unusable(Exception):
    """Raised by a reader of answers: this one is no good, but another one may be. Says what "the answer" is or has."""


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """All of it; too much, or what cannot be unpacked, is ``Unusable``."""
    body = _Body(response.headers.get("Content-Encoding", ""), limit)
    async for chunk in response.content.iter_any():
        body.add(chunk)
    return body.whole()


async def read_beginning(response: aiohttp.ClientResponse) -> bytes:
    """Of an error page, as far as it can be read."""
    content = bytearray()
    try:
        body = _Body(response.headers.get("Content-Encoding", ""), ERROR_PAGE_BYTES)
        content = body.content
        async for chunk in response.content.iter_any():
            body.add(chunk)
    except Unusable:
        response.close()  # nobody will read the rest
    return bytes(content)


def parsed(content: bytes) -> Any:
    """JSON, whoever wrote it."""
    try:
        return json.loads(content)
    except RecursionError:
        raise Unusable("is nested too deeply") from None
    except ValueError:
        raise Unusable("is not JSON") from None


def without_halves(text: str) -> str:
    """The text with a mark (U+FFFD) in place of half surrogate pairs, which cannot be written anywhere."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class _Body:
    """What has come of a body."""

    def __init__(self, coding: str, limit: int) -> None:
        coding = coding.strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Unusable(f"is compressed in a way that was not asked for ({without_halves(coding[:20])!r})")
        self._packed = coding not in ("", "identity")
        self._unpacker = _unpacker()
        self._limit = limit
        self._came = 0
        self.content = bytearray()

    def add(self, chunk: bytes) -> None:
        self._came += len(chunk)
        if self._packed:
            self._unpack(chunk)
        else:
            self.content += chunk[: self._limit + 1 - len(self.content)]
        if max(self._came, len(self.content)) > self._limit:
            raise Unusable(f"is longer than {self._limit:,} bytes, more than what was asked for can take")

    def whole(self) -> bytes:
        if self._packed and self._came and not self._unpacker.eof:
            raise Unusable("breaks off")
        return bytes(self.content)

    def _unpack(self, chunk: bytes) -> None:
        try:
            while chunk and len(self.content) <= self._limit:
                if self._unpacker.eof:  # there may be several, one after the other
                    self._unpacker = _unpacker()
                self.content += self._unpacker.decompress(chunk, self._limit + 1 - len(self.content))
                chunk = self._unpacker.unused_data if self._unpacker.eof else self._unpacker.unconsumed_tail
        except zlib.error:
            raise Unusable("cannot be unpacked") from None


def _unpacker() -> zlib._Decompress:
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib, by what it begins with
