"""The columns of the output files (Parquet or JSON lines): the fields of an outcome and the user's other columns.

Invariant: a repeated job gives equal bytes, so ``seconds`` and ``copied`` are left out. A new field of outcomes appears
in JSON lines automatically; in Parquet it needs a line in ``SCHEMA``.

The user's numbers, Booleans and texts keep their types, which are inferred while the input is read. In Parquet, other
values (such as lists and dates) and columns with several types become text. JSON lines keep all values as they are. A
user column with the name of an outcome field is renamed to ``input_NAME``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quitmt.batch.storage import message_of
from quitmt.errors import InputError
from quitmt.files.durable import encoded, writable
from quitmt.files.outcomes import nbest_fields, to_fields
from quitmt.types import Finished, StopReason

SCHEMA: Mapping[str, Any] = {
    "id": "string",
    "source": "string",
    "translation": "string",
    "index": "int32",
    "score": "float64",
    "size": "int32",
    "budget": "int32",
    "stop": "string",
    "trajectory": ["float64"],
    "signature": "string",
    "anchors": "int32",
    "origin": "string",
    "warnings": ["string"],
    "effort": {"evaluations": "int64", "possible": "int64", "encoded": "int64"},
    "nbest": [
        {
            "index": "int32",
            "text": "string",
            "score": "float64",
            "count": "int32",
            "log_probability": "float64",
            "origin": "string",
        }
    ],
    "error": "string",
}
"""Column names and types. A list holds its element type, a mapping its fields."""
TIMED = ("seconds", "copied")
"""Fields of outcomes that differ between runs."""
OUTPUT_FIELDS = frozenset((*SCHEMA, *TIMED))
NBEST = "nbest"
TEXT = "string"
_INT64 = range(-(1 << 63), 1 << 63)
SUFFIXES = {"parquet": ".parquet", "jsonl": ".jsonl"}


def record(finished: Finished, row_id: str, nbest: int = 0) -> dict[str, Any]:
    """Makes a row of the output from an outcome, the id of its row and the ``nbest`` best candidates."""
    fields = {name: value for name, value in to_fields(finished.outcome).items() if name not in TIMED}
    fields["id"] = row_id
    if nbest:
        fields[NBEST] = [nbest_fields(one) for one in finished.ranked[:nbest]]
    return fields


def is_failed(fields: Mapping[str, Any]) -> bool:
    return bool(fields["stop"] == StopReason.FAILED.value)


def to_bytes(
    records: Sequence[Mapping[str, Any]], kind: str, columns: Sequence[str], others: Mapping[str, str]
) -> bytes:
    """Encodes records as a file. ``others`` maps the user's other columns, which every record has, to their types."""
    if kind == "jsonl":
        return b"".join(encoded(json.dumps(_ordered(one), ensure_ascii=False)) + b"\n" for one in records)
    rows = [
        {name: _writable(one.get(name)) for name in columns}
        | {name: _writable(_typed(one.get(name), type_name)) for name, type_name in others.items()}
        for one in records
    ]
    return parquet_bytes(rows, {name: SCHEMA[name] for name in columns} | {**others})


def parquet_bytes(rows: Sequence[Mapping[str, Any]], types: Mapping[str, Any]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([(name, _arrow_type(declared)) for name, declared in types.items()])
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(data: bytes, kind: str, name: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Decodes the rows of a file; ``columns`` limits them to some columns."""
    import pyarrow
    from pyarrow import parquet

    try:
        if kind == "jsonl":
            return [json.loads(line) for line in data.splitlines()]
        table = parquet.read_table(pyarrow.BufferReader(data), columns=columns and list(columns))
        return list(table.to_pylist())
    except (ValueError, OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{name} is damaged: {message_of(error)}", hint="delete it and run again") from None


def names(nbest: int) -> tuple[str, ...]:
    return tuple(name for name in SCHEMA if name != NBEST or nbest)


def _ordered(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Sorts the fields like the schema; other columns come last."""
    return {name: fields[name] for name in [*SCHEMA, *fields] if name in fields}


def _arrow_type(declared: Any) -> Any:
    import pyarrow

    if isinstance(declared, list):
        return pyarrow.list_(_arrow_type(declared[0]))
    if isinstance(declared, Mapping):
        return pyarrow.struct([(name, _arrow_type(one)) for name, one in declared.items()])
    return pyarrow.type_for_alias(declared)


def _writable(value: Any) -> Any:
    """Replaces characters that a file cannot hold; error messages may contain some."""
    return writable(value) if isinstance(value, str) else value


def renamed(record: Mapping[str, Any], used: Iterable[str | None]) -> dict[str, Any]:
    """Returns the columns of a row that the job doesn't use, with the names they have in the output."""
    used = {*used}
    others = {name: value for name, value in record.items() if name not in used}
    return {f"input_{name}" if name in OUTPUT_FIELDS else name: value for name, value in others.items()}


def learn(types: dict[str, str | None], row: Mapping[str, Any]) -> None:
    """Updates the column types so that they fit this row, too. The type is None until a column has a value."""
    for name, value in row.items():
        known, seen = types.get(name), _type_of(value)
        if known is None or seen is None or known == seen:
            types[name] = known or seen
        else:
            types[name] = "float64" if {known, seen} == {"int64", "float64"} else TEXT


def _type_of(value: Any) -> str | None:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if value in _INT64 else TEXT
    if isinstance(value, float):
        return "float64"
    return None if value is None else TEXT


def _typed(value: Any, type_name: str) -> Any:
    """Converts a value to what a Parquet column of this type takes."""
    if type_name == TEXT and value is not None and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return value
