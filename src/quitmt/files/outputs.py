"""Writes results to files and standard output, with clear errors.

A file is opened and locked before any work is done, so that an output that can't be written is found at once, and two
runs never mix their lines. Its previous content is overwritten with the first line, or when a run succeeds without any
line. If the name ends in ``.gz``, the file is compressed with gzip.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO

from quitmt.errors import OutputError
from quitmt.files.durable import encoded
from quitmt.files.locks import is_at, open_alone

STDOUT = "-"
GZIP_SUFFIX = ".gz"
NEW_FILE = "name another file, or remove it first"
"""The hint where something would be overwritten."""
READABLE_BYTES = 1 << 14
"""This much text may be missing at the end of a gzip file if the run is killed. Flushing every line instead would make
a file of 100-character lines a third larger (30.7 KB rather than 22.9)."""


class ClosedPipe(OutputError):
    """The program that read standard output has stopped reading."""


class Output:
    """Lines of UTF-8 to a file, or to standard output (``-``)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._named = path != STDOUT
        self._fresh = False
        self._gzip: GzipFile | None = None
        self._hidden = 0
        """Bytes that aren't readable in the gzip file yet."""
        if not self._named and sys.stdout is None:
            raise OutputError("standard output is closed", hint="write to a file")
        self._made = self._named and not os.path.lexists(path)
        try:
            self._file: BinaryIO = os.fdopen(open_alone(path, os.O_WRONLY), "wb") if self._named else sys.stdout.buffer
        except OutputError:
            raise
        except FileNotFoundError as error:
            folder = Path(path).parent
            reason = error.strerror if folder.is_dir() else f"there is no folder {folder}"
            raise OutputError(f"cannot write {path}: {reason}") from None
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from None

    def write(self, line: str) -> None:
        self.begin()
        data = encoded(line) + b"\n"
        self._hidden += len(data)
        self._guarded(lambda: (self._gzip or self._file).write(data))

    def begin(self) -> None:
        """Discard the previous content of the file."""
        if not self._fresh:
            self._fresh = True
            if self._is_regular and self._named:
                self._guarded(lambda: self._file.truncate(0))
            if self._named and self.path.endswith(GZIP_SUFFIX):
                # Without a name and a time of day, so that the same lines give the same bytes.
                self._gzip = GzipFile("", "wb", fileobj=self._file, mtime=0)

    def flush(self) -> None:
        self._guarded(self._flush)

    def settle(self) -> None:
        """Everything was written: make sure that it is on the disk, and still at its path."""
        self.begin()
        self._guarded(self._finish)
        if self._is_regular:
            self._guarded(lambda: os.fsync(self._file.fileno()))
            if self._named and not is_at(self._file.fileno(), self.path):
                raise OutputError(f"{self.path} was moved, deleted or replaced while it was written")

    def close(self) -> None:
        """Close the file; one that was neither written to nor settled is left as if it had never been opened."""
        if self._made and not self._fresh and self._is_regular:
            Path(self.path).unlink(missing_ok=True)
        self._guarded(self._close if self._named else self._flush)

    @property
    def _is_regular(self) -> bool:
        try:
            return stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
        except (OSError, ValueError):  # standard output may be closed, or not be a file at all within another program
            return False

    def _flush(self) -> None:
        if self._gzip and self._hidden >= READABLE_BYTES:
            self._hidden = 0
            self._gzip.flush()
        self._file.flush()

    def _finish(self) -> None:
        if self._gzip:
            self._gzip.close()
            self._gzip = None
        self._file.flush()

    def _close(self) -> None:
        try:
            if not self._file.closed:
                self._finish()
        finally:
            self._file.close()

    def _guarded(self, action: Callable[[], object]) -> None:
        try:
            action()
        except BrokenPipeError:
            raise ClosedPipe("the program that read the output has closed the pipe") from None
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror}") from None


_BREAK = re.compile(r"\r\n|\r|\n")


def one_line(text: str) -> str:
    """Replace the line breaks that a model put into a translation by spaces."""
    return " ".join(_BREAK.split(text)) if "\n" in text or "\r" in text else text
