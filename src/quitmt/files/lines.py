"""Reads lines of text from a file or standard input, plain or gzip, as they arrive and in constant memory.

Text must be UTF-8. A line ends with ``\\n`` or ``\\r\\n`` only: the rarer separators of Unicode are text, because other
tools don't count them as line ends either.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

from quitmt.errors import InputError
from quitmt.loops.mailbox import Mailbox

CHUNK_BYTES = 1 << 18
STDIN = "-"
GZIP = b"\x1f\x8b"


async def read_lines(path: str, skip: int = 0) -> AsyncGenerator[str]:
    """Yield the lines of a file (``-`` is standard input) without line breaks, except the first ``skip``, which needn't
    even be UTF-8."""
    number, pieces = 0, list[bytes]()
    async for chunk in _decompressed(_chunks(path), path):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            number += 1
            if number > skip:
                yield decoded(b"".join([*pieces, line]) if pieces else line, name_of(path), number)
            pieces.clear()
        if rest:  # joined when the line is complete, because copying a long line with every chunk would be slow
            pieces.append(rest)
    if pieces and number >= skip:
        yield decoded(b"".join(pieces), name_of(path), number + 1)


def count_lines(path: str) -> int | None:
    """Count the lines of a file; None for pipes and compressed files, where counting is impossible or slow."""
    if path == STDIN or not Path(path).is_file():
        return None
    count, last = 0, b"\n"
    try:
        with Path(path).open("rb") as file:
            if file.read(2) == GZIP:
                return None
            file.seek(0)
            while chunk := file.read(1 << 20):
                count, last = count + chunk.count(b"\n"), chunk[-1:]
    except OSError:  # reading the file will report the error
        return None
    return count + (last != b"\n")


def name_of(path: str) -> str:
    return "standard input" if path == STDIN else path


def decoded(line: bytes, name: str, number: int) -> str:
    """The text of line ``number`` of a file; the first line may begin with a byte order mark."""
    try:
        text = line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}, line {number}: not UTF-8 (byte {error.start + 1} of the line)",
            hint="convert it first, e.g. with iconv -t UTF-8",
        ) from None
    return text.removeprefix("\ufeff") if number == 1 else text


async def _decompressed(chunks: AsyncIterator[bytes], path: str) -> AsyncIterator[bytes]:
    """Decompress gzip data, which is recognized by its first two bytes; it may have several members."""
    head = b""
    async for chunk in chunks:
        head += chunk
        if len(head) >= 2:
            break
    if not head.startswith(GZIP):
        yield head
        async for chunk in chunks:
            yield chunk
        return
    try:
        inflate, pending = zlib.decompressobj(wbits=31), head
        while pending:
            if inflate.eof:
                inflate = zlib.decompressobj(wbits=31)
            yield inflate.decompress(pending, CHUNK_BYTES)  # a few bytes may expand to very many
            pending = inflate.unconsumed_tail or inflate.unused_data or await anext(chunks, b"")
    except zlib.error as error:
        raise InputError(f"{name_of(path)}: damaged gzip data: {error}") from None
    if not inflate.eof:
        raise InputError(f"{name_of(path)}: the gzip data ends too early", hint="the file is cut off")


async def _chunks(path: str) -> AsyncIterator[bytes]:
    if path == STDIN and sys.stdin is None:
        raise InputError("standard input is closed", hint="name a file, or redirect one to it")
    try:
        if path != STDIN and Path(path).is_file():
            with Path(path).open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
            return
        async for chunk in _slow_chunks(path):
            yield chunk
    except OSError as error:
        raise InputError(f"cannot read {name_of(path)}: {error.strerror}") from None


async def _slow_chunks(path: str) -> AsyncIterator[bytes]:
    """Read standard input or a pipe in a daemon thread, so that a slow writer doesn't block the segments in flight, and
    a pending read doesn't block the end of the program."""
    arrived = Mailbox[bytes | OSError]()
    wanted = threading.Semaphore(1)

    def pump() -> None:
        try:
            descriptor = sys.stdin.fileno() if path == STDIN else os.open(path, os.O_RDONLY)
            chunk = b"-"
            while chunk:
                wanted.acquire()
                chunk = os.read(descriptor, CHUNK_BYTES)
                arrived.put(chunk)
        except OSError as error:
            arrived.put(error)
        except ValueError:  # the program that uses quitmt has closed it
            arrived.put(OSError(errno.EBADF, os.strerror(errno.EBADF)))

    threading.Thread(target=pump, daemon=True, name="quitmt-input").start()
    while chunk := await arrived.get():
        if isinstance(chunk, OSError):
            raise chunk
        yield chunk
        wanted.release()
