"""The answers of a judge, on disk: JSON lines that are only ever appended to, each as soon as its answer is there.

A killed run loses nothing that was answered; half a line at the end of a file is skipped, and so is anything else that
is no answer. Every answer is kept, also those that could not be read: asking the same thing again at the same
temperature with the same seed would cost as much and tell as little. Whoever wants new answers removes the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO

from quitmt.errors import OutputError


def default_folder() -> Path:
    """Where answers are kept unless told otherwise."""
    root = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(root) if root else Path.home() / ".cache") / "quitmt" / "gemba"


class Answers:
    """Answers by key. Without a path they are only remembered."""

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
        line = json.dumps({"key": key, **about, "answer": answer}) + "\n"
        try:
            file = self._file or self._open(self._path)
            file.write(line.encode())  # one write to a file opened for appending: lines of two runs do not mix
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
                for line in file:
                    self._take(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failed(path, error) from None

    def _take(self, line: bytes) -> None:
        try:
            fields = json.loads(line)
        except ValueError:
            return
        if isinstance(fields, dict) and isinstance(fields.get("answer"), str) and isinstance(fields.get("key"), str):
            self._known[fields["key"]] = fields["answer"]

    @staticmethod
    def _failed(path: Path, error: OSError) -> OutputError:
        hint = "keep the answers elsewhere: --gemba-cache DIR"
        return OutputError(f"the judge's answers cannot be kept in {path}: {error.strerror}", hint=hint)


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
