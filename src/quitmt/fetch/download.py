"""Downloads one file: continues an earlier attempt, decompresses the file, and checks it against the index.

Invariants: bytes that have arrived are kept until they are known to be wrong; the file's size and SHA-256 are checked
if the index has them. If a continued download turns out wrong, it is fetched once more from the beginning, because the
file may have changed between the attempts. The file's size in the index limits disk space and time, whatever the server
sends.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import http.client
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from quitmt.bergamot import store
from quitmt.errors import ModelError, OutputError, QuitmtError
from quitmt.fetch.index import RemoteFile
from quitmt.fetch.transfer import Allowance, Clock, TooMuch, TooSlow, chunks, opened, reason

Bar = Callable[[str, int | None, int], Any]
"""Makes a progress bar from a name, the total bytes if known, and the bytes present; it has ``update`` and
``close``."""
Pause = Callable[[float], None]

TRIES = 5
"""Maximum consecutive attempts without a new byte."""
PART = ".part"
MOST_BYTES = 1 << 30
"""Maximum size of a decompressed file, even if the index says more or nothing."""
PACKING_BYTES = 1 << 16
"""Allowance for compression, in addition to a thousandth of the file."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


class _Damaged(Exception):
    """The file differs from its description in the index."""


_KEPT = "the part that has arrived is kept: the same command continues"


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Translates OSErrors of writing below ``folder`` into one sentence. Only writing may raise OSErrors inside."""
    try:
        yield
    except QuitmtError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            hint = f"make room, or set {store.VARIABLE} to another folder; the part that has arrived is kept"
            raise OutputError(f"there is no room for the model in {folder}: {error.strerror}", hint=hint) from None
        hint = f"set the environment variable {store.VARIABLE} to a folder that you may write to"
        raise OutputError(f"cannot write to {folder}: {error.strerror}", hint=hint) from None


def packed_name(file: RemoteFile) -> str:
    """The name of the compressed file. It depends on the address, so different versions have different names."""
    return f"{file.name}.{hashlib.sha256(file.url.encode()).hexdigest()[:12]}{PART}"


def download(
    file: RemoteFile, folder: Path, bar: Bar, pause: Pause = time.sleep, clock: Clock = time.monotonic
) -> None:
    """Put the complete, checked file into ``folder``. The compressed file stays beside it."""
    packed, target = folder / packed_name(file), folder / file.name
    while True:
        continued = _size(packed) > 0
        try:
            _fetch(file, packed, bar, pause, Allowance(clock))
            return _unpack(file, packed, target)
        except (_Damaged, TooMuch) as wrong:
            packed.unlink(missing_ok=True)
            target.unlink(missing_ok=True)
            if not continued:
                raise ModelError(f"{file.url} is damaged: {wrong}", hint="it was deleted; try again later") from None


def most_bytes(file: RemoteFile) -> int:
    """Maximum size of the decompressed file."""
    return min(file.size or MOST_BYTES, MOST_BYTES)


def _fetch(file: RemoteFile, packed: Path, bar: Bar, pause: Pause, allowance: Allowance) -> None:
    """Fetch the whole compressed file, retrying as long as attempts make progress."""
    failures = 0
    while True:
        before = _size(packed)
        try:
            if _more(file, packed, bar, allowance):
                return
            why = "the connection ended early"
        except QuitmtError:
            raise
        except TooSlow as error:
            raise ModelError(f"cannot download {file.url}: {error}", hint=_KEPT) from None
        except HTTPError as error:
            why = reason(error)
            if error.code not in _AGAIN:
                raise ModelError(f"cannot download {file.url}: {why}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            why = reason(error)
        failures = 1 if _size(packed) > before else failures + 1
        if failures >= TRIES:
            raise ModelError(f"cannot download {file.url}: {why}", hint=_KEPT)
        pause(0.5 * 2**failures)


def _more(file: RemoteFile, packed: Path, bar: Bar, allowance: Allowance) -> bool:
    """Append missing bytes; return whether the file is complete."""
    have = _size(packed)
    try:
        response = opened(file.url, {"Range": f"bytes={have}-"} if have else {})
    except HTTPError as error:
        error.close()
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
            raise
        return True  # the server has no further bytes; decompression checks whether the file is right
    with response:
        start, total = _extent(response)
        if start not in (0, have):
            raise ValueError(f"the server sent byte {start} where byte {have} was requested")
        most = most_bytes(file) + most_bytes(file) // 1000 + PACKING_BYTES
        if max(total or 0, start) > most:
            raise TooMuch(most)
        _append(chunks(response, allowance, most - start), packed, start, bar(file.name, total, start))
    return total is None or _size(packed) == total


def _append(content: Iterator[bytes], packed: Path, start: int, shown: Any) -> None:
    folder = packed.parent
    try:
        with writing(folder):
            out = packed.open("r+b" if start else "wb")
            out.seek(start)
        try:
            for chunk in content:
                with writing(folder):
                    out.write(chunk)
                    out.flush()
                shown.update(len(chunk))
        finally:
            with writing(folder):
                out.close()
    finally:
        shown.close()


def _extent(response: Any) -> tuple[int, int | None]:
    """The offset of the first byte sent, and the total size if the server says it."""
    headers = response.headers
    if found := _RANGE.match(headers.get("Content-Range") or ""):
        return int(found[1] or 0), None if found[2] == "*" else int(found[2])
    length = headers.get("Content-Length") or ""
    return 0, int(length) if length.isdigit() else None


def _unpack(file: RemoteFile, packed: Path, target: Path) -> None:
    """Decompress the file if it is gzipped, and check it."""
    digest, size = hashlib.sha256(), 0
    with packed.open("rb") as stream:
        zipped = stream.read(2) == b"\x1f\x8b"
    most = most_bytes(file)
    with (
        gzip.open(packed) if zipped else packed.open("rb") as source,
        writing(target.parent),
        target.open("wb") as out,
    ):
        while chunk := _read(source):
            size += len(chunk)
            if size > most:
                raise TooMuch(most)
            digest.update(chunk)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    if file.size is not None and size != file.size:
        raise _Damaged(f"it has {size:,} bytes and should have {file.size:,}")
    if file.hash is not None and digest.hexdigest() != file.hash:
        raise _Damaged(f"its SHA-256 is {digest.hexdigest()[:12]}… and should be {file.hash[:12]}…")


def _read(source: Any) -> bytes:
    try:
        return bytes(source.read(1 << 20))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _Damaged(f"it cannot be decompressed: {error}") from None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
