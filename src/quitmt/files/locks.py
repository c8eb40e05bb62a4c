"""Exclusive access to files: a file is locked when it is opened, before anything in it is read or overwritten."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from quitmt.errors import OutputError


class InUse(OutputError):
    """Another process has locked the file."""


def open_alone(path: str | Path, mode: int) -> int:
    """Open a file, creating it if necessary, and lock it; raises ``InUse`` if another run has locked it. Pipes,
    terminals and devices such as /dev/null are not locked."""
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
        # Its previous owner deleted the file between our opening and locking it: try again.
        os.close(descriptor)


def is_at(descriptor: int, path: str | Path) -> bool:
    """Whether a path still leads to an open file, which may have been moved or deleted."""
    try:
        return os.path.samestat(os.fstat(descriptor), Path(path).stat())
    except FileNotFoundError:
        return False


def same_file(one: str, other: str) -> bool:
    """Whether two paths lead to the same file, through symbolic or hard links."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samestat(Path(one).stat(), Path(other).stat())
    except OSError:
        return False


def _lock(descriptor: int, path: str | Path) -> None:
    try:
        import fcntl
    except ImportError:  # not available on this system
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        hint = "wait until it has ended, or write elsewhere"
        raise InUse(f"another run is writing to {path}", hint=hint) from None
    except OSError:  # a file system without locks
        return
