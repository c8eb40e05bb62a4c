"""The input as numbered parts of a bounded number of rows, each with everything that its worker needs to know.

The whole input is read once before anything is translated, so a damaged file, a missing column or an id that occurs
twice costs nothing but this reading: nothing is started. Parts are independent of the number of workers.

With ``distinct`` a row has the key of its source (and context and languages), and only the first row with a key is
translated, under the key as its id. So the translation depends on the text and not on where it stands first.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from quitmt.batch import kept, rows
from quitmt.batch.job import BatchJob, Folder
from quitmt.batch.rows import InputRow
from quitmt.batch.storage import InputFile, covers
from quitmt.engine.items import Context
from quitmt.errors import InputError, UsageError
from quitmt.types import Segment

Pair = tuple[str | None, str | None]
"""Languages that a row names."""
MOST_PAIRS = 64
COMMIT_ROWS = 100_000
FIELDS = ("id", "segment", "source", "context", "source_language", "target_language", "key", "first", "others")


@dataclass(frozen=True, slots=True)
class Planned:
    """A row of a part."""

    id: str
    segment: str
    """By which its candidates are fixed."""
    source: str
    context: str
    source_language: str | None
    target_language: str | None
    key: str
    """With ``distinct``: equal for equal rows; else empty."""
    first: bool
    """Whether it is translated: with ``distinct``, only the first row with its key is."""
    others: str = "{}"
    """The user's own columns, as JSON."""

    @property
    def pair(self) -> Pair:
        return self.source_language, self.target_language

    def as_segment(self) -> Segment:
        return Segment(self.segment, self.source, self.context)


@dataclass(frozen=True, slots=True)
class Plan:
    parts: tuple[int, ...]
    """Rows of each part."""
    distinct: int
    """Rows that are translated, blank ones too."""
    pairs: tuple[Pair, ...]
    others: Mapping[str, str] = field(default_factory=dict)
    """The user's own columns, with their types."""

    @property
    def rows(self) -> int:
        return sum(self.parts)

    def to_fields(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Plan:
        source_target = [(one[0], one[1]) for one in fields["pairs"]]
        return cls(tuple(fields["parts"]), fields["distinct"], tuple(source_target), dict(fields["others"]))


def refuse_output_as_input(job: BatchJob) -> None:
    """When the command is given again, its results would be inputs, so such a job could not go on."""
    for pattern in job.inputs:
        if covers(pattern, job.folder.place, job.folder.name(0)):
            hint = "choose a folder that is not among the inputs"
            raise UsageError(f"the output {job.output} would be among the inputs {pattern}", hint=hint)


def prepare(job: BatchJob, files: Sequence[InputFile], format_name: str) -> Plan:
    """The plan of a job whose folder is claimed: made, or taken over from an earlier run with the parts' rows."""
    folder, found = job.folder, _earlier(job.folder)
    if found is not None and _all_there(folder, found):
        return found
    folder.make()  # a job that was done has removed what it did not need any more
    plan = make(job, files, format_name)
    (folder.own / "plan.json").write(json.dumps(plan.to_fields()).encode())
    return plan


def _earlier(folder: Folder) -> Plan | None:
    place = folder.own / "plan.json"
    try:
        return Plan.from_fields(json.loads(place.read())) if place.exists() else None
    except (ValueError, KeyError, TypeError, IndexError):  # it is made again
        return None


def _all_there(folder: Folder, plan: Plan) -> bool:
    """Whether every part has its result or its rows: those of a job that is done are not kept."""
    results, inputs = folder.place.names(), (folder.own / "input").names()
    return all(
        folder.name(part) in results or folder.rows(part).url.rpartition("/")[2] in inputs
        for part in range(len(plan.parts))
    )


def make(job: BatchJob, files: Sequence[InputFile], format_name: str) -> Plan:
    folder = job.folder
    parts: list[int] = []
    pairs: dict[Pair, None] = {}
    types: dict[str, str | None] = {}
    distinct, waiting = 0, list[Planned]()

    def put() -> None:
        folder.rows(len(parts)).write(pack(waiting))
        parts.append(len(waiting))
        waiting.clear()

    with _seen() as keys, _seen() as ids:
        for row in _planned(job, files, format_name, keys, types):
            if job.columns.id is not None and not ids.add(row.id):
                raise InputError(
                    f"the id {row.id!r} occurs a second time", hint="ids must be unique in the whole input"
                )
            distinct += row.first
            pairs[row.pair] = None
            if len(pairs) > MOST_PAIRS:
                raise InputError(f"the input has more than {MOST_PAIRS} language pairs", hint="make a job for each")
            waiting.append(row)
            if len(waiting) == job.rows_per_file:
                put()
    if waiting:
        put()
    return Plan(tuple(parts), distinct, tuple(pairs), {name: one or kept.TEXT for name, one in types.items()})


def _planned(
    job: BatchJob, files: Sequence[InputFile], format_name: str, keys: _SeenTexts, types: dict[str, str | None]
) -> Iterator[Planned]:
    for file in files:
        before = Context(job.recipe.model.context)
        for row in rows.read(file, format_name, job.columns):
            own_id = f"{file.name}:{row.number}" if row.id is None else row.id
            context = before.of(Segment(own_id, row.source, row.context)).context
            key = _key(row, context) if job.distinct else ""
            first = keys.add(key) if job.distinct else True
            pair = row.source_language, row.target_language
            kept.learn(types, row.others)
            yield Planned(own_id, key or own_id, row.source, context, *pair, key, first, kept.packed(row.others))


def _key(row: InputRow, context: str) -> str:
    text = json.dumps([row.source, context, row.source_language, row.target_language], ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class _SeenTexts:
    """Which texts have occurred: on disk, so that memory does not grow with their number."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base, self._count = base, 0
        base.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; CREATE TABLE seen (text TEXT PRIMARY KEY) WITHOUT ROWID"
        )

    def add(self, text: str) -> bool:
        """Whether it is new."""
        self._count += 1
        if self._count % COMMIT_ROWS == 0:
            self._base.commit()
        return self._base.execute("INSERT OR IGNORE INTO seen VALUES (?)", (text,)).rowcount == 1


@contextmanager
def _seen() -> Iterator[_SeenTexts]:
    with scratch() as base:
        yield _SeenTexts(base)


@contextmanager
def scratch() -> Iterator[sqlite3.Connection]:
    """A data base on this machine's disk, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="quitmt-") as folder:
        base = sqlite3.connect(Path(folder) / "scratch.sqlite")
        try:
            yield base
        finally:
            base.close()


def pack(planned: Sequence[Planned]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    types = [(name, pyarrow.bool_() if name == "first" else pyarrow.string()) for name in FIELDS]
    table = pyarrow.table({name: [getattr(row, name) for row in planned] for name in FIELDS}, pyarrow.schema(types))
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def unpack(data: bytes) -> list[Planned]:
    import pyarrow
    from pyarrow import parquet

    table = parquet.read_table(pyarrow.BufferReader(data))
    return [Planned(**row) for row in table.to_pylist()]
