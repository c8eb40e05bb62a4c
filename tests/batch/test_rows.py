"""Input formats, and the errors of unreadable files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from quitmt.batch.rows import InputColumns, InputRow, format_of, read
from quitmt.batch.storage import InputFile, Location, matches
from quitmt.errors import InputError, QuitmtError, UsageError

TEXTS = ["One.", "", "Três — “é”\u2028 ainda", 'Four, "quoted"']


def found(path: Path) -> InputFile:
    return InputFile(Location(str(path)), path.name)


def texts(path: Path, columns: InputColumns | None = None, kind: str | None = None) -> list[str]:
    file = found(path)
    return [row.source for row in read(file, format_of([file], kind), columns or InputColumns())]


def as_text(path: Path) -> None:
    path.write_text("".join(f"{one}\n" for one in TEXTS), "utf-8")


def as_crlf(path: Path) -> None:
    path.write_bytes("\r\n".join(TEXTS).encode())


def as_gzip(path: Path) -> None:
    path.write_bytes(b"".join(gzip.compress(f"{one}\n".encode()) for one in TEXTS))  # several members


def as_zstd(path: Path) -> None:
    with pyarrow.CompressedOutputStream(str(path), "zstd") as file:
        file.write("".join(f"{one}\n" for one in TEXTS).encode())


def as_jsonl(path: Path) -> None:
    path.write_text("\n".join(json.dumps({"n": 1, "source": one}) for one in TEXTS), "utf-8")


def as_csv(path: Path) -> None:
    lines = ["n,source", *('7,"{}"'.format(one.replace('"', '""')) for one in TEXTS)]
    path.write_text("\n".join(lines), "utf-8")


def as_tsv(path: Path) -> None:
    path.write_text("source\tn\n" + "".join(f"{one}\t7\n" for one in TEXTS), "utf-8")


def as_parquet(path: Path) -> None:
    parquet.write_table(pyarrow.table({"source": TEXTS, "n": [1, 2, 3, 4]}), path, row_group_size=3)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.en", as_text),
        ("a.txt", as_crlf),
        ("a.txt.gz", as_gzip),
        ("a.en", as_gzip),
        ("a.txt.zst", as_zstd),
        ("a.jsonl", as_jsonl),
        ("a.csv", as_csv),
        ("a.tsv", as_tsv),
        ("a.parquet", as_parquet),
    ],
)
def test_all_formats_give_the_same_texts(tmp_path: Path, name: str, write: Callable[[Path], None]) -> None:
    write(tmp_path / name)
    assert texts(tmp_path / name) == TEXTS


def test_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"t": "Hi.", "k": 7, "from": "en", "before": "Yo."}\n{"t": null, "k": "x"}\n')
    columns = InputColumns("t", "k", "before")
    assert list(read(found(path), "jsonl", columns)) == [
        InputRow(1, "Hi.", "7", "Yo.", {"from": "en", "before": "Yo."}),
        InputRow(2, "", "x"),
    ]


def test_tables_without_a_header_have_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('x\t"Hi.\ny\tYo."\n')
    assert texts(path, InputColumns("2", header=False)) == ['"Hi.', 'Yo."']


def test_a_record_of_csv_may_span_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('source\n"one\ntwo"\nthree\n')
    assert texts(path) == ["one\ntwo", "three"]


def test_a_column_that_no_record_of_a_json_file_has_is_misspelt(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"source": "a"}\n{"source": "b", "it": "de"}\n')
    assert texts(path, InputColumns(context="it")) == ["a", "b"]
    with pytest.raises(InputError, match=r"^a\.jsonl has no column 'its' \(\w+_column names one of source\)$"):
        texts(path, InputColumns(context="its"))
    path.write_text("\n")
    assert texts(path, InputColumns(context="its")) == [], "a file without records has no names to compare with"


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("a.csv", "\nsource,n\n\nx,1\n  \ny,2\n\n", [(2, "x"), (4, "y")]),
        ("a.tsv", "source\tn\nx\t1\n\n\ny\t2\n\n", [(1, "x"), (4, "y")]),
        ("a.tsv", "source\tn\n\t\nx\t1\n", [(1, ""), (2, "x")]),
        ("a.csv", "\nsource\n\nx\n\ny\n\n", [(1, ""), (2, "x"), (3, ""), (4, "y"), (5, "")]),
        ("a.tsv", "source\n\nx\n", [(1, ""), (2, "x")]),
    ],
)
def test_blank_lines_of_tables_count_and_are_texts_where_there_is_one_column(
    tmp_path: Path, name: str, text: str, rows: list[tuple[int, str]]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert [(row.number, row.source) for row in read(found(path), path.suffix[1:], InputColumns())] == rows


def test_blank_lines_before_a_table_without_a_header(tmp_path: Path) -> None:
    path, columns = tmp_path / "a.tsv", InputColumns("1", header=False)
    path.write_text("\n\nx\n")
    assert [(row.number, row.source) for row in read(found(path), "tsv", columns)] == [(1, ""), (2, ""), (3, "x")]
    path.write_text("\n\nx\t7\n")
    assert [(row.number, row.source) for row in read(found(path), "tsv", columns)] == [(3, "x")]


def test_two_columns_of_a_name_matter_only_if_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("source,note,note\nx,1,2\n")
    assert texts(path) == ["x"]


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    return data[:20] + bytes([data[20] ^ 0xFF]) + data[21:]


BAD: list[tuple[str, bytes, InputColumns, str]] = [
    ("a.gz", cut(gzip.compress(bytes(range(256)) * 9, mtime=0)), InputColumns(), "a.gz: damaged gzip data: "),
    ("a.gz", flipped(gzip.compress(b"one two three four\n" * 9, mtime=0)), InputColumns(), "a.gz: damaged gzip data: "),
    ("a.parquet", b"PAR1 and nothing else", InputColumns(), "a.parquet: damaged Parquet: "),
    ("a.txt", b"fine\nnot \xff fine\n", InputColumns(), "a.txt, line 2: not UTF-8 (byte 5 of the line)"),
    ("a.jsonl", b'{"source": "x"}\n{"source": \n', InputColumns(), "a.jsonl, line 2: not JSON: "),
    ("a.jsonl", b"[1]\n", InputColumns(), "a.jsonl, line 1: must be an object, not list"),
    (
        "a.jsonl",
        b'{"text": "x", "n": 1}\n',
        InputColumns(),
        "a.jsonl has no column 'source' (source_column names one of text, n)",
    ),
    ("a.jsonl", b'{"source": 7}\n', InputColumns(), "a.jsonl, row 1: 'source' must be text, not int"),
    (
        "a.jsonl",
        b'{"source": "\\ud800"}\n',
        InputColumns(),
        "a.jsonl, row 1: 'source' must be text, not invalid Unicode",
    ),
    ("a.jsonl", b'{"source": "x", "k": null}\n', InputColumns(id="k"), "a.jsonl, row 1: there is no id in 'k'"),
    ("a.csv", b"text,n\nx,1\n", InputColumns(), "a.csv has no column 'source' (source_column names one of text, n)"),
    ("a.csv", b"source,n\nx,1\ny\n", InputColumns(), "a.csv, row 2: 1 columns instead of 2"),
    ("a.csv", b"k,source\n,x\n", InputColumns(id="k"), "a.csv, row 1: there is no id in 'k'"),
    (
        "a.csv",
        b'source,n\nx,1\n"y,1\nz,1\n',
        InputColumns(),
        "a.csv, line 3: a quote is never closed (close",
    ),
    ("a.csv", b'source,n\nx,1\n"y,1\n"z",1\n', InputColumns(), "a.csv, line 3: ',' expected after '\"'"),
    ("a.csv", b"source,source\nx,1\n", InputColumns(), "a.csv has 2 columns 'source' (rename all but one)"),
    ("a.tsv", b"n\tk\tk\nx\t1\t2\n", InputColumns("n", "k"), "a.tsv has 2 columns 'k' (rename all but one)"),
    ("a.txt", b"x\n", InputColumns(id="k"), "a.txt is plain text, which has no column for the id"),
]


@pytest.mark.parametrize(("name", "data", "columns", "said"), BAD)
def test_bad_files_are_named_in_one_sentence(
    tmp_path: Path, name: str, data: bytes, columns: InputColumns, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(QuitmtError) as caught:
        texts(path, columns)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_parquet_file_that_is_damaged_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    as_parquet(path)
    data = path.read_bytes()
    path.write_bytes(data[:10] + b"\x00" * 60 + data[70:])
    with pytest.raises(InputError, match=r"^a\.parquet: damaged Parquet: "):
        texts(path)


def test_a_parquet_file_without_the_column_says_which_there_are(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    as_parquet(path)
    with pytest.raises(InputError, match=r"^a\.parquet has no column 'text' \(source_column names one of source, n\)$"):
        texts(path, InputColumns("text"))


def test_formats_are_not_mixed(tmp_path: Path) -> None:
    files: list[Any] = [found(tmp_path / name) for name in ("a.txt.gz", "b.parquet")]
    with pytest.raises(UsageError, match=r"must have one format, but a\.txt\.gz is text and b\.parquet is parquet"):
        format_of(files)
    assert format_of(files, "text") == "text"
    with pytest.raises(UsageError, match=r"unknown format 'parket'.*did you mean 'parquet'"):
        format_of(files, "parket")


def test_patterns_match_in_order_and_name_files_below_their_folder(tmp_path: Path) -> None:
    for name in ("de/b.txt", "de/a.txt", "fr/a.txt", "fr/.hidden.txt", "fr/_own/a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n")
    assert [file.name for file in matches(f"{tmp_path}/*/*.txt")] == ["de/a.txt", "de/b.txt", "fr/a.txt"]
    assert [file.name for file in matches(f"{tmp_path}/de/*")] == ["a.txt", "b.txt"]
    assert [file.name for file in matches(str(tmp_path))] == ["de/a.txt", "de/b.txt", "fr/a.txt"]
    assert [file.name for file in matches(f"file://{tmp_path}/de/a.txt")] == ["a.txt"]
    with pytest.raises(InputError, match=r"^no file matches .*nothing"):
        matches(f"{tmp_path}/nothing*")
    with pytest.raises(InputError, match=r"^there is no file .*nothing\.txt$"):
        matches(f"{tmp_path}/nothing.txt")
