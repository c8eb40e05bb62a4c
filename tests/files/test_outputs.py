"""Outputs: to one run alone, gzip by name, and really there in the end."""

from __future__ import annotations

import fcntl
import gzip
import os
import zlib
from pathlib import Path

import pytest

from quitmt.errors import OutputError
from quitmt.files.locks import open_alone, same_file
from quitmt.files.outputs import READABLE_BYTES, Output


def written(path: Path, lines: list[str]) -> Path:
    output = Output(str(path))
    for line in lines:
        output.write(line)
        output.flush()
    output.settle()
    output.close()
    return path


def test_gzip_by_name(tmp_path: Path) -> None:
    lines = [f"linha {i} é" for i in range(3000)]
    packed = written(tmp_path / "x.gz", lines)
    assert gzip.decompress(packed.read_bytes()) == written(tmp_path / "x", lines).read_bytes()
    assert packed.stat().st_size < (tmp_path / "x").stat().st_size / 3
    assert packed.read_bytes() == written(tmp_path / "y.gz", lines).read_bytes()


def test_an_empty_gzip_file_is_one(tmp_path: Path) -> None:
    assert gzip.decompress(written(tmp_path / "x.gz", []).read_bytes()) == b""


def test_a_gzip_file_is_readable_while_it_is_written(tmp_path: Path) -> None:
    """So it is when its run is killed: all but the last few lines."""
    output, lines = Output(str(tmp_path / "x.gz")), [f"{i} {os.urandom(8).hex()}" for i in range(3000)]
    for line in lines:
        output.write(line)
        output.flush()
    found = zlib.decompressobj(wbits=31).decompress((tmp_path / "x.gz").read_bytes())
    output.close()
    whole = "".join(f"{line}\n" for line in lines).encode()
    assert whole.startswith(found) and len(whole) - len(found) < READABLE_BYTES + 100


def test_what_the_file_held_before_is_gone(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("before\n" * 100)
    assert written(tmp_path / "x", ["new"]).read_text() == "new\n"


def test_half_of_a_surrogate_pair_is_written_as_unknown(tmp_path: Path) -> None:
    assert written(tmp_path / "x", ["a\ud83d"]).read_text() == "a\ufffd\n"


def test_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("before\n")
    first = Output(str(path))
    with pytest.raises(OutputError, match=r"another run is writing to .*x"):
        Output(str(path))
    first.close()
    Output(str(path)).close()
    assert path.read_text() == "before\n"
    Output("/dev/null").close()
    both = Output("/dev/null"), Output("/dev/null")
    for one in both:
        one.write("x")
        one.settle()
        one.close()


def test_a_file_that_was_deleted_before_it_was_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever had it deletes it between our opening and our locking it: ours must be the one at the path."""
    path, real = tmp_path / "x", fcntl.flock
    path.write_text("of the other run")

    def late(descriptor: int, operation: int) -> None:
        if path.exists() and path.read_text():
            path.unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    descriptor = open_alone(path, os.O_WRONLY)
    os.write(descriptor, b"ours")
    os.close(descriptor)
    assert path.read_bytes() == b"ours"


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_what_is_not_there_in_the_end_is_noticed(how: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    output = Output(str(path))
    output.write("line")
    path.rename(tmp_path / "elsewhere") if how == "moved" else path.unlink()
    if how == "replaced":
        path.write_text("line\n")
    with pytest.raises(OutputError, match="x was moved, deleted or replaced while it was written"):
        output.settle()
    output.close()


def test_an_output_that_is_not_used_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("kept")
    for name in ("there", "new"):
        Output(str(tmp_path / name)).close()
    assert [path.name for path in tmp_path.iterdir()] == ["there"] and (tmp_path / "there").read_text() == "kept"


def test_one_file_by_several_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "hard").hardlink_to(tmp_path / "a")
    (tmp_path / "soft").symlink_to(tmp_path / "a")
    (tmp_path / "b").write_text("")
    names = ("a", "hard", "soft", "b", "missing")
    assert [same_file(str(tmp_path / "a"), str(tmp_path / name)) for name in names] == [True, True, True, False, False]
