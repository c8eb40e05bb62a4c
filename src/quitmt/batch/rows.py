"""Rows of input files, one after the other and in constant memory: Parquet, JSON lines, CSV, TSV and plain text.

Plain or compressed by gzip or zstd, which is told by the first bytes. A row's number counts from 1 within its file:
lines of text and of JSON, records and blank lines of CSV and TSV after the header, rows of Parquet.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from quitmt.batch import kept
from quitmt.batch.columns import OUTPUT_FIELDS
from quitmt.batch.storage import InputFile, told, unreadable
from quitmt.errors import InputError, QuitmtError, UsageError, setting, unknown
from quitmt.files.durable import is_writable

FORMATS: Mapping[str, tuple[str, ...]] = {
    "parquet": ("parquet", "pq"),
    "jsonl": ("jsonl", "ndjson", "json"),
    "csv": ("csv",),
    "tsv": ("tsv",),
    "text": (),
}
"""With the ends of names by which they are told; all others are plain text."""
COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
COMPRESSED = ("gz", "gzip", "zst", "zstd")
CHUNK_BYTES = 1 << 18
BATCH_ROWS = 1024
LARGEST_FIELD = 1 << 24
SETTINGS = {
    "source": "source_column",
    "id": "id_column",
    "source_language": "src_column",
    "target_language": "tgt_column",
    "context": "context_column",
}
"""From what a column is for to the setting that names it."""
UNCLOSED = "unexpected end of data"
"""What Python says of a quote that is open at the end of a file."""


@dataclass(frozen=True, slots=True)
class InputColumns:
    """The names of columns. Plain text has only a source."""

    source: str = "source"
    id: str | None = None
    source_language: str | None = None
    target_language: str | None = None
    context: str | None = None
    header: bool = True
    """Of CSV and TSV: whether the first line has names. If not, columns are called 1, 2, 3, …"""

    @property
    def wanted(self) -> dict[str, str]:
        """From what it is for to its name, of those that are named."""
        return {use: name for use in SETTINGS if (name := getattr(self, use)) is not None}


@dataclass(frozen=True, slots=True)
class InputRow:
    """A row of the input. ``id`` is None where the files have none."""

    number: int
    source: str
    id: str | None = None
    source_language: str | None = None
    target_language: str | None = None
    context: str = ""
    others: Mapping[str, Any] = field(default_factory=dict)
    """The columns that the job itself doesn't use, by the names they have in the output."""


def format_of(files: Sequence[InputFile], given: str | None = None) -> str:
    """The one format of all files."""
    if given is not None:
        if given not in FORMATS:
            raise unknown("format", given, FORMATS)
        return given
    first = _by_name(files[0].name)
    for file in files:
        if (other := _by_name(file.name)) != first:
            told = f"{files[0].name} is {first} and {file.name} is {other}"
            raise UsageError(f"inputs of one job have one format, but {told}", hint="name those of one format")
    return first


def _by_name(name: str) -> str:
    *_, last = [part for part in name.lower().split(".") if part not in COMPRESSED] or [""]
    return next((one for one, ends in FORMATS.items() if last in ends), "text")


def read(file: InputFile, format_name: str, columns: InputColumns) -> Iterator[InputRow]:
    """The rows of a file; whatever is wrong with it is an ``InputError`` that names it."""
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
        found = {use: _text(record.get(name), use, name, file, number) for use, name in wanted.items()}
        if "id" in wanted and not found["id"]:
            raise InputError(f"{file.name}, row {number}: there is no id in {columns.id!r}")
        found["source"], found["context"] = found["source"] or "", found.get("context") or ""
        for language in ("source_language", "target_language"):
            found[language] = found.get(language) or None  # an empty cell means the recipe's, as no cell does
        others = kept.renamed(record, (columns.source, columns.id), OUTPUT_FIELDS)
        yield InputRow(number, **found, others=others)  # type: ignore[arg-type]


def _text(value: Any, use: str, name: str, file: InputFile, number: int) -> str | None:
    if use == "id" and type(value) is int:
        return str(value)
    if value is None or (isinstance(value, str) and is_writable(value)):
        return value
    kind = "no Unicode text" if isinstance(value, str) else f"{type(value).__name__} and no text"
    raise InputError(f"{file.name}, row {number}: {name!r} holds {kind}")


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
    """Every record has a source, and an id if ids are wanted. What else is wanted, at least one record has."""
    first: list[str] = []
    missing: set[str] | None = None
    for number, line in _lines(file):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file.name}, line {number}: not JSON: {told(error)}") from None
        if not isinstance(record, dict):
            raise InputError(f"{file.name}, line {number}: an object is wanted, not {type(record).__name__}")
        if columns.source not in record or (columns.id is not None and columns.id not in record):
            _check_columns(list(record), file, InputColumns(columns.source, columns.id))
        if missing is None:
            first, missing = list(record), {*columns.wanted.values()}
        if missing:
            missing -= record.keys()
        yield number, record
    if missing:  # a name that no record has is misspelt
        _check_columns(first, file, columns)


def _separated(file: InputFile, columns: InputColumns, separator: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    names: list[str] = []
    number = 0
    for values in _records(file, separator):
        if not names and _is_blank(values):  # nobody knows yet how many columns there are
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
            told_of = f"{len(values)} columns in place of {len(names)}"
            raise InputError(f"{file.name}, row {number}: {told_of}")
        yield number, dict(zip(names, values, strict=True))


def _is_blank(values: Sequence[str]) -> bool:
    return len(values) < 2 and not "".join(values).strip()


def _records(file: InputFile, separator: str) -> Iterator[list[str]]:
    """TSV knows no quotes, as the tools of the field write it. In CSV they are checked: a quote that is not closed
    would make one record of many."""
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
            raise InputError(f"{where}: a quote is opened and never closed", hint="close it, or double it") from None
        raise InputError(f"{where}: {told(error)}") from None


def _lines(file: InputFile) -> Iterator[tuple[int, str]]:
    """As ``quitmt.files.lines`` reads them: UTF-8, and a line ends with a line feed and nothing else."""
    number, pieces = 0, list[bytes]()
    for chunk in _chunks(file):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            number += 1
            yield number, _decoded(b"".join([*pieces, line]) if pieces else line, file, number)
            pieces.clear()
        if rest:
            pieces.append(rest)
    if pieces:
        yield number + 1, _decoded(b"".join(pieces), file, number + 1)


def _decoded(line: bytes, file: InputFile, number: int) -> str:
    try:
        text = line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"line {number}: not UTF-8 (byte {error.start + 1} of the line)"
        raise InputError(f"{file.name}, {place}", hint="convert it first, e.g. with iconv -t UTF-8") from None
    return text.removeprefix("\ufeff") if number == 1 else text


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
    """What reading failed by: pyarrow says that data are damaged, a file system may raise whatever it likes."""
    import pyarrow

    is_damaged = kind is not None and isinstance(error, (pyarrow.ArrowException, OSError))
    return InputError(f"{file.name}: {f'damaged {kind}' if is_damaged else 'cannot be read'}: {told(error)}")
