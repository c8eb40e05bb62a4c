"""The columns of the output, which are the fields of an outcome, and files of them: Parquet or JSON lines.

Invariant: the same outcomes are the same bytes. So what a clock says (``seconds``) is not in them. A new field of
outcomes needs a line in ``SCHEMA`` to come along in Parquet; in JSON lines it comes by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from quitmt.batch.kept import typed
from quitmt.batch.storage import told
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
"""Names and types; a list is of its one type, a mapping has fields."""
TIMED = ("seconds",)
"""Fields of outcomes that are not the same in every run."""
OUTPUT_FIELDS = frozenset((*SCHEMA, *TIMED))
NBEST = "nbest"
SUFFIXES = {"parquet": ".parquet", "jsonl": ".jsonl"}


def record(finished: Finished, own_id: str, nbest: int = 0) -> dict[str, Any]:
    """A row of the output: an outcome with the id of its row, and with the ``nbest`` best candidates, if any."""
    fields = {name: value for name, value in to_fields(finished.outcome).items() if name not in TIMED}
    fields["id"] = own_id
    if nbest:
        fields[NBEST] = [nbest_fields(one) for one in finished.ranked[:nbest]]
    return fields


def is_failed(fields: Mapping[str, Any]) -> bool:
    return bool(fields["stop"] == StopReason.FAILED.value)


def to_bytes(
    records: Sequence[Mapping[str, Any]], kind: str, columns: Sequence[str], others: Mapping[str, str]
) -> bytes:
    """``others`` are the user's own columns, which every record has too, with their types."""
    if kind == "jsonl":
        return b"".join(encoded(json.dumps(_ordered(one), ensure_ascii=False)) + b"\n" for one in records)
    import pyarrow
    from pyarrow import parquet

    rows = [
        {name: _writable(one.get(name)) for name in columns}
        | {name: _writable(typed(one.get(name), type_name)) for name, type_name in others.items()}
        for one in records
    ]
    types = [(name, _type(SCHEMA[name])) for name in columns] + [(name, _type(one)) for name, one in others.items()]
    schema = pyarrow.schema(types)
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(data: bytes, kind: str, name: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Rows again; ``columns`` are those that are wanted."""
    import pyarrow
    from pyarrow import parquet

    try:
        if kind == "jsonl":
            return [json.loads(line) for line in data.splitlines()]
        table = parquet.read_table(pyarrow.BufferReader(data), columns=columns and list(columns))
        return list(table.to_pylist())
    except (ValueError, OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{name} is damaged: {told(error)}", hint="delete it, and run again") from None


def names(nbest: int) -> tuple[str, ...]:
    return tuple(name for name in SCHEMA if name != NBEST or nbest)


def _ordered(fields: Mapping[str, Any]) -> dict[str, Any]:
    """As people read them, what is not in the schema at the end."""
    return {name: fields[name] for name in [*SCHEMA, *fields] if name in fields}


def _type(declared: Any) -> Any:
    import pyarrow

    if isinstance(declared, list):
        return pyarrow.list_(_type(declared[0]))
    if isinstance(declared, Mapping):
        return pyarrow.struct([(name, _type(one)) for name, one in declared.items()])
    return pyarrow.type_for_alias(declared)


def _writable(value: Any) -> Any:
    """Errors of others may hold what no file can."""
    return writable(value) if isinstance(value, str) else value
