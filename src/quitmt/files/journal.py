"""The journal of a run: it records every finished segment at once, so that a killed run can be continued.

It is a file of sealed JSON lines beside the output. The first line has the settings. Every other line has a position of
the input, a checksum of the input there, and either the outcome (with its candidates if pools are kept) or candidates
of an unfinished segment from index ``start`` on, so that each candidate is written once. Each line is appended and
flushed. A line that was cut off or damaged is ignored, and its segment is translated again. On resume, outcomes are
read one at a time, so memory hardly grows with the length of the journal. A run that ends without a failed segment
deletes its journal.

The file is locked before it is read and until it is closed.
"""

from __future__ import annotations

import json
import logging
import os
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from quitmt.errors import InputError, OutputError, QuitmtError, UsageError
from quitmt.files.durable import sealed, unsealed
from quitmt.files.locks import open_alone
from quitmt.files.outcomes import from_fields, to_fields
from quitmt.files.settings import Difference, as_read_back, difference
from quitmt.types import Begun, Candidate, Finished, Segment, StopReason

log = logging.getLogger(__name__)

HEADER = b'{"settings"'
PRODUCER = "what produces the results"
"""The setting that holds the run's signature, which covers the code of user metrics and the weights of models."""


def journal_of(output: str) -> Path:
    """The path of the journal beside an output."""
    return Path(f"{output}.journal")


class Journal:
    def __init__(
        self, path: Path, settings: Mapping[str, Any], *, keep_candidates: bool = False, before: int = 0
    ) -> None:
        """``before`` is the number of input lines before position 0, for messages."""
        self.path, self._before = path, before
        self._settings = as_read_back(settings)
        self._keep_candidates = keep_candidates
        self._places = array("q")
        """Position of a segment → offset of its line in the file; 0 if it isn't done."""
        self._begun: dict[int, list[int]] = {}
        """Position of an unfinished segment → offsets of the lines with its candidates."""
        self._file: BinaryIO | None = None
        self._header_end = -1
        self.started_over = False
        """Whether a resumed run started from the beginning: the earlier one had finished no segment, and user code,
        such as a metric, has changed since."""

    def start(self, *, resume: bool) -> int:
        """Open the journal and return how many segments are done; without ``resume`` there may be none."""
        try:
            self._file = os.fdopen(open_alone(self.path, os.O_RDWR), "r+b")
            end = self._read(self._file, resume=resume)
            if not resume and (self._done() or self._begun):
                raise UsageError(
                    f"{self.path} holds {self._contents()} of an unfinished run",
                    hint="resume it, or delete that file to start over",
                )
            continuing = resume and end > 0
            self._file.seek(end if continuing else 0)
            self._file.truncate()
            if not continuing:
                self._append({"settings": self._settings})
                self._header_end = self._file.tell()
        except (OSError, QuitmtError) as error:
            if self._file is not None:
                self._file.close()
                self._file = None
            if isinstance(error, QuitmtError):
                raise
            raise self._unwritable(error) from None
        return self._done()

    @property
    def length(self) -> int:
        """A lower bound on the number of input lines."""
        return len(self._places)

    @property
    def begun(self) -> int:
        """The number of unfinished segments with candidates."""
        return len(self._begun)

    def _done(self) -> int:
        return len(self._places) - self._places.count(0)

    def _contents(self) -> str:
        begun = f"candidates of {self.begun} unfinished segments" if self._begun else ""
        return " and ".join(filter(None, [f"{self._done()} finished segments", begun]))

    def _unwritable(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write {self.path}: {error.strerror}")

    def _read(self, file: BinaryIO, *, resume: bool) -> int:
        """Find the finished and the unfinished segments; return where the last usable line ends."""
        end = damaged = 0
        changed: Difference | None = None
        for line in file:
            if not line.endswith(b"\n"):
                if end == 0 and not line.startswith(HEADER[: len(line)]):
                    self._refuse()
                break
            fields = unsealed(line)
            if end == 0:
                if fields is None or not isinstance(fields.get("settings"), dict):
                    self._refuse()
                changed = difference(fields["settings"], self._settings)
            elif fields is None:
                damaged += 1
            else:
                self._take(fields, end)
            end += len(line)
        if damaged:
            log.warning("%s has %d damaged lines: their segments are translated again", self.path, damaged)
        return self._start_over(changed) if resume and changed else end

    def _take(self, entry: dict[str, Any], place: int) -> None:
        position = entry["position"]
        self._places.extend([0] * (position + 1 - len(self._places)))
        if "begun" in entry:
            if not self._places[position]:
                self._begun.setdefault(position, []).append(place)
        elif entry["stop"] == StopReason.FAILED:  # to be retried
            self._places[position] = 0
        else:
            self._places[position] = place
            self._begun.pop(position, None)

    def _start_over(self, changed: Difference) -> int:
        """Discard a journal without finished segments if only user code has changed: somebody fixed a metric after all
        segments had failed. Any other change is refused."""
        if self._done() or changed.name != PRODUCER:
            raise UsageError(
                f"cannot resume: {changed.since(f'the run that {self.path} holds')}",
                hint="give the same settings, or delete that file to start over",
            )
        self._places, self._begun, self.started_over = array("q"), {}, True
        return 0

    def _refuse(self) -> NoReturn:
        raise InputError(
            f"{self.path} is not a journal of quitmt, or its beginning is damaged", hint="delete it to start over"
        )

    def find(self, position: int, segment: Segment, check: int) -> Finished | None:
        """The finished segment at a position of the input, if an earlier run finished it."""
        if position >= len(self._places) or not self._places[position]:
            return None
        entry = self._entry(self._places[position], position, check)
        candidates, anchors = (_candidates(entry.get(name, ())) for name in ("candidates", "anchors"))
        return Finished(segment, from_fields(entry["outcome"]), candidates, anchors)

    def drawn(self, position: int, segment: Segment, check: int) -> Begun | None:
        """The candidates that an earlier run drew for a segment and didn't use, if any."""
        drawn: tuple[Candidate, ...] = ()
        anchors: tuple[Candidate, ...] | None = None
        for place in self._begun.pop(position, ()):
            entry = self._entry(place, position, check)
            if entry["start"] <= len(drawn):  # candidates after a gap are useless
                drawn = drawn[: entry["start"]] + _candidates(entry["begun"])
                anchors = _candidates(entry["anchors"]) if "anchors" in entry else anchors
        return Begun(segment, drawn, anchors) if drawn else None

    def _entry(self, place: int, position: int, check: int) -> dict[str, Any]:
        assert self._file is not None
        self._file.seek(place)
        entry: dict[str, Any] = json.loads(self._file.readline())
        self._file.seek(0, os.SEEK_END)
        if entry["check"] != check:
            line = self._before + position + 1
            raise InputError(
                f"cannot resume: line {line} of the input has changed since the run that {self.path} holds",
                hint="delete that file to start over",
            )
        return entry

    def add(self, position: int, finished: Finished, check: int) -> None:
        entry = {"position": position, "stop": finished.outcome.stop, "check": check}
        entry["outcome"] = to_fields(finished.outcome)
        if self._keep_candidates:
            entry["candidates"] = _fields(finished.candidates)
            if finished.anchors:
                entry["anchors"] = _fields(finished.anchors)
        self._append(entry)

    def add_drawn(self, position: int, start: int, begun: Begun, check: int) -> None:
        """Write the candidates of an unfinished segment from ``start`` on; the first ones come with its anchors."""
        entry = {"position": position, "check": check, "start": start, "begun": _fields(begun.candidates[start:])}
        if start == 0 and begun.anchors is not None:
            entry["anchors"] = _fields(begun.anchors)
        self._append(entry)

    def _append(self, entry: Mapping[str, Any]) -> None:
        assert self._file is not None
        try:
            self._file.write(sealed(entry))
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from None

    def close(self, *, done: bool) -> None:
        """Close the file. It is deleted if everything is ``done`` and nothing needs a retry, or if it is empty."""
        if self._file is not None:
            if done or self._file.tell() == self._header_end:
                self.path.unlink(missing_ok=True)  # still locked, so it can't be another run's
            with suppress(OSError):  # a failed write was reported when it happened
                self._file.close()
            self._file = None


def _fields(candidates: Sequence[Candidate]) -> list[tuple[Any, ...]]:
    return [
        (c.text, c.log_probability, c.tokens, dict(c.scores) if c.scores else None, *([c.origin] if c.origin else []))
        for c in candidates
    ]


def _candidates(fields: Sequence[Sequence[Any]]) -> tuple[Candidate, ...]:
    return tuple(Candidate(*one) for one in fields)
