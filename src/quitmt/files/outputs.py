"""Where results go: files and standard output, written in order, with clear errors.

A file is opened before any work is done, so that an output that cannot be written costs nothing. What it held before is
only given up with the first line that is written to it, or when a run ends well without any.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from quitmt.errors import OutputError

STDOUT = "-"


class ClosedPipe(OutputError):
    """Whoever read standard output has stopped reading."""


class Output:
    """Lines of UTF-8 to a file, or to standard output (``-``)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fresh = False
        if path == STDOUT and sys.stdout is None:
            raise OutputError("standard output is closed", hint="write to a file with -o FILE")
        try:
            self._file: BinaryIO = sys.stdout.buffer if path == STDOUT else _opened(path)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from None

    def write(self, line: str) -> None:
        self.begin()
        self._guarded(lambda: self._file.write(line.encode() + b"\n"))

    def begin(self) -> None:
        """Give up what the file held before."""
        if not self._fresh:
            self._fresh = True
            if self.path != STDOUT and Path(self.path).is_file():
                self._guarded(lambda: self._file.truncate(0))

    def flush(self) -> None:
        self._guarded(self._file.flush)

    def close(self) -> None:
        self._guarded(self._file.flush if self.path == STDOUT else self._file.close)

    def _guarded(self, action: Callable[[], object]) -> None:
        try:
            action()
        except BrokenPipeError:
            raise ClosedPipe("the program that read the output has closed the pipe") from None
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror}") from None


def _opened(path: str) -> BinaryIO:
    """For writing, made if it is not there, not yet emptied."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb")
