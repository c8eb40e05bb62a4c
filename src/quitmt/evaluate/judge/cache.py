"""A judge's answers on disk: JSON lines, each appended as soon as its answer arrives.

A killed run loses no answer. Lines that are cut off, damaged or have a wrong checksum are skipped, and their questions
are asked again. Unreadable answers are kept too, because asking again with the same temperature and seed would give the
same answer. To get new answers, remove the file.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import IO

from quitmt.errors import OutputError
from quitmt.files.durable import sealed, unsealed

log = logging.getLogger(__name__)


def default_folder() -> Path:
    """The default folder for answers."""
    root = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(root) if root else Path.home() / ".cache") / "quitmt" / "gemba"


class Answers:
    """Answers by key; without a path they are kept in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        self._file: IO[bytes] | None = None
        if path is not None:
            self._read(path)

    def get(self, key: str) -> str | None:
        return self._known.get(key)

    def put(self, key: str, answer: str, about: dict[str, object]) -> None:
        """Remember an answer; ``about`` is for people who read the file."""
        self._known[key] = answer
        if self._path is None:
            return
        line = sealed({"key": key, **about, "answer": answer})
        try:
            file = self._file or self._open(self._path)
            file.write(line)  # one write to a file opened for appending: lines of two runs do not mix
        except OSError as error:
            raise self._failed(self._path, error) from None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path) -> IO[bytes]:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        if self._file.tell() and not _ends_a_line(path):
            self._file.write(b"\n")
        return self._file

    def _read(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                useless = sum(not self._take(unsealed(line)) for line in file)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failed(path, error) from None
        if useless:
            log.warning("%d lines of %s are damaged or cut off and are not used", useless, path)

    def _take(self, fields: dict[str, object] | None) -> bool:
        """Store a line's answer; returns whether it is one."""
        key, answer = (fields or {}).get("key"), (fields or {}).get("answer")
        if not isinstance(key, str) or not isinstance(answer, str):
            return False
        self._known[key] = answer
        return True

    @staticmethod
    def _failed(path: Path, error: OSError) -> OutputError:
        hint = "keep the answers elsewhere: gemba_cache"
        return OutputError(f"the judge's answers cannot be kept in {path}: {error.strerror}", hint=hint)


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
