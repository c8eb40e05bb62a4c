"""The address of a server, and reading its answers without trusting them.

Invariants: the key is in ``headers`` and nowhere else: not in any ``repr``, and ``redacted`` removes it from whatever a
server repeats. Reading takes no more memory than its limit, compressed or not; bodies are decompressed here because
aiohttp would expand a few kilobytes into gigabytes.
"""

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


_LIKE = "it is like http://localhost:8000/v1"


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
        """What an error page says, on one line that can be written anywhere."""
        text = content[:5000].decode("utf-8", "replace")
        found: Any = "" if "<" in text else text
        try:
            found = parsed(text.encode())
            for name in ("error", "message", "detail"):
                found = found.get(name, found) if isinstance(found, dict) else found
            said = found if isinstance(found, str) else json.dumps(found)
        except (Unusable, ValueError):  # json can read numbers that it cannot write
            said = found if isinstance(found, str) else ""
        line = self.redacted(without_halves(" ".join(said.split())))
        return line if len(line) <= 300 else line[:299] + "…"


def _checked(url: str) -> str:
    """The address, if it is one. What is wrong is said without its query and password, which may be secrets."""
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
        raise UsageError(f"{setting('model.options.base_url')} {shown!r} is not the address of a server", hint=_LIKE)
    return url.rstrip("/")


def _authorization(key: str | None) -> dict[str, str]:
    if not key:
        return {}
    if not (key.isascii() and key.isprintable()):
        raise UsageError("the key in OPENAI_API_KEY has a character that no key has", hint="set it again")
    return {"Authorization": f"Bearer {key}"}


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for an address; found out once, for it takes longer than a request does."""
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)
