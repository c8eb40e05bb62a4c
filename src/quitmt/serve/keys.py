"""Client keys. They are compared as digests in constant time, and never appear in logs or responses."""

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
    """The accepted keys; without any, every client is accepted."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accept(self, key: str | None) -> bool:
        if not self._digests:
            return True
        digest = _digest(key or "")
        # Compare with all keys, so that the time doesn't reveal which one matched.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(matches) and bool(key)


def in_headers(headers: Mapping[str, str]) -> str | None:
    """Finds the key as OpenAI's and DeepL's clients send it, or in ``X-Api-Key``."""
    if match := _AUTHORIZATION.fullmatch(headers.get("Authorization", "").strip()):
        return match[1]
    return headers.get("X-Api-Key")


def load(path: str | None) -> Keys:
    """Loads keys from a file, one per line (``#`` begins a comment), or from the environment."""
    if path is None:
        return Keys(filter(None, re.split(r"[\s,]+", os.environ.get(VARIABLE, ""))))
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the keys in {path}: {getattr(error, 'strerror', error)}") from None
    keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not keys:
        raise InputError(f"{path} has no keys", hint="write one key per line, or use no key file")
    return Keys(keys)


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=32).digest()
