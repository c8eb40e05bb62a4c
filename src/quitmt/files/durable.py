"""Lines of JSON that survive a crash: anything can be written, and damage is detected.

Text from outside (a server's error, a model's answer, a file name) may contain half of a surrogate pair, which UTF-8
can't represent; ``encoded`` replaces it. A sealed line is a JSON object that ends with a checksum of everything before
it, so that even a flipped bit is found.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

_SEAL = re.compile(rb', "crc": "([0-9a-f]{8})"\}\n?\Z')


def is_writable(text: str) -> bool:
    """Whether UTF-8 can represent the text; half of a surrogate pair can't be represented."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def writable(text: str) -> str:
    """Replace every half of a surrogate pair with U+FFFD.

    >>> writable("fine"), writable("caf\\ud83d")
    ('fine', 'caf\ufffd')
    """
    if is_writable(text):
        return text
    # Two halves that belong together become one character.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encoded(text: str) -> bytes:
    return writable(text).encode()


def sealed(fields: Mapping[str, Any]) -> bytes:
    """A line of JSON with its checksum and line break."""
    body = encoded(json.dumps(fields, ensure_ascii=False))
    return body[:-1] + b', "crc": "%08x"}\n' % zlib.crc32(body)


def unsealed(line: bytes) -> dict[str, Any] | None:
    """The fields of a sealed line; None if it is damaged or was never sealed."""
    seal = _SEAL.search(line)
    if seal is None:
        return None
    body = line[: seal.start()] + b"}"
    if zlib.crc32(body) != int(seal[1], 16):
        return None
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):  # somebody else computed the checksum
        return None
    return fields if isinstance(fields, dict) else None
