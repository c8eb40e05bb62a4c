"""Writes rows in the format that the file name tells: Parquet, JSON lines (also gzip), TSV, or two text files.

Existing files are never touched. Unfinished files are removed, so every output file is complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from quitmt.errors import MissingExtra, OutputError, UsageError, setting
from quitmt.export.formats import Kind, Row, Voice
from quitmt.files.outputs import GZIP_SUFFIX, NEW_FILE, STDOUT, Output, one_line

PARQUET, JSON_LINES, TSV = (".parquet",), (".jsonl", ".ndjson", ".json"), (".tsv",)
GROUP_ROWS, GROUP_CHARACTERS = 8192, 1 << 23
"""Limits of a Parquet row group, which is held in memory."""


class Writer(Protocol):
    def write(self, row: Row) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None:
        """Removes the unfinished files."""
        ...


def open_writer(path: str, columns: Mapping[str, Kind], voice: Voice, *, targets: str | None = None) -> Writer:
    """``targets`` is the second file of a parallel corpus."""
    pair = "target" in columns
    if targets is not None and not pair:
        raise UsageError(f"{setting('export.targets')} needs the format 'parallel'")
    suffix = Path(path.removesuffix(GZIP_SUFFIX)).suffix.lower()
    parquet = suffix in PARQUET and not path.endswith(GZIP_SUFFIX)
    known = parquet or path == STDOUT or suffix in (*JSON_LINES, *(TSV if pair else ()))
    if targets is None and not known:
        more = ", or .tsv, or two files" if pair else ""
        names = f".parquet, .jsonl or .jsonl.gz{more}"
        raise UsageError(f"the output's file name must show its format, but {path!r} doesn't", hint=f"use {names}")
    for name in (path, targets):
        if name not in (None, STDOUT) and os.path.lexists(str(name)):
            raise OutputError(f"{name} already exists", hint=NEW_FILE)
    if targets is not None:
        return _LineWriter(_parallel, path, targets)
    if parquet:
        return _Parquet(path, columns, voice)
    if pair and suffix in TSV:
        return _LineWriter(lambda row: ["\t".join(_parallel(row))], path)
    encode = json.JSONEncoder(ensure_ascii=False).encode
    return _LineWriter(lambda row: [encode({name: row[name] for name in columns})], path)


class _LineWriter:
    """Text files that are complete or absent; each gets one line per row."""

    def __init__(self, texts_of: Callable[[Row], Sequence[str]], *paths: str) -> None:
        self._texts_of, self._files = texts_of, list[Output]()
        try:
            for path in paths:
                self._files.append(Output(path))
        except OutputError:
            self.abandon()
            raise

    def write(self, row: Row) -> None:
        for file, text in zip(self._files, self._texts_of(row), strict=True):
            file.write(text)

    def finish(self) -> None:
        for file in self._files:
            file.settle()
            file.close()

    def abandon(self) -> None:
        for file in self._files:
            with suppress(OutputError):
                file.close()
            if file.path != STDOUT:
                Path(file.path).unlink(missing_ok=True)


def _parallel(row: Row) -> list[str]:
    return [_flat(row["source"]), _flat(row["target"])]


def _flat(text: str) -> str:
    """One line of a corpus, without line breaks and tabs."""
    return one_line(text).replace("\t", " ")


class _Parquet:
    def __init__(self, path: str, columns: Mapping[str, Kind], voice: Voice) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            hint = "pip install 'quitmt[export]', or write .jsonl"
            raise MissingExtra("Parquet files need pyarrow", hint=hint) from None
        self._path, self._pyarrow = path, pyarrow
        fields = [(name, arrow_type(kind, voice)) for name, kind in columns.items()]
        self._schema = pyarrow.schema(fields)
        try:
            self._file: BinaryIO = Path(path).open("xb")  # noqa: SIM115  # closed by finish or abandon
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from None
        self._writer = parquet.ParquetWriter(self._file, self._schema, compression="zstd")
        self._rows, self._characters = list[Row](), 0

    def write(self, row: Row) -> None:
        self._rows.append(row)
        self._characters += _size(row)
        if len(self._rows) >= GROUP_ROWS or self._characters >= GROUP_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        columns = {name: [row[name] for row in self._rows] for name in self._schema.names}
        try:
            self._writer.write_table(self._pyarrow.table(columns, schema=self._schema))
        except OSError as error:
            raise OutputError(f"cannot write {self._path}: {error.strerror}") from None
        self._rows, self._characters = [], 0

    def finish(self) -> None:
        if self._rows:
            self._flush()
        try:
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputError(f"cannot write {self._path}: {error.strerror}") from None
        self._file.close()

    def abandon(self) -> None:
        with suppress(OSError):
            self._writer.close()
        self._file.close()
        Path(self._path).unlink(missing_ok=True)


def _size(value: Any) -> int:
    """The approximate number of characters in a row."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list) else 8


def arrow_type(kind: Kind, voice: Voice) -> Any:
    """The type of a column. The type of prompts depends on the template, because message contents may be more than
    text."""
    import pyarrow

    plain = {"text": pyarrow.string(), "number": pyarrow.float64(), "count": pyarrow.int64(), "truth": pyarrow.bool_()}
    if kind in plain:
        return plain[kind]
    if kind == "numbers":
        return pyarrow.list_(pyarrow.float64())
    if kind == "counts":
        return pyarrow.list_(pyarrow.int64())
    found = pyarrow.infer_type([voice.prompt("x") if kind == "prompt" else voice.completion("x")])
    return pyarrow.list_(found) if kind == "completions" else found
