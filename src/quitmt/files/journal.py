"""The journal of a run: every finished segment, as it finishes, so that a killed run can be continued.

A file of JSON lines beside the output. The first line holds the settings; each other one a position of the input, a
checksum of what stood there, the outcome, and its candidates if pools are kept. Lines are appended and flushed one by
one; a line cut off by a kill is dropped. On resume outcomes are read back one at a time from where the journal has
them, so memory hardly grows with what was done. A run that ends without a failed segment deletes its journal.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from quitmt.engine.engine import Finished
from quitmt.errors import InputError, OutputError, UsageError, setting
from quitmt.files.outcomes import from_fields, to_fields
from quitmt.types import Candidate, Segment, Verdict

HEADER = b'{"settings"'


class Journal:
    def __init__(self, path: Path, settings: Mapping[str, Any], *, keep_candidates: bool = False) -> None:
        self.path = path
        self._settings = json.loads(json.dumps(dict(settings)))
        self._keep_candidates = keep_candidates
        self._places = array("q")
        """Position of a segment → where in the file its line begins; 0 if it is not done."""
        self._file: BinaryIO | None = None
        self._header_end = -1

    @classmethod
    def beside(cls, output: str, settings: Mapping[str, Any], *, keep_candidates: bool = False) -> Journal:
        return cls(Path(f"{output}.journal"), settings, keep_candidates=keep_candidates)

    def start(self, *, resume: bool) -> int:
        """Open it; with ``resume``, what an earlier run did is taken over. How many segments are done."""
        try:
            end = self._read(same_settings=resume) if self.path.exists() else 0
            if not resume and self._done():
                raise UsageError(
                    f"{self.path} holds {self._done()} finished segments of a run that did not end",
                    hint="add --resume to continue it, or delete that file to start over",
                )
            continuing = resume and end > 0
            self._file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
            self._lock()
            if not continuing:
                self._file.truncate(0)
            if continuing:
                self._file.truncate(end)
                self._file.seek(end)
            else:
                self._append({"settings": self._settings})
                self._header_end = self._file.tell()
        except OSError as error:
            raise self._unwritable(error) from None
        return self._done()

    def _unwritable(self, error: OSError) -> OutputError:
        return error if isinstance(error, OutputError) else OutputError(f"cannot write {self.path}: {error.strerror}")

    def _lock(self) -> None:
        """Two runs at once would write into each other's journal and outputs."""
        try:
            import fcntl
        except ImportError:  # not on this system
            return
        assert self._file is not None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            self._file = None
            raise OutputError(
                f"another run is writing to {self.path}", hint="wait for it, or write elsewhere"
            ) from None

    @property
    def length(self) -> int:
        """The input had at least so many lines."""
        return len(self._places)

    def _done(self) -> int:
        return len(self._places) - self._places.count(0)

    def _read(self, *, same_settings: bool) -> int:
        """Find the finished segments; where the last whole line ends."""
        end = 0
        with self.path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    if end == 0 and not line.startswith(HEADER[: len(line)]):
                        self._refuse()
                    break
                entry = self._parse(line)
                if "settings" in entry:
                    if same_settings:
                        self._check_settings(entry["settings"])
                else:
                    missing = entry["position"] + 1 - len(self._places)
                    self._places.extend([0] * missing)
                    failed = entry["stop"] == Verdict.FAILED  # to be tried again
                    self._places[entry["position"]] = 0 if failed else end
                end += len(line)
        return end

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
            if isinstance(entry, dict):
                is_header = isinstance(entry.get("settings"), dict)
                position = entry.get("position")
                if is_header or (isinstance(position, int) and position >= 0 and "stop" in entry):
                    return entry
        except ValueError:
            pass
        return self._refuse()

    def _refuse(self) -> NoReturn:
        raise InputError(f"{self.path} is not a journal of quitmt", hint="delete it to start over")

    def _check_settings(self, before: Mapping[str, Any]) -> None:
        for name in [*self._settings, *(name for name in before if name not in self._settings)]:
            was, now, told = before.get(name), self._settings.get(name), setting(name) if "." in name else name
            if was != now:
                raise UsageError(
                    f"cannot resume: {told} was {was} in the run that {self.path} holds and is {now} now",
                    hint="give the same settings, or delete that file to start over",
                )

    def find(self, position: int, segment: Segment, check: int) -> Finished | None:
        """The finished segment at a position of the input, if an earlier run got there."""
        if position >= len(self._places) or not self._places[position] or self._file is None:
            return None
        self._file.seek(self._places[position])
        entry = json.loads(self._file.readline())
        self._file.seek(0, 2)
        if entry["check"] != check:
            raise InputError(
                f"cannot resume: line {position + 1} of the input has changed since the run that {self.path} holds",
                hint="delete that file to start over",
            )
        candidates = tuple(Candidate(*fields) for fields in entry.get("candidates", ()))
        return Finished(segment, from_fields(entry["outcome"]), candidates)

    def add(self, position: int, finished: Finished, check: int) -> None:
        entry = {"position": position, "stop": finished.outcome.stop, "check": check}
        entry["outcome"] = to_fields(finished.outcome)
        if self._keep_candidates:
            entry["candidates"] = [
                (c.text, c.log_probability, c.tokens, dict(c.scores) if c.scores else None) for c in finished.candidates
            ]
        self._append(entry)

    def _append(self, entry: Mapping[str, Any]) -> None:
        assert self._file is not None
        try:
            self._file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from None

    def close(self, *, done: bool) -> None:
        """``done``: everything is finished and nothing needs to be tried again; an empty journal is not kept either."""
        if self._file is not None:
            empty = self._file.tell() == self._header_end
            with suppress(OSError):  # what could not be written was said when it could not
                self._file.close()
            self._file = None
            if done or empty:
                self.path.unlink(missing_ok=True)
