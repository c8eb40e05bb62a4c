"""Keys of clients. They are compared in constant time, as digests, and appear in no log and no answer."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from quitmt.errors import InputError

VARIABLE = "QUITMT_KEYS"
_AUTHORIZATION = re.compile(r"(?:Bearer|DeepL-Auth-Key)\s+(\S+)", re.IGNORECASE)


class Keys:
    """None at all lets everybody in."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accept(self, given: str | None) -> bool:
        if not self._digests:
            return True
        digest = _digest(given or "")
        # All of them, so that the time tells nothing about which one it was.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(matches) and bool(given)


def in_headers(headers: Mapping[str, str]) -> str | None:
    """The key as OpenAI's and DeepL's clients send it, or as ``x-api-key``."""
    if match := _AUTHORIZATION.fullmatch(headers.get("Authorization", "").strip()):
        return match[1]
    return headers.get("X-Api-Key")


def load(path: str | None) -> Keys:
    """From a file, a key a line (``#`` begins a comment), or else from the environment."""
    if path is None:
        return Keys(re.split(r"[\s,]+", os.environ.get(VARIABLE, "").strip(" ,\n\t")) if _is_set() else ())
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"cannot read the keys in {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8") from None
    keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not keys:
        raise InputError(f"{path} has no keys", hint="write one a line, or do without the file")
    if strange := next((number for number, key in enumerate(keys, start=1) if len(key.split()) > 1), None):
        raise InputError(f"key {strange} in {path} has spaces in it")
    return Keys(keys)


def _is_set() -> bool:
    return bool(os.environ.get(VARIABLE, "").strip(" ,\n\t"))


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=32).digest()
