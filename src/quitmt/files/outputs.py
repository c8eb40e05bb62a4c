"""Where results go: files and standard output, written in order, with clear errors.

A file is opened before any work is done, so that an output that cannot be written costs nothing.
"""

from __future__ import annotations

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
        try:
            self._file: BinaryIO = sys.stdout.buffer if path == STDOUT else Path(path).open("wb")  # noqa: SIM115 (held as long as the run)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from None

    def write(self, line: str) -> None:
        self._guarded(lambda: self._file.write(line.encode() + b"\n"))

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
