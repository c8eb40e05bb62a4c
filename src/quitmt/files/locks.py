"""Files that one run alone may write: locked as they are opened, before anything in them is read or given up."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from quitmt.errors import OutputError


class InUse(OutputError):
    """Another process has the file."""


def open_alone(path: str | Path, mode: int) -> int:
    """A descriptor of a file, made if it is not there; refused while another run has it open. What is no regular file
    (a pipe, a terminal, /dev/null) is anybody's."""
    while True:
        descriptor = os.open(path, mode | os.O_CREAT, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            _lock(descriptor, path)
            if is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # Whoever had it before deleted it after it was opened here and before it was locked.
        os.close(descriptor)


def is_at(descriptor: int, path: str | Path) -> bool:
    """Whether an open file is still what its path leads to: it may have been moved or deleted."""
    try:
        return os.path.samestat(os.fstat(descriptor), Path(path).stat())
    except FileNotFoundError:
        return False


def same_file(one: str, other: str) -> bool:
    """Whether two paths lead to one file, by symbolic or by hard links."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samestat(Path(one).stat(), Path(other).stat())
    except OSError:
        return False


def _lock(descriptor: int, path: str | Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        hint = "wait until it has ended, or write elsewhere"
        raise InUse(f"another run is writing to {path}", hint=hint) from None
    except OSError:  # a file system without locks
        return
