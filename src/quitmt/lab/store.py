"""Results kept by what they were computed from: rows in Parquet files, written as they come.

A table is a folder of parts. Each row has a ``key``, a digest of everything it depends on; a row whose key is there is
never computed again, whatever else changed, and a part that a kill left half-written is not there at all. Others can
read the folder as one dataset (pyarrow, pandas, polars, DuckDB).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quitmt.errors import InputError, MissingExtra

ROWS_A_PART = 64


def key_of(*parts: str) -> str:
    """A digest of texts; where one ends and the next begins makes a difference."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


class Table:
    """Rows by key, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: list[dict[str, Any]] = []
        folder.mkdir(parents=True, exist_ok=True)
        for torn in folder.glob("*.tmp"):
            torn.unlink()

    def keys(self) -> set[str]:
        _, parquet = _arrow()
        return {
            key for part in self._parts() for key in parquet.read_table(part, columns=["key"]).column(0).to_pylist()
        }

    def read(self, keys: Iterable[str], columns: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The rows of some keys, lists as numpy arrays."""
        _, parquet = _arrow()
        wanted, found = set(keys), dict[str, dict[str, Any]]()
        for part in self._parts():
            try:
                table = parquet.read_table(part, columns=["key", *columns])
            except Exception as error:
                raise InputError(f"{part} cannot be read: {error}", hint="delete it: it will be made again") from None
            for row, key in enumerate(table.column("key").to_pylist()):
                if key in wanted:
                    found[key] = {name: _value(table.column(name)[row]) for name in columns}
        return found

    def add(self, row: Mapping[str, Any]) -> None:
        self._waiting.append(dict(row))
        if len(self._waiting) >= ROWS_A_PART:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        arrow, parquet = _arrow()
        number = len(self._parts())
        path = self._folder / f"part-{number:05d}.parquet"
        temporary = path.with_suffix(".tmp")
        parquet.write_table(arrow.Table.from_pylist(self._waiting), temporary, compression="zstd")
        temporary.replace(path)
        self._waiting = []

    def _parts(self) -> list[Path]:
        return sorted(self._folder.glob("part-*.parquet"))


def _value(cell: Any) -> Any:
    found = cell.as_py()
    if isinstance(found, list):
        return cell.values.to_numpy(zero_copy_only=False)
    return found


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("the lab needs pyarrow", hint="pip install 'quitmt[lab]'") from None
    return pyarrow, pyarrow.parquet
