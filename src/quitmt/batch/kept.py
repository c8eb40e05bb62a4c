"""The user's own columns, which a job hands on to its output.

Numbers, Booleans and texts keep their types, which are found while the input is read. In Parquet everything else, such
as a list or a date, and a column of several types, becomes text: as it is, or as JSON. In JSON lines values stay as
they were. A column with the name of a field of outcomes is called ``input_NAME``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

TEXT = "string"
_INT64 = range(-(1 << 63), 1 << 63)


def renamed(record: Mapping[str, Any], used: Iterable[str | None], taken: Iterable[str]) -> dict[str, Any]:
    """The columns of a row that are not ``used``, by the names they have in the output, where some are ``taken``."""
    used, taken = {*used}, {*taken}
    others = {name: value for name, value in record.items() if name not in used}
    return {f"input_{name}" if name in taken else name: value for name, value in others.items()}


def learn(types: dict[str, str | None], row: Mapping[str, Any]) -> None:
    """Note the columns of a row, with the one type that fits all their values so far; None until there is a value."""
    for name, value in row.items():
        known, found = types.get(name), _type(value)
        if known is None or found is None or known == found:
            types[name] = known or found
        else:
            types[name] = "float64" if {known, found} == {"int64", "float64"} else TEXT


def _type(value: Any) -> str | None:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if value in _INT64 else TEXT
    if isinstance(value, float):
        return "float64"
    return None if value is None else TEXT


def packed(row: Mapping[str, Any]) -> str:
    """A row's columns as JSON; what JSON lacks becomes text."""
    return json.dumps(row, default=str)


def typed(value: Any, type_name: str) -> Any:
    """A value as a column of Parquet takes it."""
    if type_name == TEXT and value is not None and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return value
