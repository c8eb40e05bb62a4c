"""Lines of text from a file or standard input, plain or gzip, as they come and in constant memory.

UTF-8 is required, and a line ends with ``\\n`` (or ``\\r\\n``) and nothing else: the rarer separators of Unicode are
text, or line counts would differ from everybody else's.
"""

from __future__ import annotations

import os
import sys
import threading
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

from quitmt.errors import InputError
from quitmt.mailbox import Mailbox

CHUNK_BYTES = 1 << 18
STDIN = "-"


async def read_lines(path: str) -> AsyncIterator[str]:
    """The lines of a file (``-`` is standard input), without their line breaks."""
    number, rest = 0, b""
    async for chunk in _decompressed(_chunks(path), path):
        *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
        for line in lines:
            number += 1
            yield _decoded(line, path, number)
    if rest:
        yield _decoded(rest, path, number + 1)


def name_of(path: str) -> str:
    return "standard input" if path == STDIN else path


def _decoded(line: bytes, path: str, number: int) -> str:
    try:
        text = line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name_of(path)}, line {number}: not UTF-8 (byte {error.start + 1} of the line)",
            hint="convert it first, e.g. with iconv -t UTF-8",
        ) from None
    return text.removeprefix("\ufeff") if number == 1 else text


async def _decompressed(chunks: AsyncIterator[bytes], path: str) -> AsyncIterator[bytes]:
    """Gzip is told by its first two bytes, not by the name; several members may follow each other."""
    head = b""
    async for chunk in chunks:
        head += chunk
        if len(head) >= 2:
            break
    if not head.startswith(b"\x1f\x8b"):
        yield head
        async for chunk in chunks:
            yield chunk
        return
    try:
        inflate, pending = zlib.decompressobj(wbits=31), head
        while True:
            yield inflate.decompress(pending)
            pending = inflate.unused_data
            if inflate.eof and pending:
                inflate = zlib.decompressobj(wbits=31)
            else:
                pending = await anext(chunks, b"")
                if not pending:
                    break
                if inflate.eof:
                    inflate = zlib.decompressobj(wbits=31)
    except zlib.error as error:
        raise InputError(f"{name_of(path)}: damaged gzip data: {error}") from None
    if not inflate.eof:
        raise InputError(f"{name_of(path)}: the gzip data ends too early", hint="the file is cut off")


async def _chunks(path: str) -> AsyncIterator[bytes]:
    if path == STDIN:
        async for chunk in _stdin_chunks():
            yield chunk
        return
    try:
        with Path(path).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


async def _stdin_chunks() -> AsyncIterator[bytes]:
    """Read standard input in a daemon thread: whoever types slowly must not hold up the segments in flight, nor, by a
    read that is still pending, the end of the program."""
    arrived = Mailbox[bytes | OSError]()
    wanted = threading.Semaphore(1)

    def pump() -> None:
        chunk: bytes | OSError = b"-"
        while chunk and not isinstance(chunk, OSError):
            wanted.acquire()
            try:
                chunk = os.read(sys.stdin.fileno(), CHUNK_BYTES)
            except OSError as error:
                chunk = error
            arrived.put(chunk)

    threading.Thread(target=pump, daemon=True, name="quitmt-stdin").start()
    while chunk := await arrived.get():
        if isinstance(chunk, OSError):
            raise InputError(f"cannot read standard input: {chunk.strerror}")
        yield chunk
        wanted.release()
