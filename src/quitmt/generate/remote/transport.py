"""The address of a server, and reading its answers without trusting them.

Invariants: only ``headers`` contains the key; no ``repr`` does, and ``redacted`` removes it from a server's messages.
Reading takes no more memory than its limit, compressed or not; bodies are decompressed here because aiohttp would
expand a few kilobytes into gigabytes."""

from __future__ import annotations

import json
import urllib.request
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from quitmt.errors import UsageError, setting

if TYPE_CHECKING:
    import aiohttp

CODINGS = "gzip, deflate"
"""Compressions that a server may use."""
ERROR_PAGE_BYTES = 2**16
"""How much of an error page is read."""


class Unusable(Exception):
    """The answer can't be used, but a retry may give a better one. The message completes the sentence "the answer
    …"."""


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The whole body; raises ``Unusable`` if it is too long or can't be decompressed."""
    body = _Body(response.headers.get("Content-Encoding", ""), limit)
    async for chunk in response.content.iter_any():
        body.add(chunk)
    return body.whole()


async def read_beginning(response: aiohttp.ClientResponse) -> bytes:
    """The readable beginning of an error page."""
    content = bytearray()
    try:
        body = _Body(response.headers.get("Content-Encoding", ""), ERROR_PAGE_BYTES)
        content = body.content
        async for chunk in response.content.iter_any():
            body.add(chunk)
    except Unusable:
        response.close()  # the rest stays unread
    return bytes(content)


def parsed(content: bytes) -> Any:
    """Parses untrusted JSON."""
    try:
        return json.loads(content)
    except RecursionError:
        raise Unusable("is nested too deeply") from None
    except ValueError:
        raise Unusable("is not JSON") from None


def without_halves(text: str) -> str:
    """Replaces unpaired surrogates, which cannot be encoded, by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class _Body:
    """The part of a body that has arrived."""

    def __init__(self, coding: str, limit: int) -> None:
        coding = coding.strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Unusable(f"is compressed in a way that was not requested ({without_halves(coding[:20])!r})")
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
            raise Unusable(f"is longer than the limit of {self._limit:,} bytes")

    def whole(self) -> bytes:
        if self._packed and self._came and not self._unpacker.eof:
            raise Unusable("breaks off")
        return bytes(self.content)

    def _unpack(self, chunk: bytes) -> None:
        try:
            while chunk and len(self.content) <= self._limit:
                if self._unpacker.eof:  # a body may hold several compressed members
                    self._unpacker = _unpacker()
                self.content += self._unpacker.decompress(chunk, self._limit + 1 - len(self.content))
                chunk = self._unpacker.unused_data if self._unpacker.eof else self._unpacker.unconsumed_tail
        except zlib.error:
            raise Unusable("cannot be decompressed") from None


def _unpacker() -> zlib._Decompress:
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib, detected by the header


_LIKE = "it looks like http://localhost:8000/v1"


class Address:
    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = _checked(url)
        self.headers = {"Content-Type": "application/json", "Accept-Encoding": CODINGS, **_authorization(key)}
        self.proxy = _proxy_for(self.url)
        self.has_key = bool(key)
        self._key = key

    def __repr__(self) -> str:
        return f"Address({self.url!r})"

    def redacted(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text

    def message_in(self, content: bytes) -> str:
        """The message of an error page, on one line that can be encoded."""
        text = content[:5000].decode("utf-8", "replace")
        found: Any = "" if "<" in text else text
        try:
            found = parsed(text.encode())
            for name in ("error", "message", "detail"):
                found = found.get(name, found) if isinstance(found, dict) else found
            said = found if isinstance(found, str) else json.dumps(found)
        except (Unusable, ValueError):  # json reads some numbers that it can't write
            said = found if isinstance(found, str) else ""
        line = self.redacted(without_halves(" ".join(said.split())))
        return line if len(line) <= 300 else line[:299] + "…"


def _checked(url: str) -> str:
    """The address, checked. Error messages omit its query and password, which may be secrets."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:
        usable = False
    if usable and (parts.username is not None or parts.password is not None):
        raise UsageError(
            f"{setting('model.options.base_url')} must not hold a user or password",
            hint="put the key into OPENAI_API_KEY",
        )
    if usable and (parts.query or parts.fragment or url.endswith(("?", "#"))):
        hint = f"{_LIKE}; put the key into OPENAI_API_KEY"
        raise UsageError(f"{setting('model.options.base_url')} must end before any ? or #", hint=hint)
    if not usable or not url.isprintable() or any(character.isspace() for character in url):
        shown = without_halves(url.split("?")[0].split("#")[0].rpartition("@")[2])
        raise UsageError(f"{setting('model.options.base_url')} {shown!r} is not a server's address", hint=_LIKE)
    return url.rstrip("/")


def _authorization(key: str | None) -> dict[str, str]:
    if not key:
        return {}
    if not (key.isascii() and key.isprintable()):
        raise UsageError("the key in OPENAI_API_KEY has an invalid character", hint="set it again")
    return {"Authorization": f"Bearer {key}"}


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for an address. The lookup takes longer than a request, so do it once."""
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)
