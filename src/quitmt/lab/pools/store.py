"""Results kept by what they were computed from: rows in Parquet files, written as they come.

A table is a folder of parts. Each row has a ``key``, a digest of everything it depends on. A row whose key exists is
never computed again, whatever else has changed. A crash leaves no half-written part. Other tools (pyarrow, pandas,
polars, DuckDB) can read the folder as one dataset.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from quitmt.errors import InputError, MissingExtra

ROWS_PER_PART = 64
SECONDS_PER_PART = 60.0
"""A crash loses at most the work of this time, besides the rows in progress."""


def key_of(*parts: str) -> str:
    """A digest of texts; moving a boundary between two texts changes it."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


class RowStore:
    """Rows by key, in a folder. As a context manager it writes the waiting rows even if an error occurs."""

    def __init__(self, folder: Path, *, rows_per_part: int = ROWS_PER_PART) -> None:
        self._folder = folder
        self._rows_per_part = rows_per_part
        self._waiting: list[dict[str, Any]] = []
        self._since = 0.0
        require()
        folder.mkdir(parents=True, exist_ok=True)
        for torn in folder.glob("*.tmp"):
            torn.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def keys(self) -> set[str]:
        return {key for part in self._parts() for key in _read(part, ["key"]).column(0).to_pylist()}

    def read(self, keys: Iterable[str], columns: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The rows with these keys, lists as numpy arrays."""
        wanted, found = set(keys), dict[str, dict[str, Any]]()
        for part in self._parts():
            table = _read(part, ["key", *columns])
            values = {name: _values(table.column(name)) for name in columns}
            for row, key in enumerate(table.column("key").to_pylist()):
                if key in wanted:
                    found[key] = {name: values[name][row] for name in columns}
        return found

    def add(self, row: Mapping[str, Any]) -> None:
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(dict(row))
        if len(self._waiting) >= self._rows_per_part or time.monotonic() - self._since > SECONDS_PER_PART:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        arrow, parquet = require()
        # Not the number of parts: a user may have deleted one, and no part may be overwritten.
        number = max((int(part.stem.removeprefix("part-")) + 1 for part in self._parts()), default=0)
        path = self._folder / f"part-{number:05d}.parquet"
        temporary = path.with_suffix(".tmp")
        table = arrow.Table.from_pylist(self._waiting)
        floats = [field.name for field in table.schema if arrow.types.is_list(field.type)]
        floats = [name for name in floats if arrow.types.is_floating(table.schema.field(name).type.value_type)]
        parquet.write_table(
            table,
            temporary,
            compression="zstd",
            # Floats rarely repeat, so splitting their bytes into streams compresses better than a dictionary.
            use_dictionary=[name for name in table.column_names if name not in floats],
            use_byte_stream_split=[f"{name}.list.element" for name in floats],
        )
        temporary.replace(path)
        self._waiting = []

    def _parts(self) -> list[Path]:
        return sorted(self._folder.glob("part-*.parquet"))


def _read(part: Path, columns: Sequence[str]) -> Any:
    _, parquet = require()
    try:
        return parquet.read_table(part, columns=list(columns))
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{part} cannot be read: {reason}", hint="delete it: it will be computed again") from None


def _values(column: Any) -> Sequence[Any]:
    """A column's values. Lists become numpy arrays without a Python object for each of their numbers."""
    arrow, _ = require()
    if not arrow.types.is_list(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    found = []
    for chunk in column.chunks:
        ends, values = chunk.offsets.to_numpy(), chunk.values.to_numpy(zero_copy_only=False)
        found += [values[start:stop] for start, stop in pairwise(ends.tolist())]
    return found


def require() -> tuple[Any, Any]:
    """pyarrow and its parquet module; callers that need them after hours of work check this before."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("the lab needs pyarrow", hint="pip install 'quitmt[lab]'") from None
    return pyarrow, pyarrow.parquet
