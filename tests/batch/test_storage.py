"""Foreign file systems: their errors become one sentence, and files are complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from quitmt.batch import cluster
from quitmt.batch.rows import InputColumns, read
from quitmt.batch.storage import InputFile, Location, covers, matches
from quitmt.errors import QuitmtError
from tests.conftest import Ran


class CannotConnect(Exception):
    """Like botocore's errors, not an OSError."""


class DeadFileSystem(MemoryFileSystem):
    """A file system on which every operation fails."""

    protocol = "dead"

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise CannotConnect("no route\nto host")

    info = ls = open = cat_file = size = makedirs = pipe_file = mv = rm = rm_file = glob = exists = isdir = _fail
    invalidate_cache = _fail


class LateFileSystem(MemoryFileSystem):
    """A file system that cannot be created."""

    protocol = "late"

    def __init__(self, *_: Any, **__: Any) -> None:
        raise CannotConnect("no route\nto host")


class StrictFileSystem(MemoryFileSystem):
    """A file system that doesn't replace files, like HDFS, and records their names."""

    protocol = "strict"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    written: ClassVar[list[str]] = []

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **more: Any) -> None:
        self.written.append(path)
        super().pipe_file(path, value, mode, **more)

    def mv(self, path1: str, path2: str, **more: Any) -> None:
        if self.exists(path2):
            raise CannotConnect(f"{path2} is there")
        super().mv(path1, path2, **more)


@pytest.fixture(autouse=True)
def file_systems() -> Iterator[None]:
    for one in (DeadFileSystem, LateFileSystem, StrictFileSystem):
        fsspec.register_implementation(str(one.protocol), one, clobber=True)
    StrictFileSystem.store.clear()
    StrictFileSystem.written.clear()
    yield


CALLS: dict[str, Callable[[Location], object]] = {
    "exists": Location.exists,
    "names": Location.names,
    "read": Location.read,
    "open": Location.open,
    "size": Location.size,
    "edges": Location.edges,
    "make_folder": Location.make_folder,
    "write": lambda place: place.write(b"x"),
    "remove": Location.remove,
    "matches": lambda place: matches(place.url),
    "matches of a pattern": lambda place: matches(f"{place.url}/*"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("system", ["dead", "late"])
def test_whatever_a_file_system_raises_is_one_sentence_with_the_place(call: str, system: str) -> None:
    with pytest.raises(QuitmtError, match=rf"^.*{system}://bucket/out.*: no route to host$"):
        CALLS[call](Location(f"{system}://bucket/out"))


def test_an_unreachable_folder_is_not_taken_for_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec's glob skips folders that it cannot list."""
    monkeypatch.setattr(DeadFileSystem, "glob", lambda *_, **__: [])
    with pytest.raises(QuitmtError, match=r"^cannot read dead://.*: no route to host$"):
        matches("dead://bucket/*.txt")


def test_a_job_with_an_output_that_cannot_be_reached(
    quitmt: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "check_installed", lambda: None)
    (tmp_path / "a.txt").write_text("x\n")
    ran = quitmt("batch", tmp_path / "a.txt", "-o", "dead://bucket/out", "--model", "tests.batch.functions:words")
    assert ran.code == 2 and "cannot read dead://bucket/out: no route to host" in ran.err


def test_a_file_that_is_read_in_vain_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Opened:
        closed = False

        def read(self, length: int) -> bytes:
            if length > 4:
                raise CannotConnect("no route\nto host")
            return b"x"

        def seek(self, *_: int) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(DeadFileSystem, "open", lambda *_, **__: Opened())
    for kind in ("text", "parquet"):
        with pytest.raises(QuitmtError, match=r"^a\.txt: cannot be read: "):
            list(read(InputFile(Location("dead://bucket/a.txt"), "a.txt"), kind, InputColumns()))


def test_a_file_is_written_under_a_hidden_name_and_replaces_another() -> None:
    place = Location("strict://out/part-0")
    place.write(b"one")
    place.write(b"two")
    assert place.read() == b"two"
    assert Location("strict://out").names() == {"part-0"}
    names = [path.rpartition("/")[2] for path in StrictFileSystem.written]
    assert len({*names}) == 2 and all(name.startswith(".part-0.") for name in names)


def test_a_file_that_cannot_be_moved_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Location("strict://out/part-0")
    monkeypatch.setattr(StrictFileSystem, "mv", DeadFileSystem._fail)
    with pytest.raises(QuitmtError, match=r"^cannot write strict://out/part-0: no route to host$"):
        place.write(b"one")
    assert Location("strict://out").names() == set()


@pytest.mark.parametrize(
    ("pattern", "output", "is_among"),
    [
        ("{}", "{}", True),
        ("{}", "{}/out", True),
        ("{}/", "{}/a/out", True),
        ("file://{}", "{}/out/", True),
        ("{}/a/..", "{}/out", True),
        ("{}/link", "{}/a/out", True),
        ("{}/*", "{}/out", False),
        ("{}/**", "{}/a/out", True),
        ("{}/*/*.parquet", "{}/out", True),
        ("{}/link/*/*.parquet", "{}/a/out", True),
        ("memory://in", "memory://in/out", True),
        ("memory://in/**/*", "memory://in/out", True),
        ("{}", "{}/_out", False),
        ("{}/**", "{}/.out", False),
        ("{}", "{}-out", False),
        ("{}/a", "{}/out", False),
        ("{}/a.txt", "{}/out", False),
        ("{}/*.txt", "{}/out", False),
        ("{}/*/*.txt", "{}/out", False),
        ("{}", "memory://out", False),
        ("memory://in", "memory://inner", False),
    ],
)
def test_whether_an_output_is_among_the_inputs(tmp_path: Path, pattern: str, output: str, *, is_among: bool) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    here = str(tmp_path)
    place = Location(output.replace("{}", here))
    assert covers(pattern.replace("{}", here), place, "part-000000.parquet") is is_among


def test_an_output_among_the_inputs_is_refused(
    quitmt: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("x\n")
    monkeypatch.chdir(tmp_path)
    ran = quitmt("batch", "in", "-o", "in/out", "--model", "tests.batch.functions:words")
    assert ran.code == 2 and "the output in/out would be among the inputs in (choose a folder outside" in ran.err
    assert not (tmp_path / "in" / "out").exists()
