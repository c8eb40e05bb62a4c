"""Lines that outlive the run that wrote them: whatever they hold can be written, and a damaged one is told.

Text from outside (a server's error, a model's answer, a name) may have half of a surrogate pair in it, which no UTF-8
file can hold; ``encoded`` is the one place that makes it writable. A sealed line is a JSON object that ends with a
checksum of everything before it, so that a flipped bit is found. Lines from before there were checksums are read too,
but only as long as none with a checksum has come: files are appended to, so the old ones are first.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

_SEAL = re.compile(rb', "crc": "([0-9a-f]{8})"\}\n?\Z')


def is_writable(text: str) -> bool:
    """Whether a UTF-8 file can hold it: half of a surrogate pair is no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def writable(text: str) -> str:
    """The same text, with U+FFFD for every half of a surrogate pair.

    >>> writable("fine"), writable("caf\\ud83d")
    ('fine', 'caf\ufffd')
    """
    if is_writable(text):
        return text
    # Two halves that belong together become the one character they are.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encoded(text: str) -> bytes:
    return writable(text).encode()


def sealed(fields: Mapping[str, Any]) -> bytes:
    """A line of JSON with its checksum, and its line break."""
    body = encoded(json.dumps(fields, ensure_ascii=False))
    return body[:-1] + b', "crc": "%08x"}\n' % zlib.crc32(body)


class SealedLines:
    """Reads such lines one after the other, in the order of their file."""

    def __init__(self) -> None:
        self.sealed = False
        """Whether a line with a checksum has come."""

    def read(self, line: bytes) -> dict[str, Any] | None:
        """What a line holds; None if it is damaged, or no JSON object at all."""
        seal = _SEAL.search(line)
        if seal is not None:
            self.sealed = True
            line = line[: seal.start()] + b"}"
            if zlib.crc32(line) != int(seal[1], 16):
                return None
        elif self.sealed:
            return None
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return fields if isinstance(fields, dict) else None
