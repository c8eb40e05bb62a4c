"""Reads rows from input files in constant memory: Parquet, JSON lines, CSV, TSV and plain text.

Files may be compressed by gzip or zstd, which the first bytes show. Row numbers count from 1 in each file: lines of
text and JSON, records and blank lines of CSV and TSV after the header, rows of Parquet.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from quitmt.batch.columns import renamed
from quitmt.batch.storage import InputFile, message_of, unreadable
from quitmt.errors import InputError, QuitmtError, UsageError, setting, unknown
from quitmt.files.durable import is_writable
from quitmt.files.lines import decoded

FORMATS: Mapping[str, tuple[str, ...]] = {
    "parquet": ("parquet", "pq"),
    "jsonl": ("jsonl", "ndjson", "json"),
    "csv": ("csv",),
    "tsv": ("tsv",),
    "text": (),
}
"""Formats and their file name extensions. All other files are plain text."""
COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
COMPRESSED = ("gz", "gzip", "zst", "zstd")
CHUNK_BYTES = 1 << 18
BATCH_ROWS = 1024
LARGEST_FIELD = 1 << 24
SETTINGS = {
    "source": "source_column",
    "id": "id_column",
    "context": "context_column",
}
"""Maps the purpose of a column to the setting that names it."""
UNCLOSED = "unexpected end of data"
"""Python's error for an unclosed quote at the end of a file."""


@dataclass(frozen=True, slots=True)
class InputColumns:
    """Names of the input columns. Plain text has only a source."""

    source: str = "source"
    id: str | None = None
    context: str | None = None
    header: bool = True
    """Whether the first line of CSV and TSV has the names. If not, columns are called 1, 2, 3, …"""

    @property
    def wanted(self) -> dict[str, str]:
        """Maps the purpose of each named column to its name."""
        return {use: name for use in SETTINGS if (name := getattr(self, use)) is not None}


@dataclass(frozen=True, slots=True)
class InputRow:
    """A row of the input. ``id`` is None if the files have no ids."""

    number: int
    source: str
    id: str | None = None
    context: str = ""
    others: Mapping[str, Any] = field(default_factory=dict)
    """The columns that the job doesn't use, by their names in the output."""


def format_of(files: Sequence[InputFile], wanted: str | None = None) -> str:
    """Returns the format that all files share."""
    if wanted is not None:
        if wanted not in FORMATS:
            raise unknown("format", wanted, FORMATS)
        return wanted
    first = _by_name(files[0].name)
    for file in files:
        if (other := _by_name(file.name)) != first:
            raise UsageError(
                f"all inputs of a job must have one format, but {files[0].name} is {first} and {file.name} is {other}",
                hint="run one job per format",
            )
    return first


def _by_name(name: str) -> str:
    *_, last = [part for part in name.lower().split(".") if part not in COMPRESSED] or [""]
    return next((one for one, ends in FORMATS.items() if last in ends), "text")


def read(file: InputFile, format_name: str, columns: InputColumns) -> Iterator[InputRow]:
    """Yields the rows of a file. Every problem with the file is an ``InputError`` that names it."""
    if format_name == "text":
        if extra := [use for use in columns.wanted if use != "source"]:
            raise UsageError(f"{file.name} is plain text, which has no column for the {extra[0].replace('_', ' ')}")
        return (InputRow(number, text) for number, text in _lines(file))
    if format_name == "parquet":
        return _rows(_parquet(file, columns), file, columns)
    if format_name == "jsonl":
        return _rows(_json(file, columns), file, columns)
    return _rows(_separated(file, columns, "\t" if format_name == "tsv" else ","), file, columns)


def _rows(
    records: Iterator[tuple[int, Mapping[str, Any]]], file: InputFile, columns: InputColumns
) -> Iterator[InputRow]:
    wanted = columns.wanted
    for number, record in records:
        cells = {use: _text(record.get(name), use, name, file, number) for use, name in wanted.items()}
        if "id" in wanted and not cells["id"]:
            raise InputError(f"{file.name}, row {number}: there is no id in {columns.id!r}")
        others = renamed(record, (columns.source, columns.id))
        yield InputRow(number, cells["source"] or "", cells.get("id"), cells.get("context") or "", others)


def _text(value: Any, use: str, name: str, file: InputFile, number: int) -> str | None:
    if use == "id" and type(value) is int:
        return str(value)
    if value is None or (isinstance(value, str) and is_writable(value)):
        return value
    kind = "invalid Unicode" if isinstance(value, str) else type(value).__name__
    raise InputError(f"{file.name}, row {number}: {name!r} must be text, not {kind}")


def _check_columns(there: Sequence[str], file: InputFile, columns: InputColumns) -> None:
    for use, name in columns.wanted.items():
        if name not in there:
            hint = f"{setting(f'batch.{SETTINGS[use]}')} names one of {', '.join(map(str, there)) or 'none'}"
            raise InputError(f"{file.name} has no column {name!r}", hint=hint)
        if there.count(name) > 1:
            raise InputError(f"{file.name} has {there.count(name)} columns {name!r}", hint="rename all but one")


def _parquet(file: InputFile, columns: InputColumns) -> Iterator[tuple[int, Mapping[str, Any]]]:
    from pyarrow import parquet

    with closing(file.place.open()) as opened:
        try:
            found = parquet.ParquetFile(opened)
            _check_columns(found.schema_arrow.names, file, columns)
            number = 0
            for batch in found.iter_batches(BATCH_ROWS):
                for record in batch.to_pylist():
                    number += 1
                    yield number, record
        except QuitmtError:
            raise
        except Exception as error:
            raise _unusable(file, "Parquet", error) from None


def _json(file: InputFile, columns: InputColumns) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Every record must have a source, and an id if ids are wanted. Other wanted columns must be in at least one
    record."""
    first: list[str] = []
    missing: set[str] | None = None
    for number, line in _lines(file):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file.name}, line {number}: not JSON: {message_of(error)}") from None
        if not isinstance(record, dict):
            raise InputError(f"{file.name}, line {number}: must be an object, not {type(record).__name__}")
        if columns.source not in record or (columns.id is not None and columns.id not in record):
            _check_columns(list(record), file, InputColumns(columns.source, columns.id))
        if missing is None:
            first, missing = list(record), {*columns.wanted.values()}
        if missing:
            missing -= record.keys()
        yield number, record
    if missing:  # a name that no record has is probably misspelt
        _check_columns(first, file, columns)


def _separated(file: InputFile, columns: InputColumns, separator: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    names: list[str] = []
    number = 0
    for values in _records(file, separator):
        if not names and _is_blank(values):  # the number of columns isn't known yet
            number += 1
            continue
        if not names:
            names = values if columns.header else [str(one) for one in range(1, len(values) + 1)]
            _check_columns(names, file, columns)
            if columns.header:
                number = 0
                continue
            if len(names) == 1:
                yield from ((before, {names[0]: ""}) for before in range(1, number + 1))
        number += 1
        if len(names) == 1:
            values = values or [""]
        elif _is_blank(values):
            continue
        if len(values) != len(names):
            raise InputError(f"{file.name}, row {number}: {len(values)} columns instead of {len(names)}")
        yield number, dict(zip(names, values, strict=True))


def _is_blank(values: Sequence[str]) -> bool:
    return len(values) < 2 and not "".join(values).strip()


def _records(file: InputFile, separator: str) -> Iterator[list[str]]:
    """TSV has no quotes, as in the field's tools. Quotes in CSV are checked, because an unclosed quote would merge many
    records into one."""
    csv.field_size_limit(LARGEST_FIELD)
    lines = (f"{line}\n" for _, line in _lines(file))
    plain: dict[str, Any] = {"delimiter": separator, "quoting": csv.QUOTE_NONE}
    reader = csv.reader(lines, **(plain if separator == "\t" else {"strict": True}))
    begins = 1
    try:
        for values in reader:
            yield values
            begins = reader.line_num + 1
    except csv.Error as error:
        where = f"{file.name}, line {begins}"
        if str(error) == UNCLOSED:
            raise InputError(f"{where}: a quote is never closed", hint="close it, or double it") from None
        raise InputError(f"{where}: {message_of(error)}") from None


def _lines(file: InputFile) -> Iterator[tuple[int, str]]:
    """Reads lines like ``quitmt.files.lines``: in UTF-8, ended by a line feed only."""
    number, pieces = 0, list[bytes]()
    for chunk in _chunks(file):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            number += 1
            yield number, decoded(b"".join([*pieces, line]) if pieces else line, file.name, number)
            pieces.clear()
        if rest:
            pieces.append(rest)
    if pieces:
        yield number + 1, decoded(b"".join(pieces), file.name, number + 1)


def _chunks(file: InputFile) -> Iterator[bytes]:
    import pyarrow

    with closing(file.place.open()) as opened:
        with unreadable(file.name):
            head = opened.read(4)
            opened.seek(0)
        kind = next((name for magic, name in COMPRESSIONS.items() if head.startswith(magic)), None)
        read_some: Callable[[int], bytes] = opened.read
        if kind is not None:
            read_some = pyarrow.CompressedInputStream(pyarrow.PythonFile(opened, "r"), kind).read
        while True:
            try:
                chunk = read_some(CHUNK_BYTES)
            except Exception as error:
                raise _unusable(file, f"{kind} data" if kind else None, error) from None
            if not chunk:
                return
            yield chunk


def _unusable(file: InputFile, kind: str | None, error: Exception) -> InputError:
    """Makes the error for an unusable file. pyarrow reports damaged data; a file system may raise anything."""
    import pyarrow

    is_damaged = kind is not None and isinstance(error, (pyarrow.ArrowException, OSError))
    return InputError(f"{file.name}: {f'damaged {kind}' if is_damaged else 'cannot be read'}: {message_of(error)}")
