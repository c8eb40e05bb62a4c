"""The journal of a run: every finished segment, as it finishes, so that a killed run can be continued.

A file of JSON lines beside the output, each with a checksum of its own. The first line holds the settings; each other
one a position of the input, a checksum of what stood there, and either the outcome (and its candidates if pools are
kept), or candidates of a segment that is still under way: those from ``start`` on, so each is written once. Lines are
appended and flushed one by one; a line cut off by a kill is dropped, and so is one that was damaged: its segment is
done again. On resume outcomes are read back one at a time from where the journal has them, so memory hardly grows with
what was done. A run that ends without a failed segment deletes its journal.

It is locked before it is read, and until it is closed.
"""

from __future__ import annotations

import json
import logging
import os
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NoReturn

from quitmt.errors import InputError, OutputError, QuitmtError, UsageError
from quitmt.files.durable import SealedLines, sealed
from quitmt.files.locks import open_alone
from quitmt.files.outcomes import from_fields, to_fields
from quitmt.files.settings import Difference, as_read_back, difference
from quitmt.types import Begun, Candidate, Finished, Segment, StopReason

log = logging.getLogger(__name__)

HEADER = b'{"settings"'
PRODUCER = "what produces the results"
"""The setting that is a signature: it has the code of the user's own metrics and the weights of models."""


class Journal:
    """``former`` are names that settings had in journals of earlier versions, and the names they have now; ``before``
    is how many lines of the input come before position 0, for messages."""

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Any],
        *,
        keep_candidates: bool = False,
        former: Mapping[str, str] = MappingProxyType({}),
        before: int = 0,
    ) -> None:
        self.path, self._former, self._before = path, former, before
        self._settings = as_read_back(settings)
        self._keep_candidates = keep_candidates
        self._places = array("q")
        """Position of a segment → where in the file its line begins; 0 if it is not done."""
        self._begun: dict[int, list[int]] = {}
        """Position of a segment that is not done → where the lines with its candidates begin."""
        self._file: BinaryIO | None = None
        self._header_end = -1
        self.started_over = False
        """Though it was to be resumed: it held no finished segment, and the code of a metric, say, is another one."""
        self._other: Difference | None = None
        """What an earlier run was told otherwise."""

    @classmethod
    def beside(cls, output: str, settings: Mapping[str, Any], **more: Any) -> Journal:
        return cls(Path(f"{output}.journal"), settings, **more)

    def start(self, *, resume: bool) -> int:
        """Open it; with ``resume``, what an earlier run did is taken over. How many segments are done."""
        try:
            self._file = os.fdopen(open_alone(self.path, os.O_RDWR), "r+b")
            end = self._read(self._file)
            if resume and self._other:
                end = self._start_over(self._other)
            if not resume and (self._done() or self._begun):
                raise UsageError(
                    f"{self.path} holds {self._held()} of a run that did not end",
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

    def _start_over(self, other: Difference) -> int:
        """Whoever mended a metric after all segments had failed has nothing to lose; all others must not go on."""
        if self._done() or other.name != PRODUCER:
            raise UsageError(
                f"cannot resume: {other.since(f'the run that {self.path} holds')}",
                hint="give the same settings, or delete that file to start over",
            )
        self._places, self._begun, self.started_over = array("q"), {}, True
        return 0

    def _unwritable(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write {self.path}: {error.strerror}")

    @property
    def length(self) -> int:
        """The input had at least so many lines."""
        return len(self._places)

    @property
    def begun(self) -> int:
        """Segments that an earlier run had under way, with candidates."""
        return len(self._begun)

    def _done(self) -> int:
        return len(self._places) - self._places.count(0)

    def _held(self) -> str:
        begun = f"candidates of {self.begun} unfinished ones" if self._begun else ""
        return " and ".join(filter(None, [f"{self._done()} finished segments", begun]))

    def _read(self, file: BinaryIO) -> int:
        """Find the finished and the begun segments; where the last whole line ends."""
        end, damaged, lines = 0, 0, SealedLines()
        for line in file:
            if not line.endswith(b"\n"):
                if end == 0 and not line.startswith(HEADER[: len(line)]):
                    self._refuse()
                break
            entry = lines.read(line)
            if end == 0:
                self._take_header(entry)
            elif entry is not None and _is_entry(entry):
                self._take(entry, end)
            elif lines.sealed:
                damaged += 1
            else:
                self._refuse()
            end += len(line)
        if damaged:
            log.warning("%d damaged lines of %s are not used: what they held is done again", damaged, self.path)
        return end

    def _take_header(self, entry: dict[str, Any] | None) -> None:
        if entry is None or entry.keys() != {"settings"} or not isinstance(entry["settings"], dict):
            self._refuse()
        self._other = self._difference(entry["settings"])

    def _take(self, entry: dict[str, Any], place: int) -> None:
        position = entry["position"]
        self._places.extend([0] * (position + 1 - len(self._places)))
        if "begun" in entry:
            if not self._places[position]:
                self._begun.setdefault(position, []).append(place)
        elif entry["stop"] == StopReason.FAILED:  # to be tried again
            self._places[position] = 0
        else:
            self._places[position] = place
            self._begun.pop(position, None)

    def _refuse(self) -> NoReturn:
        raise InputError(
            f"{self.path} is not a journal of quitmt, or its beginning is damaged", hint="delete it to start over"
        )

    def _difference(self, before: Mapping[str, Any]) -> Difference | None:
        old = any(name in self._former for name in before)
        if old:  # what such a journal leaves out or has as None it does not know
            renamed = {self._former.get(name, name): value for name, value in before.items()}
            before = {name: value for name, value in renamed.items() if value not in (None, False)}
        return difference(before, self._settings, before if old else None)

    def find(self, position: int, segment: Segment, check: int) -> Finished | None:
        """The finished segment at a position of the input, if an earlier run got there."""
        if position >= len(self._places) or not self._places[position]:
            return None
        try:
            entry = self._entry(self._places[position], position, check)
            candidates, anchors = (_candidates(entry.get(name, ())) for name in ("candidates", "anchors"))
            return Finished(segment, from_fields(entry["outcome"]), candidates, anchors)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, QuitmtError):
                raise
            line = self._before + position + 1
            log.warning("line %d of the input is done again: its line in %s is damaged", line, self.path)
            return None

    def drawn(self, position: int, segment: Segment, check: int) -> Begun | None:
        """What an earlier run drew for a segment that it did not finish, if it did."""
        found: tuple[Candidate, ...] = ()
        anchors: tuple[Candidate, ...] | None = None
        for place in self._begun.pop(position, ()):
            entry = self._entry(place, position, check)
            if entry["start"] <= len(found):  # what is after a gap is of no use
                found = found[: entry["start"]] + _candidates(entry["begun"])
                anchors = _candidates(entry["anchors"]) if "anchors" in entry else anchors
        return Begun(segment, found, anchors) if found else None

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
        """Of a segment that is under way: its candidates from ``start`` on, and with the first of them its anchors."""
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
        """``done``: everything is finished and nothing needs to be tried again; an empty journal is not kept either."""
        if self._file is not None:
            if done or self._file.tell() == self._header_end:
                self.path.unlink(missing_ok=True)  # while it is locked: nobody else's can be there
            with suppress(OSError):  # what could not be written was said when it could not
                self._file.close()
            self._file = None


def _is_entry(entry: Mapping[str, Any]) -> bool:
    position, start = entry.get("position"), entry.get("start")
    if not isinstance(position, int) or position < 0:
        return False
    return "stop" in entry or (isinstance(start, int) and isinstance(entry.get("begun"), list))


def _fields(candidates: Sequence[Candidate]) -> list[tuple[Any, ...]]:
    return [
        (c.text, c.log_probability, c.tokens, dict(c.scores) if c.scores else None, *([c.origin] if c.origin else []))
        for c in candidates
    ]


def _candidates(fields: Sequence[Sequence[Any]]) -> tuple[Candidate, ...]:
    return tuple(Candidate(*one) for one in fields)
