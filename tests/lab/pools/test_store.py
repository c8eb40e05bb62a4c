"""The store: rows by key in Parquet parts, whatever happens to the process or to the files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.dataset
import pytest

from quitmt.errors import InputError
from quitmt.lab.pools import store
from quitmt.lab.pools.store import RowStore, key_of


def row(number: int) -> dict[str, object]:
    return {"key": f"k{number}", "x": np.arange(number) / 7, "n": np.arange(3, dtype=np.int32), "s": number / 3}


def test_keys_tell_texts_apart() -> None:
    texts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ("\ud800",), ()]
    assert len({key_of(*parts) for parts in texts}) == len(texts)
    assert key_of("a", "b") == key_of("a", "b")


def test_rows_come_back_bit_for_bit(tmp_path: Path) -> None:
    with RowStore(tmp_path, rows_per_part=4) as table:
        for number in range(10):
            table.add(row(number))
    found = RowStore(tmp_path).read(["k0", "k5", "k9", "elsewhere"], ("x", "n", "s"))
    assert found.keys() == {"k0", "k5", "k9"}
    for number in (0, 5, 9):
        assert found[f"k{number}"]["x"].tolist() == (np.arange(number) / 7).tolist()
        assert found[f"k{number}"]["n"].tolist() == [0, 1, 2]
        assert found[f"k{number}"]["n"].dtype == np.int32
        assert found[f"k{number}"]["s"] == number / 3
    assert RowStore(tmp_path).keys() == {f"k{number}" for number in range(10)}
    assert len(list(tmp_path.iterdir())) == 3


def test_others_read_the_folder_as_one_table(tmp_path: Path) -> None:
    with RowStore(tmp_path, rows_per_part=2) as table:
        for number in range(1, 6):
            table.add(row(number))
    found = pyarrow.dataset.dataset(tmp_path).to_table()
    assert sorted(found.column("key").to_pylist()) == ["k1", "k2", "k3", "k4", "k5"]
    assert str(found.schema.field("x").type) == "list<element: double>"


def test_single_precision_stays_single(tmp_path: Path) -> None:
    with RowStore(tmp_path) as table:
        table.add({"key": "a", "u": np.array([0.1, 0.2], np.float32)})
    assert RowStore(tmp_path).read(["a"], ["u"])["a"]["u"].dtype == np.float32


def test_what_a_kill_left_half_written_is_not_there(tmp_path: Path) -> None:
    with RowStore(tmp_path) as table:
        table.add(row(1))
    (tmp_path / "part-00001.tmp").write_bytes(b"PAR1 torn")
    assert RowStore(tmp_path).keys() == {"k1"}
    assert not (tmp_path / "part-00001.tmp").exists()


def test_an_error_on_the_way_keeps_what_was_added(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), RowStore(tmp_path) as table:
        table.add(row(1))
        raise KeyboardInterrupt
    assert RowStore(tmp_path).keys() == {"k1"}


def test_slow_rows_do_not_wait_for_a_full_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 10.0, 30.0, 61.0])
    monkeypatch.setattr(store, "time", SimpleNamespace(monotonic=lambda: next(seconds)))  # of this module only
    table = RowStore(tmp_path)
    table.add(row(1))
    table.add(row(2))
    assert table.keys() == set()
    table.add(row(3))
    assert table.keys() == {"k1", "k2", "k3"}


def test_an_unreadable_part_is_named_and_can_be_deleted(tmp_path: Path) -> None:
    with RowStore(tmp_path, rows_per_part=1) as table:
        for number in range(3):
            table.add(row(number))
    (tmp_path / "part-00000.parquet").write_bytes(b"not parquet")
    for request in (lambda: RowStore(tmp_path).keys(), lambda: RowStore(tmp_path).read(["k1"], ["s"])):
        with pytest.raises(InputError, match=r"part-00000.parquet cannot be read: .* \(delete it: it will be computed"):
            request()
    (tmp_path / "part-00000.parquet").unlink()
    with RowStore(tmp_path) as table:
        assert table.keys() == {"k1", "k2"}
        table.add(row(0))
    assert RowStore(tmp_path).keys() == {"k0", "k1", "k2"}
