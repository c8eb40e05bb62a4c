"""Where a server is and how to knock: its address, the key, and the proxy between.

Invariant: the key is in ``headers`` and nowhere else; it is in no ``repr``, and ``redacted`` takes it out of whatever a
server may repeat.
"""

from __future__ import annotations

import json
import urllib.request
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from quitmt.errors import UsageError


class Address:
    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = _checked(url)
        self.headers = {"Content-Type": "application/json", **_authorization(key)}
        self.proxy = _proxy_for(self.url)
        self.has_key = bool(key)
        self._key = key

    def __repr__(self) -> str:
        return f"Address({self.url!r})"

    def redacted(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text

    def message_in(self, content: bytes) -> str:
        """What an error page says, on one line."""
        text = content[:5000].decode("utf-8", "replace")
        found: Any = "" if "<" in text else text
        with suppress(ValueError):
            found = json.loads(text)
        for name in ("error", "message", "detail"):
            found = found.get(name, found) if isinstance(found, dict) else found
        line = " ".join((found if isinstance(found, str) else json.dumps(found)).split())
        line = self.redacted(line)
        return line if len(line) <= 300 else line[:299] + "…"


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in url):
        raise UsageError(f"{url!r} is not the address of a server", hint="--base-url is like http://localhost:8000/v1")
    if parts.username is not None or parts.password is not None:
        raise UsageError("--base-url must not hold a user or password", hint="put the key into OPENAI_API_KEY")
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
