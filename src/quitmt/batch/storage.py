"""Files wherever they are: local paths, and addresses such as s3://bucket/folder, by fsspec or by pyarrow.

Invariant: ``write`` leaves a whole file or none, also when the process or the machine dies in the middle of it. Two
that write the same file at once leave that of one of them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from quitmt.errors import InputError, MissingExtra, OutputError, QuitmtError, UsageError

INSTALL = "pip install 'quitmt[batch]'"
WHOLE_WRITES = frozenset(("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "memory"))
"""Stores in which a file appears when it is complete, and cannot be renamed cheaply."""
MAGIC = "*?["


@dataclass(frozen=True)
class Location:
    """A file or a folder, by a path or an address. Can be sent to other processes."""

    url: str

    @cached_property
    def _found(self) -> tuple[Any, str]:
        return file_system(self.url)

    @property
    def system(self) -> Any:
        return self._found[0]

    @property
    def path(self) -> str:
        """As the file system has it."""
        return self._found[1]

    @property
    def is_local(self) -> bool:
        return "://" not in self.url or self.url.startswith("file://")

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.url.rstrip('/')}/{name}")

    def __reduce__(self) -> Any:
        return Location, (self.url,)

    def exists(self) -> bool:
        with unreadable(self.url):
            return bool(self.system.exists(self.path))

    def names(self) -> set[str]:
        """Of the files in a folder; none if there is no such folder."""
        self.system.invalidate_cache()
        try:
            found = self.system.ls(self.path, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return set()
        return {one.rstrip("/").rpartition("/")[2] for one in found}

    def read(self) -> bytes:
        with unreadable(self.url):
            return bytes(self.system.cat_file(self.path))

    def open(self) -> Any:
        with unreadable(self.url):
            return self.system.open(self.path, "rb")

    def size(self) -> int:
        with unreadable(self.url):
            return int(self.system.size(self.path) or 0)

    def edges(self, length: int = 1 << 16) -> bytes:
        """How it begins and ends."""
        with unreadable(self.url), self.system.open(self.path, "rb") as file:
            head = file.read(length)
            file.seek(max(len(head), self.size() - length))
            return bytes(head + file.read(length))

    def make_folder(self) -> None:
        with unwritable(self.url):
            self.system.makedirs(self.path, exist_ok=True)

    def write(self, data: bytes) -> None:
        with unwritable(self.url):
            if self.is_local:
                _write_local(Path(self.path), data)
            elif self.url.partition("://")[0] in WHOLE_WRITES:
                self.system.pipe_file(self.path, data)
            else:
                temporary = f"{self.path}.{uuid.uuid4().hex}.tmp"
                self.system.pipe_file(temporary, data)
                self.system.mv(temporary, self.path)

    def remove(self) -> None:
        """A file, or a folder with all that is in it; no matter if it is not there."""
        with unwritable(self.url), suppress(FileNotFoundError):
            self.system.rm(self.path, recursive=True)


def _write_local(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def file_system(url: str) -> tuple[Any, str]:
    """An fsspec file system and the path within it. Where fsspec lacks a package for an address, pyarrow may do."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingExtra(f"quitmt batch needs {error.name}", hint=INSTALL) from None
    try:
        system, path = url_to_fs(url)
        return system, str(path)
    except ImportError as error:
        return _arrow(url, str(error))
    except ValueError as error:
        raise UsageError(f"{url}: {error}", hint="name a path, or an address such as s3://bucket/folder") from None


def _arrow(url: str, lacking: str) -> tuple[Any, str]:
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem

    try:
        system, path = FileSystem.from_uri(url)
    except (ArrowException, OSError, ValueError):
        raise UsageError(f"{url} cannot be reached: {lacking}") from None
    return ArrowFSWrapper(system), path


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a pattern matches."""

    place: Location
    name: str
    """Its path below the folder that the pattern begins with: part of the ids of its rows."""


def matches(pattern: str) -> list[InputFile]:
    """The files that a path, an address or a pattern means, in alphabetical order; a folder means all in it."""
    place = Location(pattern)
    system, path = place.system, place.path
    with unreadable(pattern):
        if not any(sign in pattern for sign in MAGIC):
            if not system.exists(path):
                raise InputError(f"there is no file {pattern}")
            if not system.isdir(path):
                return [InputFile(place, path.rpartition("/")[2])]
            path = f"{path.rstrip('/')}/**"
        found = sorted(one for one in system.glob(path) if not system.isdir(one))
        fixed = _fixed(path)
        visible = [one for one in found if not any(part[:1] in "._" for part in one[len(fixed) :].split("/"))]
    if not visible:
        raise InputError(f"no file matches {pattern}", hint="quote a pattern, so that the shell leaves it alone")
    return [InputFile(Location(_address(place, one)), one[len(fixed) :]) for one in visible]


def _fixed(path: str) -> str:
    """The folder that a pattern begins with, before anything that matches."""
    first = min(index for index in (path.find(sign) for sign in MAGIC) if index >= 0)
    return path[: path.rfind("/", 0, first) + 1]


def _address(place: Location, path: str) -> str:
    return path if place.is_local else str(place.system.unstrip_protocol(path))


@contextmanager
def unreadable(url: str) -> Iterator[None]:
    try:
        yield
    except QuitmtError:
        raise
    except Exception as error:  # every file system has errors of its own
        raise InputError(f"cannot read {url}: {told(error)}") from None


@contextmanager
def unwritable(url: str) -> Iterator[None]:
    try:
        yield
    except QuitmtError:
        raise
    except Exception as error:
        raise OutputError(f"cannot write {url}: {told(error)}") from None


def told(error: BaseException) -> str:
    """What an error of others says, on one line."""
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(said).split())
