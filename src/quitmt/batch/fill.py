"""Steps after the translation: copies outcomes to equal rows (``distinct``) and writes plain lines (``--text``).

Takes linear time. Memory doesn't grow with the rows, because outcomes that are needed again wait in a database on disk.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from quitmt.batch import columns
from quitmt.batch.job import Folder
from quitmt.batch.plan import BatchPlan, scratch, unpack
from quitmt.batch.storage import InputFile, Location, unwritable
from quitmt.errors import UsageError
from quitmt.files.durable import encoded
from quitmt.files.outputs import Output, one_line


def fill(folder: Folder, plan: BatchPlan, nbest: int) -> None:
    """Writes the results of a job with ``distinct``. Existing results are kept unless the ``refill`` mark says that
    some rows were translated again. The mark is set before that work, so it survives a crash."""
    there = set() if folder.refill.exists() else folder.place.names()
    missing = [part for part in range(len(plan.parts)) if folder.name(part) not in there]
    if missing:
        _fill(folder, plan, nbest, missing)
    folder.refill.remove()


def _fill(folder: Folder, plan: BatchPlan, nbest: int, missing: list[int]) -> None:
    with scratch() as base:
        base.execute("CREATE TABLE known (key TEXT PRIMARY KEY, fields TEXT) WITHOUT ROWID")
        for part in missing:
            repeated = [(row.key,) for row in unpack(folder.rows(part).read()) if not row.first]
            base.executemany("INSERT OR IGNORE INTO known VALUES (?, NULL)", repeated)
        for part in range(len(plan.parts)):
            _remember(base, folder, part)
        for part in missing:
            _write(base, folder, part, nbest, plan.others)


def _remember(base: sqlite3.Connection, folder: Folder, part: int) -> None:
    firsts = _firsts(folder, part)
    rows = ((json.dumps(fields, ensure_ascii=False), key) for key, fields in firsts)
    base.executemany("UPDATE known SET fields = ? WHERE key = ?", rows)


def _firsts(folder: Folder, part: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the key and the outcome of each row of a part that was translated."""
    place = folder.worked(part)
    records = columns.from_bytes(place.read(), folder.output_format, place.url)
    rows = [row for row in unpack(folder.rows(part).read()) if row.first]
    return ((row.key, one) for row, one in zip(rows, records, strict=True))


def _write(base: sqlite3.Connection, folder: Folder, part: int, nbest: int, others: Mapping[str, str]) -> None:
    known = dict(_firsts(folder, part))
    records = []
    for row in unpack(folder.rows(part).read()):
        fields = known.get(row.key)
        if fields is None:
            [text] = base.execute("SELECT fields FROM known WHERE key = ?", (row.key,)).fetchone()
            fields = json.loads(text)
        outcome = {name: value for name, value in fields.items() if name not in others}
        records.append({**outcome, "id": row.id, **json.loads(row.others)})
    folder.result(part).write(columns.to_bytes(records, folder.output_format, columns.names(nbest), others))


def check_text(path: str, inputs: Sequence[InputFile]) -> None:
    """Checks before any work that plain lines can be written to this path."""
    place = Location(path)
    if place.path in {one.place.path for one in inputs}:
        raise UsageError(f"{path} is an input of this job and would be overwritten", hint="write to another file")
    if place.is_local:
        Output(path).close()


def write_text(folder: Folder, plan: BatchPlan, path: str) -> None:
    """Writes the translations as plain lines in the order of the input. A failed row is a blank line."""
    place = Location(path)
    if place.is_local:
        with closing(Output(path)) as output:
            output.begin()
            for line in _translations(folder, plan):
                output.write(line)
            output.settle()
        return
    with unwritable(path), place.system.open(place.path, "wb") as file:
        for line in _translations(folder, plan):
            file.write(encoded(line) + b"\n")


def _translations(folder: Folder, plan: BatchPlan) -> Iterator[str]:
    for part in range(len(plan.parts)):
        result = folder.result(part)
        for fields in columns.from_bytes(result.read(), folder.output_format, result.url, ("translation", "stop")):
            yield "" if columns.is_failed(fields) else one_line(fields["translation"])
