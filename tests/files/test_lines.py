"""Reading lines: UTF-8 only, gzip or not, the line counts everybody else has."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quitmt.errors import InputError
from quitmt.files import lines as module
from quitmt.files.lines import read_lines


def read(path: Path | str) -> list[str]:
    async def collect() -> list[str]:
        async with asyncio.timeout(60):
            return [line async for line in read_lines(str(path))]

    return asyncio.run(collect())


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 3)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("compress", [False, True])
@given(text=st.text(alphabet="aé漢😀 \r\n\x85\u2028", max_size=30))
def test_lines_are_those_of_a_text_file(text: str, compress: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    data = text.encode()
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(gzip.compress(data) if compress else data)
    expected = [line.removesuffix("\n").removesuffix("\r") for line in io.StringIO(text, newline="\n")]
    assert read(path) == expected


def test_a_little_that_becomes_very_much_is_never_held_at_once(tmp_path: Path) -> None:
    """Eight megabytes from eight kilobytes."""
    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress((b"a" * 1023 + b"\n") * 8192))

    async def count() -> int:
        return len([None async for _ in read_lines(str(path))])

    tracemalloc.start()
    try:
        assert asyncio.run(count()) == 8192
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert path.stat().st_size < 20_000 and peak < 8 * module.CHUNK_BYTES


def test_several_gzip_members(tmp_path: Path) -> None:
    (tmp_path / "f.gz").write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\nd\n"))
    assert read(tmp_path / "f.gz") == ["a", "bc", "d"]


def test_a_byte_order_mark_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("\ufeffa\nb\ufeff\n".encode())
    assert read(tmp_path / "f") == ["a", "b\ufeff"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, "olá\n\nfim".encode())
    os.close(writing)
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert read("-") == ["olá", "", "fim"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"fine\nol\xe1\n", r"line 2: not UTF-8 \(byte 3 of the line\)"),
        (gzip.compress(b"abc" * 99, mtime=0)[:-10], "ends too early"),
        (b"\x1f\x8b" + b"garbage" * 9, "damaged gzip data"),
    ],
)
def test_bad_files(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "f")


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*nowhere: No such file"):
        read(tmp_path / "nowhere")
    with pytest.raises(InputError, match="cannot read"):
        read(tmp_path)


class Uncopied(bytes):
    """Bytes that may be split and joined, but not added to others one after the other."""

    def __add__(self, _: object) -> bytes:
        raise AssertionError("a long line is copied with every chunk")

    __radd__ = __add__


def test_a_long_line_is_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def chunks(_: str) -> AsyncIterator[bytes]:
        yield b"first\nbegins "
        for _ in range(1000):
            yield Uncopied(b"and goes on ")
        yield Uncopied(b"until here\nlast")

    monkeypatch.setattr(module, "_chunks", chunks)
    assert read("anywhere") == ["first", "begins " + "and goes on " * 1000 + "until here", "last"]


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        read("-")
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    monkeypatch.setattr("sys.stdin", closed)
    with pytest.raises(InputError, match="cannot read standard input"):
        read("-")
