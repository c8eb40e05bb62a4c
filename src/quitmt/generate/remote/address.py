"""Where a server is and how to knock: its address, the key, and the proxy between.

Invariant: the key is in ``headers`` and nowhere else; it is in no ``repr``, and ``redacted`` takes it out of whatever a
server may repeat.
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from quitmt.errors import UsageError, setting
from quitmt.generate.remote.reading import CODINGS, Unusable, parsed, without_halves

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
