"""Splits the input into numbered parts of a bounded number of rows, each with everything that its worker needs.

The whole input is read once before any translation starts, so a damaged file, a missing column or a duplicate id is
found before anything is spent. Parts don't depend on the number of workers.

With ``distinct``, each row has a key made from its source and context. Only the first row with a key is translated.
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

from quitmt.batch import columns, rows
from quitmt.batch.job import BatchJob, Folder
from quitmt.batch.storage import InputFile, covers
from quitmt.engine.items import Context
from quitmt.errors import InputError, UsageError
from quitmt.types import Segment

FIELDS = ("id", "source", "context", "key", "first", "others")


@dataclass(frozen=True, slots=True)
class Planned:
    """A row of a part."""

    id: str
    source: str
    context: str
    key: str
    """Equal for equal rows; empty without ``distinct``."""
    first: bool
    """Whether this row is translated; with ``distinct`` only the first row with its key is."""
    others: str = "{}"
    """The user's other columns, as JSON."""

    def as_segment(self) -> Segment:
        return Segment(self.id, self.source, self.context)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    parts: tuple[int, ...]
    """The number of rows in each part."""
    distinct: int
    """The number of rows to translate, including blank ones."""
    others: Mapping[str, str] = field(default_factory=dict)
    """The user's other columns and their types."""

    @property
    def rows(self) -> int:
        return sum(self.parts)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> BatchPlan:
        return cls(tuple(fields["parts"]), fields["distinct"], dict(fields["others"]))


def refuse_output_as_input(job: BatchJob) -> None:
    """Refuses an output folder that lies among the inputs: on a rerun the results would be read as inputs."""
    for pattern in job.inputs:
        if covers(pattern, job.folder.place, job.folder.name(0)):
            hint = "choose a folder outside the inputs"
            raise UsageError(f"the output {job.output} would be among the inputs {pattern}", hint=hint)


def prepare(job: BatchJob, files: Sequence[InputFile], format_name: str) -> BatchPlan:
    """Returns the plan of a job that has claimed its folder: the plan of an earlier run if it is complete, otherwise a
    new one."""
    folder, found = job.folder, _earlier(job.folder)
    if found is not None and _all_there(folder, found):
        return found
    folder.make()  # a finished job has removed some of its folders
    plan = make(job, files, format_name)
    (folder.state / "plan.json").write(json.dumps(asdict(plan)).encode())
    return plan


def _earlier(folder: Folder) -> BatchPlan | None:
    place = folder.state / "plan.json"
    try:
        return BatchPlan.from_fields(json.loads(place.read())) if place.exists() else None
    except (ValueError, KeyError, TypeError, IndexError):  # a damaged plan is made again
        return None


def _all_there(folder: Folder, plan: BatchPlan) -> bool:
    """Whether every part has its result or its rows. A finished job keeps only results."""
    results, inputs = folder.place.names(), (folder.state / "input").names()
    return all(
        folder.name(part) in results or folder.rows(part).url.rpartition("/")[2] in inputs
        for part in range(len(plan.parts))
    )


def make(job: BatchJob, files: Sequence[InputFile], format_name: str) -> BatchPlan:
    folder = job.folder
    parts: list[int] = []
    types: dict[str, str | None] = {}
    distinct, waiting = 0, list[Planned]()

    def put() -> None:
        folder.rows(len(parts)).write(pack(waiting))
        parts.append(len(waiting))
        waiting.clear()

    with scratch() as key_base, scratch() as id_base:
        keys, ids = _SeenTexts(key_base), _SeenTexts(id_base)
        for row in _planned(job, files, format_name, keys, types):
            if job.columns.id is not None and not ids.add(row.id):
                raise InputError(f"the id {row.id!r} occurs twice", hint="ids must be unique in the whole input")
            distinct += row.first
            waiting.append(row)
            if len(waiting) == job.rows_per_file:
                put()
    if waiting:
        put()
    return BatchPlan(tuple(parts), distinct, {name: one or columns.TEXT for name, one in types.items()})


def _planned(
    job: BatchJob, files: Sequence[InputFile], format_name: str, keys: _SeenTexts, types: dict[str, str | None]
) -> Iterator[Planned]:
    for file in files:
        before = Context(job.recipe.model.context)
        for row in rows.read(file, format_name, job.columns):
            own_id = f"{file.name}:{row.number}" if row.id is None else row.id
            context = before.of(Segment(own_id, row.source, row.context)).context
            key = _key(row.source, context) if job.distinct else ""
            first = keys.add(key) if job.distinct else True
            columns.learn(types, row.others)
            yield Planned(own_id, row.source, context, key, first, json.dumps(row.others, default=str))


def _key(source: str, context: str) -> str:
    text = json.dumps([source, context], ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class _SeenTexts:
    """Remembers texts on disk, so that memory doesn't grow with their number."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base
        base.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; CREATE TABLE seen (text TEXT PRIMARY KEY) WITHOUT ROWID"
        )

    def add(self, text: str) -> bool:
        """Adds a text and returns whether it is new."""
        return self._base.execute("INSERT OR IGNORE INTO seen VALUES (?)", (text,)).rowcount == 1


@contextmanager
def scratch() -> Iterator[sqlite3.Connection]:
    """Opens a temporary database on this machine's disk."""
    with tempfile.TemporaryDirectory(prefix="quitmt-") as folder:
        base = sqlite3.connect(Path(folder) / "scratch.sqlite")
        try:
            yield base
        finally:
            base.close()


def pack(planned: Sequence[Planned]) -> bytes:
    return columns.parquet_bytes(
        [{name: getattr(row, name) for name in FIELDS} for row in planned],
        {name: "bool" if name == "first" else columns.TEXT for name in FIELDS},
    )


def unpack(data: bytes) -> list[Planned]:
    return [Planned(**row) for row in columns.from_bytes(data, "parquet", "the rows of a part")]
