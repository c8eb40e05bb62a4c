"""Reads and writes files at local paths and at addresses such as s3://bucket/folder, through fsspec or pyarrow.

Invariants: ``write`` leaves a complete file or none, even if the process or the machine dies halfway. If two processes
write the same file at once, one of the two versions remains. Every error that leaves this module is one sentence with
the place and the reason.
"""

from __future__ import annotations

import os
import re
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
"""Stores that show a file only once it is complete, and cannot rename cheaply."""
MAGIC = "*?["


@dataclass(frozen=True)
class Location:
    """A file or a folder, given as a path or an address. Locations can be pickled."""

    url: str

    @cached_property
    def _found(self) -> tuple[Any, str]:
        return file_system(self.url)

    @property
    def system(self) -> Any:
        return self._found[0]

    @property
    def path(self) -> str:
        """The path within its file system."""
        return self._found[1]

    @property
    def real_path(self) -> str:
        """The path for comparisons; symbolic links are resolved only on this machine."""
        return os.path.realpath(self.path) if self.is_local else self.path.rstrip("/")

    @property
    def is_local(self) -> bool:
        return "://" not in self.url or self.url.startswith("file://")

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.url.rstrip('/')}/{name}")

    def __reduce__(self) -> Any:
        return Location, (self.url,)

    def kind(self) -> str | None:
        """Returns ``file``, ``directory`` or None. (fsspec's ``exists`` also returns False for places that cannot be
        reached.)"""
        with unreadable(self.url):
            try:
                return str(self.system.info(self.path)["type"])
            except (FileNotFoundError, NotADirectoryError):
                return None

    def exists(self) -> bool:
        return self.kind() is not None

    def names(self) -> set[str]:
        """Lists the names in a folder; empty if the folder doesn't exist."""
        with unreadable(self.url):
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
        """The beginning and the end of the file."""
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
                self._write_and_move(data)

    def _write_and_move(self, data: bytes) -> None:
        temporary = _temporary(self.path)
        try:
            self.system.pipe_file(temporary, data)
            try:
                self.system.mv(temporary, self.path)
            except Exception:  # each file system has its own error for an existing file
                if not self.exists():
                    raise
                # HDFS doesn't replace files. A crash between these two lines leaves no file; a rerun writes it.
                self.system.rm_file(self.path)
                self.system.mv(temporary, self.path)
        except BaseException:
            with suppress(Exception):
                self.system.rm_file(temporary)
            raise

    def remove(self) -> None:
        """Removes a file or a whole folder, if it exists."""
        with unwritable(self.url), suppress(FileNotFoundError):
            self.system.rm(self.path, recursive=True)


def _temporary(path: str) -> str:
    """A hidden name, so that readers of the folder ignore the file."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.{uuid.uuid4().hex}.tmp"


def _write_local(path: Path, data: bytes) -> None:
    temporary = Path(_temporary(str(path)))
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
    """Finds an fsspec file system and the path within it; pyarrow is tried if fsspec lacks a package."""
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
        raise UsageError(f"{url}: {error}", hint="give a path, or an address such as s3://bucket/folder") from None
    except Exception as error:  # some file systems log in here
        raise UsageError(f"{url} cannot be reached: {message_of(error)}") from None


def _arrow(url: str, lacking: str) -> tuple[Any, str]:
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow.fs import FileSystem

    try:
        system, path = FileSystem.from_uri(url)
    except Exception:
        raise UsageError(f"{url} cannot be reached: {lacking}") from None
    return ArrowFSWrapper(system), path


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a pattern matches."""

    place: Location
    name: str
    """The path below the folder that the pattern begins with. Row ids contain it."""


def matches(pattern: str) -> list[InputFile]:
    """Lists the files that a path, an address or a pattern stands for, in alphabetical order. A folder stands for all
    files in it."""
    place = Location(pattern)
    system, path = place.system, place.path
    if not _is_pattern(pattern):
        if (kind := place.kind()) is None:
            raise InputError(f"there is no file {pattern}")
        if kind != "directory":
            return [InputFile(place, path.rpartition("/")[2])]
        path = f"{path.rstrip('/')}/**"
    root = _root(path)
    with unreadable(pattern):
        found = sorted(one for one in system.glob(path) if not system.isdir(one))
        visible = [one for one in found if not _is_hidden(one[len(root) :])]
    if not visible:
        Location(_address(place, root)).names()  # if the folder is unreadable, raises an error that says why
        raise InputError(f"no file matches {pattern}", hint="quote a pattern, so that the shell leaves it alone")
    return [InputFile(Location(_address(place, one)), one[len(root) :]) for one in visible]


def covers(pattern: str, folder: Location, name: str) -> bool:
    """Whether a pattern or a folder, used as input, would include the file ``name`` in ``folder``."""
    from fsspec.utils import glob_translate

    place = Location(pattern)
    if type(place.system) is not type(folder.system):
        return False
    path, inner = place.real_path, folder.real_path
    if not _is_pattern(pattern):
        return f"{inner}/".startswith(f"{path}/") and (inner == path or not _is_hidden(inner[len(path) + 1 :]))
    file = f"{inner}/{name}"
    return bool(re.match(glob_translate(path), file)) and not _is_hidden(file[len(_root(path)) :])


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in MAGIC)


def _is_hidden(path: str) -> bool:
    return any(part[:1] in "._" for part in path.split("/"))


def _root(path: str) -> str:
    """The folder that a pattern begins with, before its first wildcard."""
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
    except Exception as error:  # every file system has its own errors
        raise InputError(f"cannot read {url}: {message_of(error)}") from None


@contextmanager
def unwritable(url: str) -> Iterator[None]:
    try:
        yield
    except QuitmtError:
        raise
    except Exception as error:
        raise OutputError(f"cannot write {url}: {message_of(error)}") from None


def message_of(error: BaseException) -> str:
    """The message of another library's error, on one line."""
    message = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(message).split())
